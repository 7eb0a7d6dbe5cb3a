
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Entries of a set, and changes of a set by the owner of its zone: entries are
 * prepared one by one, then published in batches.  The owner also writes which
 * keys are not used.
 */


#ifndef _NGX_ETCD_COMMIT_H_INCLUDED_
#define _NGX_ETCD_COMMIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_set.h>


/*
 * The entries of a set in shared memory.  The entries of one slot form a
 * ring, and so do unpublished entries; a ring is referenced by one of its
 * entries.  Adding and removing an entry takes constant time.
 *
 * A ring in a slot is changed by the steps of a batch.  The "next" links of
 * unpublished entries form a ring after every single store: the owner may be
 * killed at any point, and the next one frees them.
 *
 * The functions of entries are called by the owner.  The caller holds the
 * mutex, unless a function says otherwise.
 *
 * Private memory has the number of an entry (ngx_etcd_zone_number()), never a
 * pointer.
 */

/* entries freed per acquisition of the mutex */

#define NGX_ETCD_ENTRY_PIECE  128


/*
 * An entry that is to be created.  The key of a static server is empty, not
 * NULL; "gone" is of an entry that is copied.
 */

typedef struct {
    ngx_str_t                        key;
    u_char                          *payload;
    size_t                           len;          /* at most 65535 */
    uint64_t                         create_revision;
    uint64_t                         mod_revision;
    int64_t                          lease;
    uint16_t                         gone;
} ngx_etcd_entry_data_t;


/*
 * Creates a pending entry.  Locks the mutex; "force" as of
 * ngx_etcd_zone_lock_owned().  NGX_OK: *n is its number.  NGX_ERROR: the zone
 * is full; NGX_AGAIN: the mutex was held, or another process owns the zone.
 */
ngx_int_t ngx_etcd_entry_create(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_etcd_entry_data_t *data, ngx_uint_t force,
    uint32_t *n);

/*
 * Copies the payload of an entry, at most "size" bytes.  Locks the mutex.
 * Results of ngx_etcd_zone_lock_owned().
 */
ngx_int_t ngx_etcd_entry_read(ngx_etcd_zone_t *zone, uint32_t n,
    u_char *payload, size_t size);

/*
 * Frees one entry of a ring.  The "prev" links of the ring may be invalid,
 * and are invalid afterwards.
 */
void ngx_etcd_entry_free(ngx_etcd_zone_t *zone, ngx_etcd_entry_t **ring);

/*
 * A walk through all slots and their entries, zeroed at first.  The walk is
 * invalid once the set has changed.
 */

typedef struct {
    ngx_uint_t                       n;            /* the slot of entry */
    ngx_uint_t                       next;         /* next slot */
    uint32_t                         entry;        /* 0: the slot is free */
    uint32_t                         first;        /* of the slot */
} ngx_etcd_entry_walk_t;


/* Moves to the next entry or free slot; returns 0 at the end. */
ngx_uint_t ngx_etcd_entry_walk_next(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_etcd_entry_walk_t *walk);


/*
 * A step that is not in the zone yet.  Slots and entries are known by their
 * numbers, see ngx_etcd_zone_number(); 0: no entry.  The creator of an
 * operation knows all entries of the slot and sets "shown" to the newest one
 * after the operation.
 */

typedef struct {
    ngx_etcd_op_e                    op;
    uint32_t                         slot;
    uint32_t                         entry;
    uint32_t                         old;
    uint32_t                         shown;        /* 0: the slot is free */
    uint64_t                         revision;
    int64_t                          lease;        /* if TOUCH */
} ngx_etcd_op_t;


typedef struct {
    ngx_etcd_member_set_t           *set;          /* of the present call */
    ngx_array_t                     *ops;          /* of ngx_etcd_op_t */
    ngx_uint_t                       done;         /* operations done */
    uint64_t                         revision;     /* of the set after the
                                                      commit; 0: unchanged */
    uint64_t                         arrived;      /* time_budget_now(): the
                                                      data arrived from etcd; 0:
                                                      not from a watch */
    ngx_uint_t                       state;        /* of the set after the
                                                      commit, if it has a
                                                      revision; LOADING:
                                                      unchanged.  A set that is
                                                      FULL has revision 0 */
    uint32_t                         params;       /* of a set that is SYNCED */
    uint64_t                         verified;     /* the same */
    uint64_t                         until;        /* time limit,
                                                      time_budget_now(); 0:
                                                      none */
    ngx_uint_t                       force;        /* of
                                                      ngx_etcd_zone_work() */
    ngx_uint_t                       changed;      /* set: workers have
                                                      something to read */
} ngx_etcd_commit_t;


/*
 * Publishes the operations from "done" on, in batches.  The mutex is released
 * between batches.  Each is visible at once, and has all operations of a
 * revision unless those alone are more than NGX_ETCD_BATCH_STEPS.  If an owner
 * is killed during a commit, ngx_etcd_commit_recover() makes the next owner
 * list the set again.  Results as of ngx_etcd_zone_work().
 */
ngx_int_t ngx_etcd_commit(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_etcd_commit_t *commit);

/*
 * Called by the owner after taking over, or to abandon a commit: frees what was
 * prepared.  The set has revision 0 afterwards if only a part of a commit was
 * made.  Results as of ngx_etcd_zone_work(): call again, unless it is NGX_OK or
 * NGX_DECLINED.
 */
ngx_int_t ngx_etcd_commit_recover(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, uint64_t until);


/*
 * The keys of a set that are valid, but not used: how many there are of each
 * kind, and one of them.  The zone does not interpret kinds, but for the
 * last one.
 */

/*
 * The registrations that a newer one of the same address hides.  They are
 * counted only: the entries of a slot name them.
 */
#define NGX_ETCD_UNUSED_HIDDEN  (NGX_ETCD_MEMBER_SET_UNUSED - 1)


typedef struct {
    ngx_uint_t                 keys;
    ngx_str_t                  key;          /* one of them; no data: none */
    ngx_str_t                  reason;
    uint64_t                   mod_revision;
} ngx_etcd_unused_row_t;


typedef struct {
    ngx_etcd_unused_row_t      rows[NGX_ETCD_MEMBER_SET_UNUSED];
    uint32_t                   told[NGX_ETCD_MEMBER_SET_TOLD];
                                             /* hashes of what the log has; 0:
                                                free */
} ngx_etcd_unused_t;


/*
 * Called by the owner; "force": by the master, in a set that no owner knows.
 * Writes all rows and hashes.  A row is written without its key if that is too
 * long, or the zone has no room for it; without room hashes are not written,
 * too.  Results of ngx_etcd_zone_lock_owned().
 */
ngx_int_t ngx_etcd_unused_write(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_etcd_unused_t *unused, ngx_uint_t force);

/* Copies rows and hashes from a set; the caller holds the mutex. */
ngx_int_t ngx_etcd_unused_copy(ngx_etcd_member_set_t *set,
    ngx_etcd_unused_t *unused, ngx_pool_t *pool);

/*
 * Returns 1 if a process that resumes the watch of the set would not know all
 * keys that are counted: the prefix is to be listed.
 */
ngx_uint_t ngx_etcd_unused_any(ngx_etcd_member_set_t *set);


#endif /* _NGX_ETCD_COMMIT_H_INCLUDED_ */
