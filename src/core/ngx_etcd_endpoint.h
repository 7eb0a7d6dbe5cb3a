
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The "endpoints" directive of an "etcd" block.
 */


#ifndef _NGX_ETCD_ENDPOINT_H_INCLUDED_
#define _NGX_ETCD_ENDPOINT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_module.h>


/* its handler; the conf is an ngx_etcd_conf_t */
char *ngx_etcd_endpoints(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


#endif /* _NGX_ETCD_ENDPOINT_H_INCLUDED_ */
