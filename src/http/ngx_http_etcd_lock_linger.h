
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Connections to upstreams that nginx has given up while the upstream may
 * still work on the request: the client has closed its connection, or a
 * timeout has expired.  Such a connection is taken from the request and read
 * until the response ends or the upstream closes the connection, for a limited
 * time.  The locks of the request are kept until then.
 *
 * The data of the upstream is discarded, and the upstream notices nothing.  If
 * the end of the response cannot be found for certain (see
 * ngx_http_etcd_lock_response.h), the response seems to have ended, and the
 * upstream sends nothing for NGX_HTTP_ETCD_LOCK_LINGER_QUIET, nginx shuts down
 * its side of the connection (TCP half-close), so that an upstream that keeps
 * connections alive closes the connection.
 *
 * One linger serves a main request with all its subrequests.  The linger is
 * not allocated from the request's pool, and frees itself when it is detached
 * and its last connection has been closed.
 */


#ifndef _NGX_HTTP_ETCD_LOCK_LINGER_H_INCLUDED_
#define _NGX_HTTP_ETCD_LOCK_LINGER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_lock_hold.h>
#include <ngx_etcd_pick.h>


#define NGX_HTTP_ETCD_LOCK_LINGER_QUIET  1000      /* ms */


typedef struct ngx_http_etcd_lock_linger_s  ngx_http_etcd_lock_linger_t;


/* NULL: no memory. */
ngx_http_etcd_lock_linger_t *ngx_http_etcd_lock_linger_create(void);

/*
 * Takes the connection from the peer connection of the request, for at most
 * "max" ms.  half_close: shuts down nginx's side of the connection at once.
 * The connection counts for its member, as "kept" says, until it is closed.
 * NGX_ERROR: no memory; the request keeps the connection.
 */
ngx_int_t ngx_http_etcd_lock_linger_add(ngx_http_etcd_lock_linger_t *linger,
    ngx_http_request_t *r, ngx_msec_t max, ngx_uint_t half_close,
    ngx_etcd_kept_t *kept);

/*
 * Called when the request, or one of its subrequests, is given up: releases
 * the lock, or keeps it while a connection of the owner, or of a subrequest of
 * the owner, lingers.
 */
void ngx_http_etcd_lock_linger_end(ngx_http_etcd_lock_linger_t *linger,
    ngx_etcd_request_lock_t *rl);

/*
 * Called before the main request is freed.  The linger must not be used
 * afterwards.
 */
void ngx_http_etcd_lock_linger_detach(ngx_http_etcd_lock_linger_t *linger);


#endif /* _NGX_HTTP_ETCD_LOCK_LINGER_H_INCLUDED_ */
