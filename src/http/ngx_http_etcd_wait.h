
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_wait" in http.
 */


#ifndef _NGX_HTTP_ETCD_WAIT_H_INCLUDED_
#define _NGX_HTTP_ETCD_WAIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


/*
 * Pauses a request in a phase.
 */

/*
 * For phase handlers: pauses the request before the handler returns
 * NGX_AGAIN.  If the client closes the connection, the request ends.
 */
void ngx_http_etcd_pause(ngx_http_request_t *r);

/* Returns 1 if the request is paused. */
ngx_uint_t ngx_http_etcd_pause_active(ngx_http_request_t *r);

/*
 * Returns 1 if the request is still in the pause that began with so many
 * "uri_changes" left.  After the client has left, "post_action" goes on with a
 * request that waits.
 */
ngx_uint_t ngx_http_etcd_pause_lasts(ngx_http_request_t *r, ngx_uint_t changes);

/* Runs the phases again, from the handler that has paused the request. */
void ngx_http_etcd_pause_end(ngx_http_request_t *r);

/*
 * Called by the balancer: makes nginx treat the request as having left its
 * upstream, which nginx derives from the missing cleanup: on the balancer's
 * error nginx only drops a reference.  The upstream itself remains, including a
 * lock in the cache.  One of the functions below must follow.
 */
void ngx_http_etcd_pause_detach(ngx_http_request_t *r);

/*
 * Starts the upstream of a detached request again, which pushes another state.
 *
 * nginx tests "proxy_cache_bypass" only when r->cache is created, and would
 * take an update of an expired response that this request has begun for one by
 * another request: in both cases the cache is asked as for a new request.
 */
void ngx_http_etcd_pause_restart(ngx_http_request_t *r);

/*
 * For a detached request that does not return to its upstream: unlocks the
 * cache, as nginx does when a request leaves its upstream.
 */
void ngx_http_etcd_pause_release(ngx_http_request_t *r);


/* Phase handler; NGX_DECLINED: no need to wait. */
ngx_int_t ngx_http_etcd_wait_handler(ngx_http_request_t *r);

/* Returns 1 if other requests come first, as ngx_etcd_wait_yields(). */
ngx_uint_t ngx_http_etcd_wait_yields(ngx_http_request_t *r,
    ngx_etcd_table_t *table);

/*
 * Called by the balancer when it has no first peer.  NGX_AGAIN: the request
 * is held; the balancer returns NGX_ERROR, which does not end the request.
 * The request is built again and the balancer asked again later, or at once
 * if "again" is set and there is a peer.  NGX_DECLINED: there is nothing to
 * wait for.
 */
ngx_int_t ngx_http_etcd_wait_peer(ngx_http_request_t *r,
    ngx_etcd_table_t *table, ngx_uint_t again);

/* Ends the wait of a request; returns 1 if it was waiting. */
ngx_uint_t ngx_http_etcd_wait_abandon(ngx_http_request_t *r);


/* ms that the request has waited in all, without its subrequests */
ngx_msec_t ngx_http_etcd_wait_time(ngx_http_request_t *r);


#endif /* _NGX_HTTP_ETCD_WAIT_H_INCLUDED_ */
