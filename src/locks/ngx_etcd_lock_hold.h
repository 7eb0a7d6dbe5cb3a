
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Locks that are kept after their request has left an upstream which may still
 * work on it: a timeout has passed, an error page or a redirect has replaced
 * the answer.  The connection is taken from the request and read until the
 * upstream closes it, for a limited time.  What comes is discarded, and
 * nothing looks into it.
 *
 * nginx shuts down its side of the connection (TCP half-close), so that an
 * upstream which keeps connections alive closes it: at once, or when the
 * upstream has sent something and then nothing for NGX_ETCD_LOCK_HOLD_QUIET.
 *
 * The grants of the request move into the hold, and are released with the last
 * connection.  etcd and the status see no difference: a lock has the same key,
 * token and holder as before.
 */


#ifndef _NGX_ETCD_LOCK_HOLD_H_INCLUDED_
#define _NGX_ETCD_LOCK_HOLD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_grant.h>
#include <ngx_etcd_pick.h>


#define NGX_ETCD_LOCK_HOLD_QUIET  1000             /* ms */


/* of one main request or session; not in its pool */
typedef struct ngx_etcd_lock_hold_s  ngx_etcd_lock_hold_t;


/*
 * Takes a connection to the upstream of that name for at most "max" ms.  It
 * counts for its member, as "kept" says, until it is closed.  The first one
 * makes the hold, NULL before.  NGX_ERROR: no memory; the request keeps the
 * connection.
 */
ngx_int_t ngx_etcd_lock_hold_connection(ngx_etcd_lock_hold_t **hold,
    ngx_connection_t *c, ngx_str_t *name, ngx_msec_t max, ngx_uint_t half_close,
    ngx_etcd_kept_t *kept);

/*
 * Called when the request gives up the lock: moves the lock into the hold, if
 * it is held and a connection is open.  A lock that cannot be moved is
 * released.
 */
void ngx_etcd_lock_hold_add(ngx_etcd_lock_hold_t *hold,
    ngx_etcd_grant_t *grant);

/*
 * Called at the end of the request, when all its locks were added: the hold
 * frees itself when its last connection is closed, or its last lock is lost.
 */
void ngx_etcd_lock_hold_detach(ngx_etcd_lock_hold_t *hold);


#endif /* _NGX_ETCD_LOCK_HOLD_H_INCLUDED_ */
