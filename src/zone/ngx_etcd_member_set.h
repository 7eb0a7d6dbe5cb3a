
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A set of members in shared memory: slots with counters, the registrations
 * in each slot, and a ring of the last changes.  The zone does not interpret
 * registrations.
 */


#ifndef _NGX_ETCD_MEMBER_SET_H_INCLUDED_
#define _NGX_ETCD_MEMBER_SET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_object.h>
#include <ngx_etcd_zone.h>


#define NGX_ETCD_MEMBER_SET_RING     256     /* changed slots remembered */
#define NGX_ETCD_MEMBER_SET_FEW      16      /* changed slots that a set of one
                                                chunk remembers */
#define NGX_ETCD_MEMBER_SET_MAX_INVALID 256     /* invalid keys kept */
#define NGX_ETCD_MEMBER_SET_MAX_KEY  32768   /* bytes of an invalid key that
                                                are kept */
#define NGX_ETCD_MEMBER_SET_UNUSED   7       /* kinds of unused keys */
#define NGX_ETCD_MEMBER_SET_TOLD     8       /* reasons logged once */
#define NGX_ETCD_MEMBER_SET_ARRIVALS 4       /* commits with a known time */

/* ms that a confirmation of a stale leader is valid */
#define NGX_ETCD_MEMBER_SET_FAILSAFE  2500

#define NGX_ETCD_MEMBER_SET_NO_SLOT  0xffffffff

#define NGX_ETCD_MEMBER_SET_SLOTS    16      /* a chunk */
#define NGX_ETCD_MEMBER_SET_PIECE    64      /* slots looked at under the
                                                mutex */
#define NGX_ETCD_MEMBER_SET_CHUNKS   8       /* the smallest directory */
#define NGX_ETCD_MEMBER_SET_MAX_SLOTS  (2 * 1024 * 1024)

#define NGX_ETCD_MEMBER_SET_GROUP    8       /* rows of connection counts */
#define NGX_ETCD_MEMBER_SET_GROUPS   ((NGX_ETCD_ZONE_ROWS                      \
                                       + NGX_ETCD_MEMBER_SET_GROUP - 1)       \
                                      / NGX_ETCD_MEMBER_SET_GROUP)


typedef struct ngx_etcd_invalid_s    ngx_etcd_invalid_t;
typedef struct ngx_etcd_member_outcome_row_s  ngx_etcd_member_outcome_row_t;


/*
 * A note of the owner on a member, in sets that are checked or eject failing
 * members.  The owner zeroes a note if its uid is not that of its slot, and
 * writes all fields but the two counters, which workers count, and "suspect",
 * which workers set.
 */

typedef struct {
    ngx_etcd_atomic64_t              answers;      /* uid << 32 | number */
    ngx_etcd_atomic64_t              errors;       /* uid << 32 | number */
    uint32_t                         uid;          /* 0: none */

    /* by checks */

    uint32_t                         since;        /* of the result, s */
    uint32_t                         took;         /* us, the last check */
    uint16_t                         result;
    uint16_t                         status;       /* of HTTP or gRPC */
    uint32_t                         row;          /* equal results in a row */
    uint32_t                         checks;

    /* by ejections */

    uint32_t                         until;        /* s; 0: not ejected */
    uint16_t                         level;        /* doublings of the time */
    volatile uint16_t                suspect;      /* a request has failed */
    uint32_t                         ejections;
    uint32_t                         rested;       /* s, level last changed */
    uint32_t                         pad;
} ngx_etcd_note_t;


/*
 * Some slots, and for each process the cells of its connection counts, by
 * groups of rows.  Notes and outcomes stay with the chunk, like the cells: a
 * stale reference points to a note.  The slab gives a chunk 1024 bytes.
 */

typedef struct {
    ngx_etcd_slot_t                  slots[NGX_ETCD_MEMBER_SET_SLOTS];
    ngx_etcd_atomic64_t            **groups[NGX_ETCD_MEMBER_SET_GROUPS];
    ngx_etcd_note_t                 *notes;        /* NULL: none */
    ngx_etcd_member_outcome_row_t   *outcomes;     /* NULL: none */
} ngx_etcd_chunk_t;


struct ngx_etcd_invalid_s {
    ngx_etcd_invalid_t              *next;
    uint64_t                         mod_revision;
    uint32_t                         key_len;
    uint32_t                         len;          /* length of the reason */
    uint32_t                         partly;       /* the rest of the value is
                                                      used */
    u_char                           bytes[1];
};


/* the time at which the changes of a commit arrived from etcd */

