
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_wait" in stream.
 */


#ifndef _NGX_STREAM_ETCD_WAIT_H_INCLUDED_
#define _NGX_STREAM_ETCD_WAIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd.h>


char *ngx_stream_etcd_wait(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* NGX_DECLINED: no need to wait; NGX_DONE: the session is paused. */
ngx_int_t ngx_stream_etcd_wait_handler(ngx_stream_session_t *s);

/*
 * With "full" a session has a connection reserved when the handler returns
 * NGX_DECLINED.  The balancer of the upstream takes it as the first peer: NULL,
 * none is reserved.  ngx_stream_etcd_wait_release() gives back what was not
 * taken, after the session was handed over; the session may be gone.
 */
ngx_etcd_peer_data_t *ngx_stream_etcd_wait_reserved(ngx_stream_session_t *s,
    ngx_etcd_upstream_t *upstream);
void ngx_stream_etcd_wait_release(void);

/* Returns 1 if connections to this server wait for that upstream. */
ngx_uint_t ngx_stream_etcd_wait_for(ngx_stream_session_t *s,
    ngx_etcd_service_conf_t *service);


#endif /* _NGX_STREAM_ETCD_WAIT_H_INCLUDED_ */
