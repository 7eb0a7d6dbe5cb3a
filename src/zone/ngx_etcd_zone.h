
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The shared memory of one cluster: the owner of the zone, the state of the
 * cluster, the last changes, and the sets of members (ngx_etcd_member_set.h).
 *
 * One process, the owner, changes sets; every worker reads them.  No worker
 * waits for the zone's mutex: if the mutex is not released within
 * microseconds, the caller gets NGX_AGAIN and tries again later, so that a
 * process stopped while holding the mutex stops no other process.
 */


#ifndef _NGX_ETCD_ZONE_H_INCLUDED_
#define _NGX_ETCD_ZONE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_batch.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_shared.h>


#define NGX_ETCD_ZONE_MIN_SIZE       (256 * 1024)

#define NGX_ETCD_ZONE_UNIT           8       /* bytes: each object begins at a
                                                multiple, and its number has
                                                32 bits */
#define NGX_ETCD_ZONE_MAX_SIZE       ((uint64_t) NGX_ETCD_ZONE_UNIT << 32)

#define NGX_ETCD_ZONE_EVENTS         64      /* last changes kept for the
                                                status */
#define NGX_ETCD_ZONE_EVENT_LEN      128     /* bytes shown of a key */
#define NGX_ETCD_ZONE_MAX_ENDPOINTS  16
#define NGX_ETCD_ZONE_URL_LEN        256     /* bytes shown of an endpoint */
#define NGX_ETCD_ZONE_ERROR_LEN      128     /* bytes shown of its last error */

#define NGX_ETCD_ZONE_VERSIONS       32      /* endpoints whose version is
                                                remembered */

#define NGX_ETCD_ZONE_ROWS           63      /* processes with a row of
                                                connection counts */
#define NGX_ETCD_ZONE_NO_ROW         NGX_ETCD_ZONE_ROWS

#define NGX_ETCD_ZONE_LOCK_TABLES    128     /* workers with a lock table */


typedef struct ngx_etcd_member_set_s  ngx_etcd_member_set_t;
typedef struct ngx_etcd_lock_table_s  ngx_etcd_lock_table_t;


/* lists of objects that are declared by name, ngx_etcd_object.h */

typedef enum {
    NGX_ETCD_ZONE_SETS = 0,          /* in the order of their ids */
    NGX_ETCD_ZONE_ELECTION_SLOTS,
    NGX_ETCD_ZONE_LOCK_STATS,
    NGX_ETCD_ZONE_SET_MAPS,
    NGX_ETCD_ZONE_VALUE_MAPS,
    NGX_ETCD_ZONE_OUTCOMES,
    NGX_ETCD_ZONE_LISTS
} ngx_etcd_zone_list_e;


typedef enum {
    NGX_ETCD_CHANGE_ADD = 0,
    NGX_ETCD_CHANGE_UPDATE,
    NGX_ETCD_CHANGE_REMOVE,
    NGX_ETCD_CHANGE_INVALID
} ngx_etcd_change_e;


typedef struct {
    time_t                           time;
    ngx_uint_t                       msec;
    ngx_etcd_change_e                change;
    uint64_t                         revision;
    ngx_uint_t                       name_len;
    ngx_uint_t                       key_len;
    u_char                           name[NGX_ETCD_ZONE_EVENT_LEN];
    u_char                           key[NGX_ETCD_ZONE_EVENT_LEN];
} ngx_etcd_zone_event_t;


typedef enum {
    NGX_ETCD_CLUSTER_IDLE = 0,         /* no agent has connected yet */
    NGX_ETCD_CLUSTER_CONNECTING,
    NGX_ETCD_CLUSTER_CONNECTED,
    NGX_ETCD_CLUSTER_UNAUTHORIZED      /* connected, but authentication
                                          failed */
} ngx_etcd_zone_cluster_state_e;


/*
 * The state of the cluster, written by the owner only, with each answer of
 * etcd.  The mutex is not needed: a former owner that does not know it yet may
 * write once more, in memory that is never used for anything else, and the
 * next answer to the owner overwrites that.  The same holds for the heartbeat.
 */

typedef struct {
    ngx_atomic_t                     state;        /* NGX_ETCD_CLUSTER_ */
    ngx_etcd_atomic64_t              cluster_id;   /* of what the sets have */
    ngx_etcd_atomic64_t              revision;     /* highest seen */
    ngx_etcd_atomic64_t              proved;       /* ngx_etcd_clock(); 0:
                                                      never */
    ngx_atomic_t                     patience;     /* ms: without a newer proof
                                                      etcd counts as
                                                      unreachable */
    ngx_atomic_t                     reconnects;
    ngx_atomic_t                     resyncs;
    ngx_atomic_t                     repairs;
} ngx_etcd_zone_cluster_t;


