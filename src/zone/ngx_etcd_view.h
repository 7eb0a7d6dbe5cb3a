
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A set as any worker may look at it, to show it: copies, a few members at a
 * time, so that the mutex is never held for long.
 *
 * A set changes while it is looked at.  What is shown is not of one moment:
 * who was there when the view was opened and still is, is shown once, as he is
 * when it is his turn; who goes meanwhile may be missing, and who comes
 * meanwhile is.
 */


#ifndef _NGX_ETCD_VIEW_H_INCLUDED_
#define _NGX_ETCD_VIEW_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_set.h>


#define NGX_ETCD_VIEW_MEMBERS  16           /* at a time */
#define NGX_ETCD_VIEW_BYTES    16384        /* of their keys and payloads */


/* points into the view, until that is read on */

typedef struct {
    ngx_str_t                  key;
    u_char                    *payload;
    uint64_t                   mod_revision;
    uint64_t                   requests;
    ngx_uint_t                 conns;
    ngx_uint_t                 fails;
} ngx_etcd_view_member_t;


typedef struct {
    ngx_etcd_zone_t           *zone;
    ngx_etcd_set_t            *set;
    uint32_t                   id;          /* of the set */
    uint32_t                   newest;      /* uid of the last one who was
                                               there when it was opened */
    ngx_uint_t                 next;        /* slot */

    ngx_atomic_uint_t          generation;
    uint64_t                   revision;
    uint64_t                   terms;
    ngx_uint_t                 ninvalid;
    uint64_t                   requests;    /* of all slots read, and of those
                                               who were in them before */

    ngx_uint_t                 n;
    ngx_etcd_view_member_t     members[NGX_ETCD_VIEW_MEMBERS];
    u_char                     bytes[NGX_ETCD_VIEW_BYTES];
} ngx_etcd_view_t;


typedef struct {
    ngx_str_t                  key;
    ngx_str_t                  reason;
    uint64_t                   mod_revision;
} ngx_etcd_view_invalid_t;


/*
 * From the first slot on: NGX_OK, NGX_AGAIN (the mutex was not free), or
 * NGX_DECLINED: a newer configuration has given up the set.
 */
ngx_int_t ngx_etcd_view_open(ngx_etcd_view_t *view, ngx_etcd_zone_t *zone,
    ngx_etcd_set_t *set, uint32_t id);

/*
 * The next members, n of them, which may be none:
 *
 *     NGX_OK        there may be more,
 *     NGX_DONE      these were the last,
 *     NGX_AGAIN     the mutex was not free,
 *     NGX_DECLINED  the set is gone.
 */
ngx_int_t ngx_etcd_view_read(ngx_etcd_view_t *view);

/*
 * All values that cannot be read: array of ngx_etcd_view_invalid_t, its memory
 * is of the pool.  NGX_OK, NGX_AGAIN, NGX_DECLINED, or NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_view_invalid(ngx_etcd_view_t *view, ngx_pool_t *pool,
    ngx_array_t *list);

/*
 * The set's requests, once all slots were read.  A slot that was given to
 * another member meanwhile may make them too few: then they are what was last
 * said, since they never become less.
 */
uint64_t ngx_etcd_view_requests(ngx_etcd_view_t *view);


#endif /* _NGX_ETCD_VIEW_H_INCLUDED_ */
