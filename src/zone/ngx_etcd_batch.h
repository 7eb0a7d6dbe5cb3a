
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The members and the values in a zone, and the batch of the zone: changes of
 * them that readers see together.  The owner writes them down as steps before
 * the first one is made.  If it is killed in between, whoever locks the mutex
 * of the zone next makes the rest: a reader sees all of them or none.  A zone
 * has one owner, and so one batch.
 *
 * nginx's allocator cannot be interrupted: the nodes of a batch are allocated
 * before its steps are made, and freed after them.  Nodes in between are in the
 * list "spare" or "dead", and are freed by whoever finishes the batch.
 *
 * The caller of all functions holds the mutex.
 */


#ifndef _NGX_ETCD_BATCH_H_INCLUDED_
#define _NGX_ETCD_BATCH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_shared_map.h>


/*
 * Members in the zone: what is registered, and where it shows.
 */

typedef struct ngx_etcd_entry_s      ngx_etcd_entry_t;


/*
 * The registration of one member by one key.  The bytes are the key and the
 * payload; the zone does not interpret the payload.  Constant once published,
 * except for mod_revision, lease, gone and the links.
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


#define NGX_ETCD_BATCH_STEPS  256


/*
 * The value of a key.  A node is never changed but replaced; only "refused" and
 * "source" are stored in place.
 */

typedef struct {
    ngx_etcd_shared_node_t           node;
    uint64_t                         modified;     /* mod_revision of the
                                                      value; 0: no valid value
                                                      was seen */
    volatile uint64_t                refused;      /* mod_revision of a newer
                                                      value that was refused;
                                                      0: none */
    uint64_t                         source;       /* of the newest value, valid
                                                      or refused */
    uint32_t                         key_len;
    uint32_t                         len;
    uint32_t                         table_len;
    u_char                           data[1];      /* the key without the
                                                      literal part, the value,
                                                      and its table */
} ngx_etcd_value_node_t;


/* A change of one key. */

typedef struct {
    ngx_etcd_value_node_t           *old;          /* NULL: is added */
    ngx_etcd_value_node_t           *node;         /* takes the place of old;
                                                      NULL: old is removed, or
                                                      refused */
    uint64_t                         refused;      /* of old; 0: is removed */
    uint64_t                         source;       /* of the refused value */
} ngx_etcd_step_t;


/* A change of one member. */

typedef enum {
    NGX_ETCD_OP_PUT = 0,             /* put entry into slot; replaces old */
    NGX_ETCD_OP_TOUCH,               /* update mod_revision and lease of old
                                        */
    NGX_ETCD_OP_KEEP,                /* mark old as kept; old stays */
    NGX_ETCD_OP_HOLD,                /* mark old as held, with revision 0 */
    NGX_ETCD_OP_REMOVE               /* remove old from slot */
} ngx_etcd_op_e;


typedef struct {
    ngx_etcd_op_e                    op;
    uint32_t                         n;            /* of the slot */
    ngx_etcd_slot_t                 *slot;
    ngx_etcd_entry_t                *entry;
    ngx_etcd_entry_t                *old;
    ngx_etcd_entry_t                *shown;        /* NULL: the slot is free */
    uint64_t                         revision;
    int64_t                          lease;        /* if TOUCH */
} ngx_etcd_slot_step_t;


/* All zero: nothing to do. */

typedef struct {
    ngx_etcd_redo_t                  redo;         /* also of other changes */
    uint32_t                         uid;          /* the last one of a slot */

    /* The map or the set that is changed; both NULL: none is. */

    ngx_etcd_shared_map_t           *map;
    ngx_etcd_member_set_commit_t    *set;

    ngx_etcd_shared_node_t          *spare;        /* of the map */
    ngx_etcd_shared_node_t          *dead;
    ngx_etcd_entry_t                *removed;      /* of the set */

    ngx_atomic_t                    *generation;   /* of the set */
    uint32_t                        *ring;         /* slots that have changed,
                                                      by generation */
    uint32_t                         room;         /* in the ring */
    uint32_t                         verdict;      /* on a new member */
    uint32_t                         started;      /* of a new member */

    ngx_uint_t                       n;            /* steps to be made, the last
                                                      one first */
    union {
        ngx_etcd_step_t              steps[NGX_ETCD_BATCH_STEPS];
        ngx_etcd_slot_step_t         slots[NGX_ETCD_BATCH_STEPS];
    };
} ngx_etcd_batch_t;


/*
 * Begins a batch, which ngx_etcd_batch_make() or ngx_etcd_batch_finish() ends.
 * The caller writes the steps, each of another key.
 */
void ngx_etcd_batch_begin(ngx_etcd_batch_t *batch, ngx_etcd_shared_map_t *map);

/*
 * Allocates a node of that many bytes, to be linked by a step, in the order of
 * the steps.  NULL: the zone is full.
 */
ngx_etcd_value_node_t *ngx_etcd_batch_alloc(ngx_etcd_batch_t *batch,
    ngx_slab_pool_t *shpool, size_t size);

/* Makes n steps. */
void ngx_etcd_batch_make(ngx_etcd_batch_t *batch, ngx_slab_pool_t *shpool,
    ngx_uint_t n);

/*
 * Makes the next step of a set.  The caller has written the steps and what is
 * said of the set, then "set", then "n", and calls ngx_etcd_batch_finish() when
 * n is 0.
 */
void ngx_etcd_batch_slot(ngx_etcd_batch_t *batch);

/*
 * Completes what a killed process has left: its redo log, and its batch.  A
 * batch whose steps are not to be made is undone.
 */
void ngx_etcd_batch_finish(ngx_etcd_batch_t *batch, ngx_slab_pool_t *shpool);


#endif /* _NGX_ETCD_BATCH_H_INCLUDED_ */