/* The fill level of etcd's database, written by the worker that asked last. */

typedef struct {
    ngx_atomic_t                     asked;        /* ngx_current_msec; 0:
                                                      never */
    ngx_atomic_t                     refused;      /* 1: etcd does not tell */
    ngx_atomic_t                     nospace;      /* 1: etcd rejects writes */
    ngx_etcd_atomic64_t              size;         /* bytes; 0: nothing is
                                                      known */
    ngx_etcd_atomic64_t              quota;        /* bytes; 0: unknown */
} ngx_etcd_zone_space_t;


/* A process with connections to members; changed under the mutex. */

typedef struct {
    ngx_pid_t                        pid;          /* 0: unused */
    ngx_int_t                        process;      /* ngx_process_slot */
} ngx_etcd_zone_row_t;


typedef struct {
    ngx_uint_t                       state;        /* the client's view */
    ngx_uint_t                       learned;
    time_t                           since;        /* of the first failure in
                                                      a row */
    size_t                           url_len;
    size_t                           error_len;    /* of the last failure */
    u_char                           url[NGX_ETCD_ZONE_URL_LEN];
    u_char                           error[NGX_ETCD_ZONE_ERROR_LEN];
} ngx_etcd_zone_endpoint_t;


typedef struct {
    ngx_uint_t                       n;
    ngx_int_t                        current;      /* index in use, or -1 */
    size_t                           refusal_len;  /* why etcd refuses the
                                                      user */
    u_char                           refusal[NGX_ETCD_ZONE_ERROR_LEN];
    ngx_etcd_zone_endpoint_t         list[NGX_ETCD_ZONE_MAX_ENDPOINTS];
} ngx_etcd_zone_endpoints_t;


/* The version of an endpoint: ngx_etcd_server_versions_set(). */

typedef struct {
    ngx_etcd_atomic64_t              id;           /* of the URL; 0: unused */
    ngx_etcd_atomic64_t              version;
} ngx_etcd_zone_version_t;


typedef struct {
    ngx_etcd_atomic64_t              owner;        /* epoch << 32 | pid */
    ngx_atomic_t                     heartbeat;    /* ngx_current_msec */
    ngx_atomic_t                     epoch;        /* of the newest
                                                      configuration */
    ngx_atomic_t                     secret;       /* not for core dumps */
    ngx_etcd_batch_t                 batch;        /* protected by the mutex */
    ngx_etcd_zone_cluster_t          cluster;
    ngx_etcd_shared_id_t             id;
    ngx_etcd_zone_space_t            space;

    ngx_etcd_seqlock_t               endpoints_lock;
    ngx_etcd_zone_endpoints_t        endpoints;

    ngx_etcd_zone_version_t          versions[NGX_ETCD_ZONE_VERSIONS];
    ngx_atomic_t                     warned;       /* bits: messages that are
                                                      logged once */

    ngx_queue_t                      objects[NGX_ETCD_ZONE_LISTS];
    ngx_queue_t                      unused[NGX_ETCD_ZONE_LISTS];
                                                   /* structs for reuse */
    void                            *chunks;       /* slot pages for reuse */
    uint32_t                         next_id;

    ngx_etcd_zone_row_t              rows[NGX_ETCD_ZONE_ROWS];
    ngx_etcd_lock_table_t           *lock_tables[NGX_ETCD_ZONE_LOCK_TABLES];
    ngx_atomic_t                     stall;        /* us, maximum */
    ngx_etcd_histogram_t             visible;      /* from arrival until a
                                                      worker has read the
                                                      change */

    ngx_uint_t                       nevents;      /* number of events */
    ngx_etcd_zone_event_t            events[NGX_ETCD_ZONE_EVENTS + 1];
} ngx_etcd_zone_shared_t;


/*
 * The zone as seen by one process; created with the configuration, exists as
 * long as the cycle.
 */

typedef struct {
    ngx_slab_pool_t                 *shpool;
    ngx_etcd_zone_shared_t          *sh;
    ngx_uint_t                       epoch;        /* of this cycle */
    ngx_uint_t                       row;          /* of this process */
    ngx_uint_t                       hidden;       /* from its core dumps */
    uint32_t                         retiring;     /* of the owner: the set that
                                                      ngx_etcd_retire_sets()
                                                      looks at next; 0: the
                                                      first */
} ngx_etcd_zone_t;


/*
 * The number of an object in its zone, for private memory: a process that does
 * not own the zone any more must not follow a pointer.  0: NULL.
 */

