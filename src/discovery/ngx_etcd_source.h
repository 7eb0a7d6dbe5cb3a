
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The choice of a service's source.
 */


#ifndef _NGX_ETCD_SOURCE_H_INCLUDED_
#define _NGX_ETCD_SOURCE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_service.h>


/* The source for a configuration that is complete. */
const ngx_etcd_source_t *ngx_etcd_source(ngx_etcd_service_conf_t *conf);


#endif /* _NGX_ETCD_SOURCE_H_INCLUDED_ */
