
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The memory of members in a zone: what is registered, and where it shows.
 */


#ifndef _NGX_ETCD_SLOT_H_INCLUDED_
#define _NGX_ETCD_SLOT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef volatile uint64_t            ngx_etcd_atomic64_t;

typedef struct ngx_etcd_entry_s      ngx_etcd_entry_t;


/*
 * The registration of one member by one key.  The bytes are the key and the
 * payload; the zone does not interpret the payload.  Constant once published,
 * except for mod_revision, lease, gone and the links (ngx_etcd_batch.h).
 */

struct ngx_etcd_entry_s {
    ngx_etcd_entry_t                *next;         /* a ring, unordered */
    ngx_etcd_entry_t                *prev;
    uint64_t                         create_revision;
    uint64_t                         mod_revision;
    int64_t                          lease;        /* of the key; 0: none */
    uint32_t                         key_len;      /* 0: a static server */
    uint16_t                         len;          /* length of the payload */
    uint16_t                         gone;         /* NGX_ETCD_ENTRY_ */
    u_char                           bytes[1];
};

/* entry->gone: why a member stays though its key is deleted; 0: it is not */

#define NGX_ETCD_ENTRY_KEPT          1       /* kept by on_empty=keep */
#define NGX_ETCD_ENTRY_HELD          2       /* held by the guard: older than
                                                any other entry of the slot */

#define ngx_etcd_entry_key(e)        ((e)->bytes)
#define ngx_etcd_entry_payload(e)    ((e)->bytes + (e)->key_len)


/*
 * The verdict of the owner on a member, besides what etcd says: it keeps
 * requests off the member until the bits are cleared.  A panic, see checks,
 * suspends NGX_ETCD_VERDICT_FAILED.
 */

#define NGX_ETCD_VERDICT_FAILED      0x01    /* checks have failed */
#define NGX_ETCD_VERDICT_UNPROVEN    0x02    /* no check has succeeded yet */
#define NGX_ETCD_VERDICT_EJECTED     0x04    /* fails more than others */

#define NGX_ETCD_VERDICT_CHECKS      0x03    /* by checks */


/*
 * A member and its counters (ngx_etcd_counter.h), shared by all workers: an
 * update through a stale reference has no effect.  Slots are never returned
 * to the slab: a stale reference always points to a slot.
 */

typedef struct {
    ngx_etcd_atomic64_t              conns;        /* uid << 32 | number */
    ngx_etcd_atomic64_t              fails;        /* uid << 32 | number */
    ngx_etcd_atomic64_t              requests;
    ngx_etcd_atomic64_t              verdict;      /* uid << 32 |
                                                      NGX_ETCD_VERDICT_ */
    volatile uint32_t                accessed;     /* time of the last
                                                      failure, s */
    volatile uint32_t                checked;
    ngx_etcd_entry_t                *entry;        /* the newest entry,
                                                      which is shown; older
                                                      ones are in its ring;
                                                      NULL: free */
    uint32_t                         uid;          /* 0: never used */
    volatile uint32_t                started;      /* start of slow start,
                                                      ngx_etcd_slot_now(); 0:
                                                      none */
} ngx_etcd_slot_t;


/*
 * A clock in units of 64 ms, common to all processes, that wraps late in 32
 * bits.
 */

#define NGX_ETCD_SLOT_MSEC           64

#define ngx_etcd_slot_now()                                                   \
    ((uint32_t) ngx_max(ngx_current_msec / NGX_ETCD_SLOT_MSEC, 1))


/*
 * The fields of a set that batches change.  Entries that are created for a
 * commit are "pending" until a step puts them into a slot.
 */

typedef struct {
    ngx_etcd_entry_t                *pending;      /* a ring */
    ngx_uint_t                       number;       /* of batches */
    uint64_t                         term;         /* highest
                                                      create_revision */
    uint64_t                         terms;        /* number of increases of
                                                      term */
    uint64_t                         requests;     /* of former members of
                                                      reused slots */
    uint32_t                         nmembers;     /* slots in use */
    uint32_t                         unfinished;   /* only some batches of a
                                                      commit were made */
} ngx_etcd_member_set_commit_t;


#endif /* _NGX_ETCD_SLOT_H_INCLUDED_ */
