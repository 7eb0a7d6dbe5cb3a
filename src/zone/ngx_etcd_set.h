
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
#include <ngx_etcd_gauge.h>
#include <ngx_etcd_zone.h>


#define NGX_ETCD_SET_RING            256     /* changes that are remembered */
#define NGX_ETCD_SET_MAX_INVALID     256     /* keys that are shown */
#define NGX_ETCD_SET_MAX_KEY         4096    /* bytes of such a key */
#define NGX_ETCD_SET_ARRIVALS        8       /* commits whose time is known */

/* ms that a set which was left half changed is kept from who has nothing */
#define NGX_ETCD_SET_TORN            3000

/* ms that a confirmation of a stale leader holds */
#define NGX_ETCD_SET_FAILSAFE        2500

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
 * published, but for revision, serial, flag and links (ngx_etcd_entry.h).
 */

struct ngx_etcd_entry_s {
    ngx_etcd_entry_t                *next;         /* in a ring, in no order */
    ngx_etcd_entry_t                *prev;
    uint64_t                         create_revision;
    uint64_t                         mod_revision;
    uint32_t                         key_len;      /* 0: a static server */
    uint32_t                         serial;       /* later of one revision */
    uint16_t                         len;          /* of the payload */
    uint16_t                         gone;         /* kept by on_empty=keep */
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
    ngx_etcd_entry_t                *entry;        /* the newest: it shows, and
                                                      the others are in its
                                                      ring; NULL: free */
    uint32_t                         uid;          /* 0: never used */
    volatile uint32_t                started;      /* slowly, at that time of
                                                      ngx_etcd_slot_now(); 0:
                                                      not so */
} ngx_etcd_slot_t;


/* a page of slots, and for each process the cells that belong to them */

typedef struct {
    ngx_etcd_slot_t                  slots[NGX_ETCD_SET_SLOTS];
    ngx_etcd_word_t                 *rows[NGX_ETCD_ZONE_ROWS];
} ngx_etcd_chunk_t;


/* time in slots: of all processes, and long in 32 bits */

#define NGX_ETCD_SLOT_MSEC           64

#define ngx_etcd_slot_now()                                                   \
    ((uint32_t) ngx_max(ngx_current_msec / NGX_ETCD_SLOT_MSEC, 1))


struct ngx_etcd_invalid_s {
    ngx_etcd_invalid_t              *next;
    uint64_t                         mod_revision;
    uint32_t                         key_len;
    uint32_t                         len;          /* of the reason */
    u_char                           bytes[1];
};


/* when what became visible by a commit had come from etcd */

typedef struct {
    ngx_atomic_uint_t                generation;   /* after it */
    uint64_t                         time;         /* ngx_etcd_stall_now() */
} ngx_etcd_arrival_t;


typedef enum {
    NGX_ETCD_SET_LOADING = 0,        /* not read yet */
    NGX_ETCD_SET_SYNCED,
    NGX_ETCD_SET_DENIED,             /* the user may not read the prefix */
    NGX_ETCD_SET_FULL                /* the zone is too small for it */
} ngx_etcd_set_state_e;


/*
 * A named set of members.  Read without the mutex: generation, state
 * (changed last) and confirmed.  Everything else: under the mutex, or by the
 * owner.
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
    ngx_etcd_word_t                  confirmed;    /* when a stale leader was,
                                                      by its own API:
                                                      ngx_etcd_clock(); 0: it
                                                      is not */
    ngx_etcd_word_t                  verified;     /* ngx_etcd_clock(): it was
                                                      what etcd had; 0: it is
                                                      not known to have been */
    ngx_atomic_t                     base;         /* ring is valid above */
    uint32_t                         ring[NGX_ETCD_SET_RING];

    ngx_uint_t                       dirty;        /* a commit is within one
                                                      revision, or the owner was
                                                      killed there and the set
                                                      was not listed since */
    ngx_msec_t                       torn;         /* when the next owner found
                                                      it so; 0: it did not */
    ngx_uint_t                       unfinished;   /* of a commit some pieces
                                                      are visible, some not yet
                                                      there */
    ngx_uint_t                       commits;      /* pieces, seen or not */
    ngx_uint_t                       stream;       /* of the stream module */
    ngx_uint_t                       nslots;
    ngx_uint_t                       nmembers;     /* slots in use */
    ngx_uint_t                       ninvalid;
    ngx_etcd_invalid_t              *invalid;
    ngx_etcd_entry_t                *pending;      /* a ring: not published */
    ngx_etcd_entry_t                *moving;       /* from a ring to another
                                                      one, or to be freed */
    ngx_etcd_slot_t                **dirs[NGX_ETCD_SET_DIRS];
    ngx_etcd_gauge_t                *waiting;      /* for a member; NULL: is
                                                      not counted */

    /* for metrics */

    uint64_t                         arrived;      /* what is committed next; 0:
                                                      not from a watch */
    ngx_uint_t                       narrivals;    /* ever */
    ngx_etcd_arrival_t               arrivals[NGX_ETCD_SET_ARRIVALS];
    uint64_t                         term;         /* the highest revision that
                                                      a key was created at */
    uint64_t                         terms;        /* how often that rose */
    uint64_t                         requests;     /* of members whose slots
                                                      have become others' */
    ngx_etcd_word_t                  requests_shown;

    uint32_t                         kind;         /* 0: members; others are
                                                      told apart by it */
    uint32_t                         params;       /* hash of how its values
                                                      were read */
    ngx_str_t                        name;         /* of the upstream */
    ngx_str_t                        prefix;
};


