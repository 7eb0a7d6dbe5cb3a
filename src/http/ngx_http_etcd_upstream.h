
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The balancer of upstreams in http.
 */


#ifndef _NGX_HTTP_ETCD_UPSTREAM_H_INCLUDED_
#define _NGX_HTTP_ETCD_UPSTREAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


/* handler of etcd_members and etcd_leader */
char *ngx_http_etcd_upstream_members(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_etcd_upstream_balance(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_etcd_upstream_checks(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * Ends a request that uses an upstream: closes the connection to the
 * upstream; the client gets the status or, if a response was started, the end
 * of the connection.
 */
void ngx_http_etcd_upstream_cut(ngx_http_request_t *r, ngx_int_t status);

/* Returns NULL if the request does not use an upstream of this module. */
ngx_etcd_peer_data_t *ngx_http_etcd_upstream_peer_data(ngx_http_request_t *r);


#endif /* _NGX_HTTP_ETCD_UPSTREAM_H_INCLUDED_ */
