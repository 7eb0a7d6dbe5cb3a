
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The entries of a set in shared memory.  The entries of one slot form a
 * ring, and so do unpublished entries; a ring is referenced by one of its
 * entries.  Adding and removing an entry takes constant time.
 *
 * The "next" links form a consistent ring after every single store, so that a
 * process may be killed at any point.  The "prev" links are for the owner
 * only; ngx_etcd_commit_recover() rebuilds them.
 *
 * All functions are called by the owner.  The caller holds the mutex, unless
 * a function says otherwise.
 */


#ifndef _NGX_ETCD_ENTRY_H_INCLUDED_
#define _NGX_ETCD_ENTRY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_set.h>


/* entries or operations processed per acquisition of the mutex */

#define NGX_ETCD_ENTRY_PIECE  128


/*
 * Creates a pending entry; "len" is at most 65535.  Locks the mutex.  NULL:
 * the zone is full (*rc is NGX_ERROR) or the mutex was held (NGX_AGAIN).
 */
ngx_etcd_entry_t *ngx_etcd_entry_create(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_str_t *key, u_char *payload, size_t len,
    ngx_int_t *rc);

/*
 * Moves a pending entry into the ring of the slot; the shown entry is
 * unchanged.
 */
void ngx_etcd_entry_publish(ngx_etcd_member_set_t *set, ngx_etcd_slot_t *slot,
    ngx_etcd_entry_t *entry);

/* Removes an entry that is not shown from its slot and frees the entry. */
void ngx_etcd_entry_free(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_slot_t *slot, ngx_etcd_entry_t *entry);

/*
 * Frees one entry of a ring.  The "prev" links of the ring may be invalid,
 * and are invalid afterwards.
 */
void ngx_etcd_entry_free_any(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_entry_t **ring);

/*
 * Returns 1 if the first of two entries in one slot is to be shown: its
 * mod_revision is higher, or equal (in a txn) with a later serial.
 */
ngx_uint_t ngx_etcd_entry_newer(ngx_etcd_entry_t *entry1,
    ngx_etcd_entry_t *entry2);


/*
 * A walk through all slots and their entries, zeroed at first.  The walk is
 * invalid once the set has changed.
 */

typedef struct {
    ngx_uint_t                       n;            /* the slot of entry */
    ngx_etcd_entry_t                *entry;        /* NULL: the slot is free */

    ngx_uint_t                       next;         /* next slot */
    ngx_etcd_entry_t                *first;        /* of the slot */
} ngx_etcd_entry_walk_t;


/* Moves to the next entry or free slot; returns 0 at the end. */
ngx_uint_t ngx_etcd_entry_walk_next(ngx_etcd_member_set_t *set,
    ngx_etcd_entry_walk_t *walk);

/* 1 if the entry is the last one of its slot */
#define ngx_etcd_entry_walk_last(walk)                                        \
    ((walk)->entry == NULL || (walk)->entry->next == (walk)->first)


#endif /* _NGX_ETCD_ENTRY_H_INCLUDED_ */
