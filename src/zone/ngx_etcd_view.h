
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Reads a set for the status, in any worker: a few members are copied at a
 * time, so that the mutex is held for a short time only.
 *
 * The result is not a snapshot.  A member that exists from opening to the end
 * is reported once, with its state at the time of the copy; a member that is
 * removed meanwhile may be missing, and a member that is added meanwhile is
 * missing.
 *
 * The members that another one of the same address hides follow it, some of
 * them if there are many.
 */


#ifndef _NGX_ETCD_VIEW_H_INCLUDED_
#define _NGX_ETCD_VIEW_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_member_set.h>
#include <ngx_etcd_outcome.h>


#define NGX_ETCD_VIEW_MEMBERS  16           /* members per read */
#define NGX_ETCD_VIEW_BYTES    16384        /* of their keys and payloads */
#define NGX_ETCD_VIEW_HIDDEN   7            /* members that another one hides,
                                               at most, and a quarter of the
                                               bytes */


/* Points into the view; valid until the next read. */

typedef struct {
    ngx_str_t                  key;
    ngx_str_t                  hides;       /* another key with the address; no
                                               data: none */
    ngx_str_t                  hidden_by;   /* the key whose member hides this
                                               one; no data: none does */
    u_char                    *payload;
    uint64_t                   mod_revision;
    int64_t                    lease;       /* 0: none */
    uint64_t                   requests;
    uint64_t                   conns;
    uint64_t                   fails;
    int64_t                    idle;        /* s since the last try after a
                                               failure */
    int64_t                    failed;      /* s since the last failure; -1:
                                               none */
    ngx_uint_t                 verdict;     /* NGX_ETCD_VERDICT_ */
    ngx_uint_t                 held;        /* the member is */
    ngx_etcd_note_t            note;        /* of zeroes: none */
    ngx_uint_t                 counted;     /* 0: no answers are */
    ngx_etcd_answers_t         answers;
} ngx_etcd_view_member_t;


typedef struct {
    ngx_etcd_zone_t           *zone;
    ngx_etcd_member_set_t     *set;
    uint32_t                   id;          /* the set's id */
    uint32_t                   newest;      /* the highest uid when the view
                                               was opened */
    ngx_uint_t                 next;        /* next slot */

    ngx_atomic_uint_t          generation;
    uint64_t                   revision;
    uint64_t                   terms;
    ngx_uint_t                 ninvalid;
    uint32_t                   unused[NGX_ETCD_MEMBER_SET_UNUSED];
    uint64_t                   requests;    /* of all slots read, including
                                               former members of the slots */

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
 * Starts at the first slot: NGX_OK, NGX_AGAIN (the mutex was held), or
 * NGX_DECLINED (a newer configuration has removed the set).
 */
ngx_int_t ngx_etcd_view_open(ngx_etcd_view_t *view, ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, uint32_t id);

/*
 * Reads the next members; "n" may be 0.
 *
 *     NGX_OK        members may be left: call again,
 *     NGX_DONE      all members were read,
 *     NGX_AGAIN     the mutex was held,
 *     NGX_DECLINED  the set was removed.
 */
ngx_int_t ngx_etcd_view_read(ngx_etcd_view_t *view);

/*
 * Copies all invalid values to list, an array of ngx_etcd_view_invalid_t; the
 * memory is allocated from the pool.  NGX_OK, NGX_AGAIN, NGX_DECLINED, or
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_view_invalid(ngx_etcd_view_t *view, ngx_pool_t *pool,
    ngx_array_t *list);

/* Copies the unused keys of the set.  Results as above. */
ngx_int_t ngx_etcd_view_unused(ngx_etcd_view_t *view, ngx_pool_t *pool,
    ngx_etcd_unused_t *unused);

/*
 * Returns the requests of the set; valid after all slots were read.  If a
 * slot got another member during the reading, the sum may be too low: the
 * previous result is returned then, since a counter must not decrease.
 */
uint64_t ngx_etcd_view_requests(ngx_etcd_view_t *view);


#endif /* _NGX_ETCD_VIEW_H_INCLUDED_ */
