
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The "api_*" parameters of "etcd_leader": TLS to the APIs of members.
 */


#ifndef _NGX_ETCD_LEADER_API_H_INCLUDED_
#define _NGX_ETCD_LEADER_API_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_service.h>


/* Called after the last parameter: loads the files; logs errors. */
ngx_int_t ngx_etcd_leader_api_done(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service);


#endif /* _NGX_ETCD_LEADER_API_H_INCLUDED_ */