static ngx_inline uint32_t
ngx_etcd_zone_number(ngx_etcd_zone_t *zone, void *p)
{
    return p ? (uint32_t) (((u_char *) p - (u_char *) zone->shpool)
                           / NGX_ETCD_ZONE_UNIT)
             : 0;
}


/* The object of a number, to be followed under the mutex only. */

static ngx_inline void *
ngx_etcd_zone_at(ngx_etcd_zone_t *zone, uint32_t n)
{
    return n ? (u_char *) zone->shpool + (size_t) n * NGX_ETCD_ZONE_UNIT : NULL;
}


/*
 * Called from the init handler of the shared memory; "old" is the view of the
 * previous cycle or NULL.
 */
ngx_int_t ngx_etcd_zone_init(ngx_etcd_zone_t *zone, ngx_shm_zone_t *shm_zone,
    ngx_etcd_zone_t *old);

/*
 * Called by the master when the configuration takes effect: from now on its
 * processes may own the zone.  The former zone, if another one, has no newest
 * processes any more.
 */
void ngx_etcd_zone_next_epoch(ngx_etcd_zone_t *zone, ngx_etcd_zone_t *former);

/* Returns 0 if there is a newer configuration than that of this process. */
ngx_uint_t ngx_etcd_zone_newest(ngx_etcd_zone_t *zone);

/*
 * Try to lock the mutex.  NGX_AGAIN: the mutex was held for too long.
 * ngx_etcd_zone_lock(), for the path of a request, spins about 100 us; the
 * patient one gives a preempted holder some milliseconds, and in the master,
 * which serves no requests, a second.  After a holder was killed, the next
 * one completes its redo log and its batch first.
 */
ngx_int_t ngx_etcd_zone_lock(ngx_etcd_zone_t *zone);
ngx_int_t ngx_etcd_zone_lock_patient(ngx_etcd_zone_t *zone);
void ngx_etcd_zone_unlock(ngx_etcd_zone_t *zone);

/*
 * ngx_etcd_shared_map_find(), and under the mutex if a writer is preempted in
 * the middle of a change, or was killed: this process completes the change
 * then.  NGX_AGAIN: the mutex was held.
 */
ngx_int_t ngx_etcd_zone_find(ngx_etcd_zone_t *zone, ngx_etcd_shared_map_t *map,
    uint64_t hash, ngx_etcd_shared_map_match_pt match, void *data,
    uint64_t *version);


/*
 * Locks the mutex patiently for the owner: only the holder of the mutex can
 * tell that the process still is the owner, since a process that was stopped,
 * or whose configuration is not the newest one, may have lost the zone.  An
 * agent reads and changes what it owns in the zone under this lock only.
 * "force" skips this check: for the master, in what no owner knows yet.
 *
 *     NGX_OK        the mutex is locked,
 *     NGX_BUSY      the mutex was held,
 *     NGX_DECLINED  the process does not own the zone.
 */

ngx_int_t ngx_etcd_zone_lock_owned(ngx_etcd_zone_t *zone, ngx_uint_t force);


/* Called between unlock and lock: lets other processes lock the mutex. */

void ngx_etcd_zone_pause(void);


/*
 * Works in pieces: piece() is called under the mutex, which is released after
 * each piece, and returns 1 if something is left.
 *
 *     NGX_OK        nothing is left,
 *     NGX_AGAIN     "until", a time of ngx_etcd_time_budget_now(), was reached
 *                   (0: no limit): call again,
 *     NGX_BUSY, NGX_DECLINED
 *                   results of ngx_etcd_zone_lock_owned(), which "force" is
 *                   passed to.
 */

ngx_int_t ngx_etcd_zone_work(ngx_etcd_zone_t *zone, ngx_uint_t force,
    ngx_uint_t (*piece)(ngx_etcd_zone_t *zone, void *data), void *data,
    uint64_t until);


/* Records that a worker was busy with the zone for that time in us. */
void ngx_etcd_zone_stalled(ngx_etcd_zone_t *zone, ngx_uint_t us);

/*
 * Returns the time in ms since the last proof that etcd answers and that the
 * zone has all changes that the watches reported; -1: never.
 * ngx_etcd_proof.h defines the proof.
 */
int64_t ngx_etcd_zone_staleness(ngx_etcd_zone_t *zone);

/* Returns the time in ms since a proof, as above; a time of 0 means never. */

int64_t ngx_etcd_zone_since(ngx_etcd_atomic64_t *proved);


/*
 * Called by the owner: what the proof is of held at that time of
 * ngx_etcd_clock().  An earlier time has no effect.  The caller holds the
 * mutex.
 */

