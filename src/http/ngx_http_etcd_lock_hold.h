
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Keeps the locks of a request while an upstream may still work on it.
 */


#ifndef _NGX_HTTP_ETCD_LOCK_HOLD_H_INCLUDED_
#define _NGX_HTTP_ETCD_LOCK_HOLD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


/*
 * Called before a request or subrequest requests its first lock: its locks
 * are then ended by ngx_http_etcd_lock_hold_end().
 */
ngx_int_t ngx_http_etcd_lock_hold_init(ngx_http_request_t *r);

/* Releases the lock, or keeps it while an upstream works. */
void ngx_http_etcd_lock_hold_end(ngx_http_request_t *r,
    ngx_etcd_request_lock_t *rl);

/*
 * Called after the phases, before the content handler.  NGX_OK or NGX_ERROR.
 */
ngx_int_t ngx_http_etcd_lock_hold_guard(ngx_http_request_t *r);

/* Must be called after each ngx_http_upstream_init(). */
void ngx_http_etcd_lock_hold_attach(ngx_http_request_t *r);

/*
 * Called for a background subrequest that begins its response: nginx may have
 * started it without the phases.  NGX_OK or NGX_ERROR.
 */
ngx_int_t ngx_http_etcd_lock_hold_note(ngx_http_request_t *r);

/*
 * Called before nginx itself ends the request with its subrequests: their
 * upstreams must notice that.
 */
void ngx_http_etcd_lock_hold_cut(ngx_http_request_t *r);

/*
 * Returns a background subrequest of the request that uses an upstream; NULL:
 * none.
 */
ngx_http_request_t *ngx_http_etcd_lock_hold_background(ngx_http_request_t *r);

/* Returns 1 for the owner, its subrequests, and the subrequests of these. */

ngx_uint_t ngx_http_etcd_lock_hold_below(ngx_http_request_t *r,
    ngx_http_request_t *owner);


#endif /* _NGX_HTTP_ETCD_LOCK_HOLD_H_INCLUDED_ */