typedef struct {
    ngx_atomic_uint_t                generation;   /* after the commit */
    uint64_t                         time;         /* time_budget_now() */
} ngx_etcd_arrival_t;


/*
 * The requests that wait for a connection to a member (ngx_etcd_conn_queue.h):
 * each process with a row writes its own.
 */

typedef struct {
    ngx_etcd_atomic64_t              waits;        /* bits: rows that are not
                                                      0 */
    ngx_etcd_atomic64_t              rows[NGX_ETCD_ZONE_ROWS];
                                                   /* since when the oldest
                                                      waits << 32 | number */
} ngx_etcd_member_set_queue_t;


/* Keys of a set that are named in the status or the log: ngx_etcd_commit.h. */

typedef struct {
    ngx_etcd_invalid_t              *named[NGX_ETCD_MEMBER_SET_UNUSED];
    uint32_t                         told[NGX_ETCD_MEMBER_SET_TOLD];
} ngx_etcd_member_set_remarks_t;


typedef enum {
    NGX_ETCD_MEMBER_SET_LOADING = 0, /* not listed yet */
    NGX_ETCD_MEMBER_SET_SYNCED,
    NGX_ETCD_MEMBER_SET_DENIED,      /* the user may not read the prefix */
    NGX_ETCD_MEMBER_SET_FULL         /* the zone is too small */
} ngx_etcd_member_set_state_e;


/* The places of the members that the last commits changed, by generation. */

typedef struct {
    ngx_atomic_t                     base;         /* slots are valid above
                                                      this generation */
    uint32_t                        *slots;        /* NULL: few */
    uint32_t                         few[NGX_ETCD_MEMBER_SET_FEW];
} ngx_etcd_member_set_ring_t;


typedef struct {
    volatile uint32_t                panic;        /* too few members pass
                                                      their checks: a failed
                                                      check keeps nothing off */
    volatile uint32_t                mandatory;    /* a new member is
                                                      unproven */
    volatile uint32_t                role;         /* of checks that are
                                                      shared */
    uint32_t                         pad;
    ngx_etcd_atomic64_t              heard;        /* ngx_etcd_clock() of the
                                                      last value of the observer
                                                      */
    ngx_etcd_atomic64_t              done;         /* number of checks */
    ngx_etcd_atomic64_t              failed;
    ngx_etcd_atomic64_t              suspects;     /* bits: number of a piece
                                                      with suspect members,
                                                      modulo 64 */
} ngx_etcd_member_set_checks_t;


/* for metrics */

typedef struct {
    ngx_etcd_arrival_t               arrivals[NGX_ETCD_MEMBER_SET_ARRIVALS];
    ngx_etcd_atomic64_t              requests_shown;
    ngx_atomic_t                     ejections;    /* number of them */
    ngx_atomic_t                     holds;        /* members that were held */
    ngx_atomic_t                     dry_holds;    /* members that would have
                                                      been */
    ngx_etcd_atomic64_t              closed;       /* connections closed by
                                                      close_after */
} ngx_etcd_member_set_counts_t;


/*
 * A named set of members.  Generation, state (changed last) and confirmed are
 * read without the mutex.  All other fields are protected by the mutex, or
 * used by the owner only.  There may be thousands of sets: the slab gives one
 * 512 bytes, and what few sets need is allocated when it is needed.
 */

struct ngx_etcd_member_set_s {
    ngx_etcd_object_t                object;       /* name: of the upstream */

    /* stay when the struct is used again */

    ngx_etcd_gauge_t                *waiting;      /* requests that wait for
                                                      a member; NULL: not
                                                      counted */
    ngx_etcd_member_set_queue_t     *queue;        /* NULL: no request waits
                                                      for a connection */

    ngx_atomic_t                     generation;
    ngx_atomic_t                     state;        /* of enum above */
    ngx_etcd_atomic64_t              revision;     /* complete up to this
                                                      revision; 0: to be
                                                      listed */
    ngx_etcd_atomic64_t              confirmed;    /* ngx_etcd_clock(): a stale
                                                      leader was confirmed by
                                                      its API; 0: not
                                                      confirmed */
    ngx_etcd_atomic64_t              verified;     /* ngx_etcd_zone_prove(): the
                                                      set was equal to etcd's
                                                      data; 0: never */
    ngx_etcd_member_set_ring_t       ring;
    ngx_etcd_chunk_t               **chunks;       /* NULL: the first one */
    ngx_etcd_chunk_t                *first;