void ngx_etcd_zone_prove(ngx_etcd_atomic64_t *proved, uint64_t time);

/*
 * Clears a pointer, and frees what it pointed to: a kill in between loses the
 * memory, and frees nothing twice.  NULL is ignored.  The caller holds the
 * mutex.
 */
void ngx_etcd_zone_free(ngx_etcd_zone_t *zone, void *link);

/* Returns the bytes of all pages in use. */
size_t ngx_etcd_zone_used(ngx_etcd_zone_t *zone);


/*
 * The owner is the one process of the newest configuration that may change
 * sets.
 */

#define ngx_etcd_zone_owner_pid(owner)    ((ngx_pid_t) ((owner) & 0xffffffff))
#define ngx_etcd_zone_owner_epoch(owner)  ((ngx_uint_t) ((owner) >> 32))

uint64_t ngx_etcd_zone_owner(ngx_etcd_zone_t *zone);
ngx_uint_t ngx_etcd_zone_owned(ngx_etcd_zone_t *zone);

/* Takes the ownership if the owner is still "seen": NGX_OK or NGX_DECLINED. */
ngx_int_t ngx_etcd_zone_claim(ngx_etcd_zone_t *zone, uint64_t seen);

/* Gives up the ownership; has no effect in another process than the owner. */
void ngx_etcd_zone_release(ngx_etcd_zone_t *zone);


/*
 * The endpoints of the cluster as seen by the owner, published as a whole by
 * a seqlock: results of ngx_etcd_zone_lock_owned().  A reader gets a consistent
 * copy, without the mutex, or NGX_AGAIN while they are being written (also if
 * the owner was killed in between, until the next owner writes).
 */
ngx_int_t ngx_etcd_zone_set_endpoints(ngx_etcd_zone_t *zone,
    ngx_etcd_zone_endpoints_t *endpoints);
ngx_int_t ngx_etcd_zone_get_endpoints(ngx_etcd_zone_t *zone,
    ngx_etcd_zone_endpoints_t *endpoints);


/* Records a change for the status.  The caller holds the mutex. */
void ngx_etcd_zone_event(ngx_etcd_zone_t *zone, ngx_str_t *name, ngx_str_t *key,
    ngx_etcd_change_e change, uint64_t revision);

/*
 * Copies the last changes, newest first, to events, an array of
 * NGX_ETCD_ZONE_EVENTS, and sets *n.  NGX_OK, or NGX_AGAIN (the mutex was
 * held).
 */
ngx_int_t ngx_etcd_zone_get_events(ngx_etcd_zone_t *zone,
    ngx_etcd_zone_event_t *events, ngx_uint_t *n);


/*
 * The versions of etcd that endpoints run, as any client of any process was
 * told last.  Written and read without the mutex.
 */
void ngx_etcd_server_versions_set(ngx_etcd_zone_t *zone, ngx_str_t *url,
    uint64_t version);

/* Returns the version of the endpoint with this URL; 0: unknown. */
uint64_t ngx_etcd_server_versions_get(ngx_etcd_zone_t *zone, ngx_str_t *url);

/* bits of "what": messages that are logged once, for any endpoint */

#define NGX_ETCD_SERVER_VERSIONS_FAULT     1
#define NGX_ETCD_SERVER_VERSIONS_UNTOLD    2
#define NGX_ETCD_SERVER_VERSIONS_ADVISORY  4

/*
 * Returns 1 once in the life of the zone for each of these: the caller, of all
 * processes, is the first one.
 */
ngx_uint_t ngx_etcd_server_versions_first(ngx_etcd_zone_t *zone,
    ngx_uint_t what);


/*
 * An eventfd of the whole instance, created by the master.  A write wakes
 * every worker: all workers watch the eventfd edge-triggered and none reads
 * it.
 */

#define NGX_ETCD_WAKEUP_NONE  -1


/* Called in the master.  On failure logs and returns NGX_ETCD_WAKEUP_NONE. */
ngx_fd_t ngx_etcd_wakeup_create(ngx_log_t *log);

/*
 * Called in a worker.  The handler gets an event with a connection as its
 * data; the connection's data is "data".  The handler is also called with the
 * connection's close flag when the worker begins to shut down.  NGX_DECLINED:
 * the event method is not edge-triggered, and only the timer remains.
 */
ngx_int_t ngx_etcd_wakeup_listen(ngx_cycle_t *cycle, ngx_fd_t fd,
    ngx_event_handler_pt handler, void *data);

void ngx_etcd_wakeup_signal(ngx_fd_t fd, ngx_log_t *log);


#endif /* _NGX_ETCD_ZONE_H_INCLUDED_ */
