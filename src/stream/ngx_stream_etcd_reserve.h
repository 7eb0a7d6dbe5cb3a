
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The connection that is reserved for a session while it is handed over to its
 * content handler: there is one such session at a time.
 */


#ifndef _NGX_STREAM_ETCD_RESERVE_H_INCLUDED_
#define _NGX_STREAM_ETCD_RESERVE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd.h>


/*
 * Reserves a connection, in place of another session's: NGX_OK, or the error
 * of ngx_etcd_pick_early().
 */
ngx_int_t ngx_stream_etcd_reserve(ngx_stream_session_t *s,
    ngx_etcd_peer_data_t *pd);

/*
 * Called by the balancer, which uses these peer data as its own.  NULL: nothing
 * is reserved for the session in that upstream.
 */
ngx_etcd_peer_data_t *ngx_stream_etcd_reserve_take(ngx_stream_session_t *s,
    ngx_etcd_upstream_t *upstream);

/* Gives back what was not taken, if anything; the session may be gone. */
void ngx_stream_etcd_reserve_release(void);

/* Called before the session ends: its peer data give back what they have. */
void ngx_stream_etcd_reserve_forget(ngx_stream_session_t *s);


#endif /* _NGX_STREAM_ETCD_RESERVE_H_INCLUDED_ */