/* what a set is found by */

typedef struct {
    ngx_uint_t                       stream;
    uint32_t                         kind;
    ngx_str_t                        name;
    ngx_str_t                        prefix;
} ngx_etcd_set_id_t;

/*
 * Finds the set with that id, or makes an empty one.  To be called by the
 * master while a configuration is made.  NULL: the zone is too small, or its
 * mutex is held.
 */
ngx_etcd_set_t *ngx_etcd_set_declare(ngx_etcd_zone_t *zone,
    ngx_etcd_set_id_t *id);

/*
 * Fills a set that was just made from its like in another zone (that of the
 * configuration before, which had another size): with what shows, without the
 * counters.  A set that has more than that, or that changes meanwhile, is
 * listed again.  The master.  NGX_OK, also if there is no such set, NGX_AGAIN,
 * or NGX_ERROR: the zone is too small.
 */
ngx_int_t ngx_etcd_set_inherit(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_etcd_zone_t *from);

/*
 * The master: those who wait for a member are counted from now on.  NGX_OK,
 * or NGX_ERROR: the zone is too small, or its mutex is held.
 */
ngx_int_t ngx_etcd_set_count_waiting(ngx_etcd_zone_t *zone,
    ngx_etcd_set_t *set);

/*
 * ms since the set was last verified to be what etcd has below its prefix; -1:
 * it never was, or it does not hold all of that (not read yet, denied, or no
 * room).
 */
int64_t ngx_etcd_set_staleness(ngx_etcd_set_t *set);

/* the owner: the set was what etcd had at that time of ngx_etcd_clock() */
void ngx_etcd_set_verify(ngx_etcd_set_t *set, uint64_t time);

/*
 * A leader that nothing from etcd proves any more, but its own API does: the
 * owner says since when, 0 being that it does not, and everybody may ask
 * whether that is recent enough.
 */
void ngx_etcd_set_confirm(ngx_etcd_set_t *set, uint64_t time);
ngx_uint_t ngx_etcd_set_confirmed(ngx_etcd_set_t *set);

/* NULL if there is no such slot */
ngx_etcd_slot_t *ngx_etcd_set_slot(ngx_etcd_set_t *set, ngx_uint_t n);


/* how far a worker has read; zeroed: nothing yet */

typedef struct {
    ngx_atomic_uint_t                generation;
    uint64_t                         revision;     /* complete up to here */
    ngx_uint_t                       all;          /* reading all slots */
    ngx_uint_t                       next;         /* of those */
    ngx_atomic_uint_t                from;         /* when that was begun */
    ngx_uint_t                       any;          /* also what is half changed
                                                    */
    uint64_t                         since;        /* ngx_etcd_stall_now(): what
                                                      arrived before has not
                                                      waited for this reader */
} ngx_etcd_set_reader_t;


/*
 * Reading by a worker.  Calls the handler under the mutex for every slot that
 * has changed since the reader's generation (for all slots, where that is too
 * long ago or 0), and brings generation and revision up to date.  The entry
 * is NULL for a slot that is free; it must not be kept.  Reading all slots,
 * others may get the mutex after every NGX_ETCD_SET_SLOTS of them; that ends at
 * a time of ngx_etcd_stall_now() (0: it does not) and is gone on with by the
 * next call.
 *
 * Of a commit in pieces those are read that are complete, that is, not within
 * one revision.  A set that a killed owner left half changed is read when the
 * next one has listed it.  A reader that has nothing does not wait for that for
 * ever.
 *
 *     NGX_OK        up to date,
 *     NGX_AGAIN     there is more to be read, and the time is over,
 *     NGX_BUSY      the mutex was not free, or the set is half changed,
 *     NGX_DECLINED  the set is gone (another configuration): the last known
 *                   members stay,
 *     NGX_ERROR     the handler failed; *generation is unchanged.
 */
typedef ngx_int_t (*ngx_etcd_set_read_pt)(void *data, ngx_uint_t n,
    ngx_etcd_slot_t *slot);

ngx_int_t ngx_etcd_set_read(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    uint32_t id, ngx_etcd_set_reader_t *reader, uint64_t until,
    ngx_etcd_set_read_pt handler, void *data);


/*
 * The owner: when what the next commits publish has come from etcd, a time of
 * ngx_etcd_stall_now().  How long that takes to be read by a worker is counted
 * in the zone.
 */
void ngx_etcd_set_arrived(ngx_etcd_set_t *set, uint64_t time);

/*
 * Adds a page of slots: NGX_OK, NGX_ERROR (zone is full), NGX_AGAIN (the mutex
 * was held, or another worker is the owner, unless force is set: for a set that
 * no worker knows yet).
 */
ngx_int_t ngx_etcd_set_grow(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_uint_t force);


/* shared counters of a member: 0 of one that is gone */

static ngx_inline ngx_uint_t
ngx_etcd_counter_get(ngx_etcd_word_t *word, uint32_t uid)
{
    uint64_t  value;

    value = __atomic_load_n(word, __ATOMIC_RELAXED);

    return (value >> 32 == uid) ? (ngx_uint_t) (value & 0xffffffff) : 0;
}


ngx_uint_t ngx_etcd_counter_add(ngx_etcd_word_t *word, uint32_t uid,
    ngx_int_t n);
void ngx_etcd_counter_set(ngx_etcd_word_t *word, uint32_t uid, uint32_t n);


#endif /* _NGX_ETCD_SET_H_INCLUDED_ */