    uint32_t                         nslots;
    ngx_etcd_member_set_commit_t     commit;
    ngx_etcd_invalid_t              *invalid;
    ngx_etcd_member_set_remarks_t   *remarks;      /* NULL: none */
    uint32_t                         unused[NGX_ETCD_MEMBER_SET_UNUSED];
                                                   /* keys, by kind */
    uint32_t                         ninvalid;
    uint32_t                         params;       /* hash of the parameters
                                                      that values were decoded
                                                      with */
    ngx_etcd_member_set_checks_t     checks;
    ngx_etcd_member_set_counts_t     counts;
    ngx_etcd_atomic64_t              held_until;   /* ngx_etcd_clock() until
                                                      which members are held; 0:
                                                      none is */

    /* of a set of a prefix with variables */

    ngx_etcd_atomic64_t             *proof;        /* in place of verified, for
                                                      all sets of the prefix;
                                                      NULL: verified */
    uint32_t                        *declared;     /* in place of the epoch:
                                                      that of the map; NULL:
                                                      object.epoch */
    ngx_atomic_t                     used;         /* ngx_current_msec of the
                                                      last request; 0: none */
};


/*
 * The variant of a set's identity.  "stream" is 1: of the stream module; "kind"
 * is 0: members; other kinds are private to their users.
 */
#define ngx_etcd_member_set_variant(stream, kind)  ((kind) << 1 | (stream))

#define ngx_etcd_member_set_stream(set)     ((set)->object.variant & 1)


extern const ngx_etcd_object_type_t  ngx_etcd_member_set_type;


/*
 * Makes what a pointer of the set points to, "size" bytes of zeroes, unless it
 * is there; "p" points to the pointer.  Locks the mutex; "force" as of
 * ngx_etcd_zone_lock_owned().  NGX_OK, or NGX_ERROR: the zone is too small, its
 * mutex is held, or another process owns it.
 */
ngx_int_t ngx_etcd_member_set_alloc(ngx_etcd_zone_t *zone, ngx_uint_t force,
    void *p, size_t size);

/* Enables counting of requests that wait for a member, likewise. */
ngx_int_t ngx_etcd_member_set_count_waiting(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_uint_t force);

/* Enables counting of requests that wait for a connection, likewise. */
ngx_int_t ngx_etcd_member_set_add_queue(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_uint_t force);

/* Sets the number of requests in a row, and since when the oldest waits. */
void ngx_etcd_member_set_queued(ngx_etcd_member_set_t *set, ngx_uint_t row,
    ngx_uint_t n, ngx_msec_t since);

/* Returns the number of requests in all rows. */
ngx_uint_t ngx_etcd_member_set_queue_sum(ngx_etcd_member_set_t *set);

/*
 * Returns the time in ms since the set was last verified to be equal to
 * etcd's data below the prefix; -1: never verified, or incomplete (not listed
 * yet, denied, or no memory).
 */
int64_t ngx_etcd_member_set_staleness(ngx_etcd_member_set_t *set);


/*
 * For a leader that data from etcd no longer proves.  The owner sets the time
 * of the last confirmation by the leader's own API, unless the mutex is held.
 * A time of 0 ends the confirmation, which needs no mutex: a former owner may
 * end that of another leader, which is confirmed again a second later.
 * ngx_etcd_member_set_confirmed() returns 1 if the confirmation is recent
 * enough; any process may call it.
 */
void ngx_etcd_member_set_confirm(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, uint64_t time);
ngx_uint_t ngx_etcd_member_set_confirmed(ngx_etcd_member_set_t *set);

/* Returns NULL if there is no such slot. */
ngx_etcd_slot_t *ngx_etcd_member_set_slot(ngx_etcd_member_set_t *set,
    ngx_uint_t n);

/* The chunk of a slot. */
ngx_etcd_chunk_t *ngx_etcd_member_set_chunk(ngx_etcd_member_set_t *set,
    ngx_uint_t n);


/*
 * The note on a slot, which is the n-th one of its set.  NULL: there is none.
 * The note may be on a former member: see uid.  The mutex is not needed.
 */
ngx_etcd_note_t *ngx_etcd_member_set_note(ngx_etcd_slot_t *slot, ngx_uint_t n);

/*
 * Called by the owner, under the mutex: the note on the present member of a
 * slot.  A note on a former member begins anew.  NULL: the slot is free, or has
 * no note.
 */
ngx_etcd_note_t *ngx_etcd_member_set_own_note(ngx_etcd_member_set_t *set,
    ngx_uint_t n);

/*
 * Called by workers: a request to the member has failed.  Nothing is noted if
 * there is no note on it.
 */
