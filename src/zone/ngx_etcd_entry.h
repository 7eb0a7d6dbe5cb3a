
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The entries of a set in shared memory.  Those of one slot form a ring, as
 * do those that are not published yet; each ring is known by one of its
 * entries.  Whatever their number, an entry is added or removed in one step.
 *
 * The ring that "next" makes is whole after every single store, so a process
 * may be killed anywhere.  "prev" is of use to the owner only, and made anew
 * by ngx_etcd_set_recover().
 *
 * All functions are to be called under the mutex, by the owner.
 */


#ifndef _NGX_ETCD_ENTRY_H_INCLUDED_
#define _NGX_ETCD_ENTRY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_set.h>


/* entries, or operations on them, before the mutex is given back */

#define NGX_ETCD_ENTRY_PIECE  128


/*
 * Prepares an entry of at most 65535 bytes of payload.  NULL: the zone is full
 * (*rc is NGX_ERROR) or the mutex held (NGX_AGAIN).  Takes the mutex itself.
 */
ngx_etcd_entry_t *ngx_etcd_entry_create(ngx_etcd_zone_t *zone,
    ngx_etcd_set_t *set, ngx_str_t *key, u_char *payload, size_t len,
    ngx_int_t *rc);

/* a pending entry becomes one of the slot, which shows what it showed */
void ngx_etcd_entry_publish(ngx_etcd_set_t *set, ngx_etcd_slot_t *slot,
    ngx_etcd_entry_t *entry);

/* an entry that does not show any more leaves its slot, and is freed */
void ngx_etcd_entry_free(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_etcd_slot_t *slot, ngx_etcd_entry_t *entry);

/*
 * Frees some entry of a ring, whose "prev" may be wrong and is wrong
 * afterwards.
 */
void ngx_etcd_entry_free_any(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_etcd_entry_t **ring);

/*
 * 1 if the first one would show, of two in one slot: it has the greater
 * mod_revision, or the same one (of a txn) and came later
 */
ngx_uint_t ngx_etcd_entry_newer(ngx_etcd_entry_t *entry1,
    ngx_etcd_entry_t *entry2);


/*
 * A walk through all slots and their entries: zeroed, it begins.  It may be
 * gone on with as long as nobody has changed the set.
 */

typedef struct {
    ngx_uint_t                       n;            /* of the slot */
    ngx_etcd_entry_t                *entry;        /* NULL: the slot is free */

    ngx_uint_t                       next;         /* slot */
    ngx_etcd_entry_t                *first;        /* of the slot */
} ngx_etcd_walk_t;


/* to the next entry, or free slot: 0 at the end */
ngx_uint_t ngx_etcd_walk_next(ngx_etcd_set_t *set, ngx_etcd_walk_t *walk);

/* 1 if there is no further entry in this slot */
#define ngx_etcd_walk_last(walk)                                              \
    ((walk)->entry == NULL || (walk)->entry->next == (walk)->first)


#endif /* _NGX_ETCD_ENTRY_H_INCLUDED_ */
