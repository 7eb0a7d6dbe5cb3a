
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A set of members in shared memory: slots with counters, the registrations
 * in each, a ring of the last changes.  The zone does not know what a
 * registration says.
 */


#ifndef _NGX_ETCD_SET_H_INCLUDED_
#define _NGX_ETCD_SET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_zone.h>


#define NGX_ETCD_SET_RING            256     /* changes that are remembered */
#define NGX_ETCD_SET_MAX_INVALID     256     /* keys that are shown */
#define NGX_ETCD_SET_MAX_KEY         4096    /* bytes of such a key */

#define NGX_ETCD_SET_NO_SLOT         0xffffffff

#define NGX_ETCD_SET_SLOTS           64      /* in a chunk: one page */
#define NGX_ETCD_SET_CHUNKS          512     /* in a directory: one page */
#define NGX_ETCD_SET_DIRS            64
#define NGX_ETCD_SET_MAX_SLOTS       (NGX_ETCD_SET_SLOTS                      \
                                      * NGX_ETCD_SET_CHUNKS                   \
                                      * NGX_ETCD_SET_DIRS)


typedef struct ngx_etcd_entry_s      ngx_etcd_entry_t;
typedef struct ngx_etcd_invalid_s    ngx_etcd_invalid_t;


/*
 * One registration: what one key says about one member.  The bytes are the
 * key, then the payload, which the zone does not look into.  Constant once
 * published, but for the revision and the flag.
 */

struct ngx_etcd_entry_s {
    ngx_etcd_entry_t                *next;         /* in its slot, newest
                                                      mod_revision first */
    uint64_t                         create_revision;
    uint64_t                         mod_revision;
    uint32_t                         key_len;      /* 0: a static server */
    uint32_t                         len;          /* of the payload */
    uint32_t                         gone;         /* kept by on_empty=keep */
    u_char                           bytes[1];
};

#define ngx_etcd_entry_key(e)        ((e)->bytes)
#define ngx_etcd_entry_payload(e)    ((e)->bytes + (e)->key_len)


/*
 * One member and its counters, shared by all workers.  A counter carries the
 * member's unique id in its upper half: who holds a stale reference changes
 * nothing.  Slots are never given back to the slab, so that a stale reference
 * always points to a slot.
 */

typedef struct {
    ngx_etcd_word_t                  conns;        /* uid << 32 | number */
    ngx_etcd_word_t                  fails;        /* uid << 32 | number */
    ngx_etcd_word_t                  requests;
    volatile time_t                  accessed;     /* of the last failure */
    volatile time_t                  checked;
    ngx_etcd_entry_t                *entry;        /* NULL: free */
    uint32_t                         uid;          /* 0: never used */
    uint32_t                         reserved;
} ngx_etcd_slot_t;


struct ngx_etcd_invalid_s {
    ngx_etcd_invalid_t              *next;
    uint64_t                         mod_revision;
    uint32_t                         key_len;
    uint32_t                         len;          /* of the reason */
    u_char                           bytes[1];
};


typedef enum {
    NGX_ETCD_SET_LOADING = 0,        /* not read yet */
    NGX_ETCD_SET_SYNCED,
    NGX_ETCD_SET_DENIED,             /* the user may not read the prefix */
    NGX_ETCD_SET_FULL                /* the zone is too small for it */
} ngx_etcd_set_state_e;


/*
 * A named set of members.  Read without the mutex: generation and state
 * (changed last).  Everything else: under the mutex, or by the owner.
 */

struct ngx_etcd_set_s {
    ngx_queue_t                      queue;
    ngx_etcd_set_t                  *next;         /* while retired */
    uint32_t                         id;           /* 0: retired */
    uint32_t                         epoch;        /* last declared by */

    ngx_atomic_t                     generation;
    ngx_atomic_t                     state;        /* ngx_etcd_set_state_e */
    ngx_etcd_word_t                  revision;     /* complete up to here; 0:
                                                      to be listed */
    ngx_atomic_t                     base;         /* ring is valid above */
    uint32_t                         ring[NGX_ETCD_SET_RING];

    ngx_uint_t                       dirty;        /* a commit is under way */
    ngx_uint_t                       commits;      /* ever, seen or not */
    ngx_uint_t                       stream;       /* of the stream module */
    ngx_uint_t                       nslots;
    ngx_uint_t                       nmembers;     /* slots in use */
    ngx_uint_t                       ninvalid;
    ngx_etcd_invalid_t              *invalid;
    ngx_etcd_entry_t                *pending;      /* not published yet */
    ngx_etcd_slot_t                **dirs[NGX_ETCD_SET_DIRS];

    uint32_t                         params;       /* hash of how its values
                                                      were read */
    ngx_str_t                        name;         /* of the upstream */
    ngx_str_t                        prefix;
};


/*
 * Finds the set of that module, name and prefix, or makes an empty one.  To
 * be called by the master while a configuration is made.  NULL: the zone is
 * too small, or its mutex is held.
 */
ngx_etcd_set_t *ngx_etcd_set_declare(ngx_etcd_zone_t *zone, ngx_uint_t stream,
    ngx_str_t *name, ngx_str_t *prefix);

/*
 * Fills a set that was just made from its like in another zone (that of the
 * configuration before, which had another size), without the counters.  The
 * master.  NGX_OK, also if there is no such set, NGX_AGAIN, or NGX_ERROR: the
 * zone is too small.
 */
ngx_int_t ngx_etcd_set_inherit(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_etcd_zone_t *from);

/*
 * The owner: gives back the sets that its configuration does not have.
 * Workers of older ones that still serve requests keep their own copies.
 */
ngx_int_t ngx_etcd_set_retire_old(ngx_etcd_zone_t *zone);

/* NULL if there is no such slot */
ngx_etcd_slot_t *ngx_etcd_set_slot(ngx_etcd_set_t *set, ngx_uint_t n);


/*
 * Reading by a worker.  Calls the handler under the mutex for every slot that
 * has changed since *generation (for all slots, where that is too long ago or
 * 0), and brings *generation and *revision up to date.  The entry is NULL for
 * a slot that is free; it must not be kept.
 *
 *     NGX_OK        up to date,
 *     NGX_AGAIN     the mutex was not free: nothing was read,
 *     NGX_DECLINED  the set is gone (another configuration): the last known
 *                   members stay,
 *     NGX_ERROR     the handler failed; *generation is unchanged.
 */
typedef ngx_int_t (*ngx_etcd_set_read_pt)(void *data, ngx_uint_t n,
    ngx_etcd_slot_t *slot);

ngx_int_t ngx_etcd_set_read(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    uint32_t id, ngx_atomic_uint_t *generation, uint64_t *revision,
    ngx_etcd_set_read_pt handler, void *data);


/* adds a page of slots; NGX_OK, NGX_ERROR (zone is full), NGX_AGAIN */
ngx_int_t ngx_etcd_set_grow(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set);


/* shared counters of a member */

ngx_uint_t ngx_etcd_counter_get(ngx_etcd_word_t *word, uint32_t uid);
ngx_uint_t ngx_etcd_counter_add(ngx_etcd_word_t *word, uint32_t uid,
    ngx_int_t n);
void ngx_etcd_counter_set(ngx_etcd_word_t *word, uint32_t uid, uint32_t n);


#endif /* _NGX_ETCD_SET_H_INCLUDED_ */