void ngx_etcd_member_set_suspect(ngx_etcd_member_set_t *set,
    ngx_etcd_slot_t *slot, ngx_uint_t n, uint32_t uid);

/*
 * Called by the owner: the bits of "suspects", which are cleared, and whether
 * the member of a slot was suspect, which it is no longer.
 */
uint64_t ngx_etcd_member_set_suspects(ngx_etcd_member_set_t *set);
ngx_uint_t ngx_etcd_member_set_suspected(ngx_etcd_member_set_t *set,
    ngx_uint_t n);

/*
 * Called by the owner: makes notes for all slots, as far as that is not done.
 * Results of ngx_etcd_zone_lock_owned(), or NGX_ERROR (the zone is full).
 */
ngx_int_t ngx_etcd_member_set_annotate(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set);


typedef ngx_int_t (*ngx_etcd_member_set_read_pt)(void *data, ngx_uint_t n,
    ngx_etcd_slot_t *slot);


/* A reading worker, and its position.  All zero: nothing was read. */

typedef struct {
    ngx_etcd_member_set_read_pt      handler;
    void                            *data;
    ngx_atomic_uint_t                generation;
    uint64_t                         revision;     /* complete up to this
                                                      revision */
    ngx_uint_t                       all;          /* reading all slots */
    ngx_uint_t                       next;         /* next slot, if all */
    ngx_atomic_uint_t                from;         /* generation at its start,
                                                      if all */
    ngx_uint_t                       any;          /* for a copy: wait for
                                                      the mutex, and read
                                                      partly committed sets
                                                      too */
    ngx_uint_t                       held;         /* NGX_BUSY: another
                                                      process had the mutex */
    uint64_t                         since;        /* time_budget_now():
                                                      earlier arrivals are
                                                      not counted for this
                                                      reader */
} ngx_etcd_member_set_reader_t;


/*
 * Calls the reader's handler, under the mutex, for every slot changed since the
 * reader's generation, and updates generation and revision.  All slots are
 * read if the generation is 0 or too old.  The entry is NULL for a free slot;
 * the entry must not be used after the handler returns.  While all slots are
 * read, the mutex is released after every NGX_ETCD_MEMBER_SET_PIECE slots, and
 * the function returns at "until", a time of ngx_etcd_time_budget_now() (0: no
 * limit); the next call continues.
 *
 * A batch of a commit is read as a whole, and so a revision that fits into one.
 *
 *     NGX_OK        up to date,
 *     NGX_AGAIN     the time limit was reached: call again,
 *     NGX_BUSY      the mutex was held,
 *     NGX_DECLINED  a newer configuration has removed the set: keep the last
 *                   known members,
 *     NGX_ERROR     the handler failed; the generation is unchanged.
 */
ngx_int_t ngx_etcd_member_set_read(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, uint32_t id,
    ngx_etcd_member_set_reader_t *reader, uint64_t until);


/*
 * The ring of slots that have changed, with room for so many; what it has of a
 * generation; and whether it has all changes after that generation.  The caller
 * holds the mutex.
 */
uint32_t *ngx_etcd_member_set_ring(ngx_etcd_member_set_t *set, uint32_t *room);
uint32_t ngx_etcd_member_set_changed(ngx_etcd_member_set_t *set,
    ngx_atomic_uint_t generation);
ngx_uint_t ngx_etcd_member_set_remembers(ngx_etcd_member_set_t *set,
    ngx_atomic_uint_t generation);


/*
 * Adds slots: a chunk to an empty set, which most sets have only, and then up
 * to NGX_ETCD_MEMBER_SET_PIECE.  NGX_ERROR: the zone is full.  NGX_AGAIN: the
 * mutex was held, or another process owns the zone; "force" skips the owner
 * check, for a set that no worker knows yet.
 */
ngx_int_t ngx_etcd_member_set_grow(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_uint_t force);

/*
 * Called by the owner: sets why the value of a key, or a part of it, is
 * invalid; a NULL reason removes the record (the value is valid or deleted).
 * Of a longer key the first NGX_ETCD_MEMBER_SET_MAX_KEY bytes are kept.
 * NGX_OK, NGX_AGAIN (the mutex was held, or another process owns the zone), or
 * NGX_ERROR (the zone is full).
 */
ngx_int_t ngx_etcd_member_set_invalid(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_str_t *key, ngx_str_t *reason,
    uint64_t revision, ngx_uint_t partly);


#endif /* _NGX_ETCD_MEMBER_SET_H_INCLUDED_ */
