
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


/* Parameter setters: NGX_OK, NGX_ERROR (invalid), or NGX_ABORT (logged). */

ngx_int_t ngx_etcd_leader_api_trusted(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);
ngx_int_t ngx_etcd_leader_api_certificate(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);
ngx_int_t ngx_etcd_leader_api_key(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);
ngx_int_t ngx_etcd_leader_api_verify(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);

/* Called after the last parameter: loads the files; logs errors. */
ngx_int_t ngx_etcd_leader_api_done(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service);


#endif /* _NGX_ETCD_LEADER_API_H_INCLUDED_ */
