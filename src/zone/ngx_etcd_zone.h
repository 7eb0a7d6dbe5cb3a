
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Shared memory of one cluster: who owns it, what the agent knows of the
 * cluster, the last changes, and the sets of members (ngx_etcd_set.h).
 *
 * One process, the owner, changes sets; every worker reads them.  No worker
 * ever waits for the zone's mutex: where it is not free within microseconds
 * the caller gets NGX_AGAIN and comes back, so that a process stopped while
 * holding it stops nobody else.
 */


#ifndef _NGX_ETCD_ZONE_H_INCLUDED_
#define _NGX_ETCD_ZONE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_histogram.h>
#include <ngx_etcd_redo.h>


#define NGX_ETCD_ZONE_MIN_SIZE       (256 * 1024)

#define NGX_ETCD_ZONE_EVENTS         64      /* changes shown in the status */
#define NGX_ETCD_ZONE_EVENT_LEN      128     /* of a key shown there */
#define NGX_ETCD_ZONE_MAX_ENDPOINTS  16
#define NGX_ETCD_ZONE_URL_LEN        256     /* of an endpoint shown there */

#define NGX_ETCD_ZONE_ROWS           64      /* processes with a ledger */
#define NGX_ETCD_ZONE_NO_ROW         NGX_ETCD_ZONE_ROWS

#define NGX_ETCD_ZONE_LOCK_TABLES    128     /* workers that show locks */


typedef volatile uint64_t            ngx_etcd_word_t;
typedef struct ngx_etcd_set_s        ngx_etcd_set_t;
typedef struct ngx_etcd_cell_s       ngx_etcd_cell_t;
typedef struct ngx_etcd_lock_table_s  ngx_etcd_lock_table_t;


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


/* what the agent says of the cluster; each field is written by it alone */

typedef struct {
    ngx_atomic_t                     state;        /* of the client */
    ngx_etcd_word_t                  cluster_id;
    ngx_etcd_word_t                  revision;     /* the highest seen */
    ngx_etcd_word_t                  proved;       /* ngx_etcd_clock(); 0:
                                                      never */
    ngx_atomic_t                     patience;     /* ms: an older proof says
                                                      that etcd is out of
                                                      touch */
    ngx_atomic_t                     reconnects;
    ngx_atomic_t                     resyncs;
    ngx_atomic_t                     repairs;
} ngx_etcd_zone_cluster_t;


/* how full etcd's database is: written by the worker that has asked last */

typedef struct {
    ngx_atomic_t                     asked;        /* ngx_current_msec; 0:
                                                      never */
    ngx_atomic_t                     state;
    ngx_etcd_word_t                  size;         /* bytes; 0: not known */
    ngx_etcd_word_t                  quota;        /* likewise */
} ngx_etcd_zone_space_t;


/* a process that has connections to members; changed under the mutex */

typedef struct {
    ngx_pid_t                        pid;          /* 0: nobody's */
    ngx_int_t                        process;      /* its number with its
                                                      master */
} ngx_etcd_zone_row_t;


typedef struct {
    ngx_uint_t                       state;        /* of the client's view */
    ngx_uint_t                       learned;
    size_t                           url_len;
    u_char                           url[NGX_ETCD_ZONE_URL_LEN];
} ngx_etcd_zone_endpoint_t;


typedef struct {
    ngx_uint_t                       n;
    ngx_int_t                        current;      /* in use, or -1 */
    ngx_etcd_zone_endpoint_t         list[NGX_ETCD_ZONE_MAX_ENDPOINTS];
} ngx_etcd_zone_endpoints_t;


typedef struct {
    ngx_etcd_word_t                  owner;        /* epoch << 32 | pid */
    ngx_atomic_t                     heartbeat;    /* ngx_current_msec */
    ngx_atomic_t                     epoch;        /* of the configuration */
    ngx_etcd_redo_t                  redo;         /* under the mutex */
    ngx_etcd_zone_cluster_t          cluster;
    ngx_etcd_zone_space_t            space;

    ngx_etcd_word_t                  endpoints_version;
    ngx_etcd_zone_endpoints_t        endpoints;

    ngx_queue_t                      sets;
    ngx_etcd_set_t                  *retired;      /* structs to be reused */
    ngx_queue_t                      seats;        /* ngx_etcd_seat.h */
    ngx_queue_t                      vacated;      /* structs to be reused */
    ngx_queue_t                      tallies;      /* ngx_etcd_tally.h */
    ngx_etcd_cell_t                 *cells;        /* ngx_etcd_cell.h */
    void                            *chunks;       /* slot pages likewise */
    uint32_t                         next_id;
    uint32_t                         next_uid;

    ngx_etcd_zone_row_t              rows[NGX_ETCD_ZONE_ROWS];
    ngx_etcd_lock_table_t           *lock_tables[NGX_ETCD_ZONE_LOCK_TABLES];
    ngx_atomic_t                     stall;        /* us, the longest */
    ngx_etcd_histogram_t             visible;      /* from etcd's word until a
                                                      worker has read it */

    ngx_uint_t                       nevents;      /* ever */
    ngx_etcd_zone_event_t            events[NGX_ETCD_ZONE_EVENTS + 1];
} ngx_etcd_zone_shared_t;


/* a process's view, made by configuration: lives as long as the cycle */

typedef struct {
    ngx_slab_pool_t                 *shpool;
    ngx_etcd_zone_shared_t          *sh;
    ngx_uint_t                       epoch;        /* of this cycle */
    ngx_uint_t                       row;          /* of this process */
} ngx_etcd_zone_t;


/*
 * To be called from the init handler of the shared memory, with the view of
 * the previous cycle or NULL.
 */
ngx_int_t ngx_etcd_zone_init(ngx_etcd_zone_t *zone, ngx_shm_zone_t *shm_zone,
    ngx_etcd_zone_t *old);

/*
 * The master, once the configuration is in force: its processes may own.  The
 * zone that this one has replaced, if any, has no newest processes any more.
 */
void ngx_etcd_zone_next_epoch(ngx_etcd_zone_t *zone, ngx_etcd_zone_t *former);

/* 0: there is a configuration after that of this process */
ngx_uint_t ngx_etcd_zone_newest(ngx_etcd_zone_t *zone);

/*
 * The mutex, without waiting for it: NGX_OK, or NGX_AGAIN when somebody held
 * it for longer than anybody should.  On the way of a request that is some
 * 100 us; the patient one gives a holder that the system has put aside a few
 * milliseconds, and in the master, which serves nobody, a second.  What a
 * killed holder has left in the redo log is done first.
 */
ngx_int_t ngx_etcd_zone_lock(ngx_etcd_zone_t *zone);
ngx_int_t ngx_etcd_zone_lock_patient(ngx_etcd_zone_t *zone);
void ngx_etcd_zone_unlock(ngx_etcd_zone_t *zone);

/* without the mutex, before it is taken again: others may get it first */
void ngx_etcd_zone_pause(void);

/* a worker was kept from its other work for that long, us */
void ngx_etcd_zone_stalled(ngx_etcd_zone_t *zone, ngx_uint_t us);

/*
 * ms since the last proof that etcd answers and that the zone has all that
 * the watches reported; -1: there was none.  ngx_etcd_fresh.h says how much a
 * proof is worth.
 */
int64_t ngx_etcd_zone_staleness(ngx_etcd_zone_t *zone);

/* ms since the time of a proof, as above; 0, the time, is none */
int64_t ngx_etcd_zone_since(ngx_etcd_word_t *proved);

/* bytes of whole pages in use */
size_t ngx_etcd_zone_used(ngx_etcd_zone_t *zone);


/* the owner: one process of the newest configuration may change sets */

#define ngx_etcd_zone_owner_pid(owner)    ((ngx_pid_t) ((owner) & 0xffffffff))
#define ngx_etcd_zone_owner_epoch(owner)  ((ngx_uint_t) ((owner) >> 32))

uint64_t ngx_etcd_zone_owner(ngx_etcd_zone_t *zone);
ngx_uint_t ngx_etcd_zone_owned(ngx_etcd_zone_t *zone);

/* takes the zone if its owner is still the one seen: NGX_OK or NGX_DECLINED */
ngx_int_t ngx_etcd_zone_claim(ngx_etcd_zone_t *zone, uint64_t seen);

/* leaves the zone to whoever claims it next; nothing if not the owner */
void ngx_etcd_zone_release(ngx_etcd_zone_t *zone);


/*
 * The endpoints of the cluster, as the owner sees them: it replaces them as a
 * whole, without the mutex, since they change while connections come and go.
 * A reader gets a copy of one moment, or NGX_AGAIN while they are replaced
 * (or the owner died doing so, until the next one does).
 */
void ngx_etcd_zone_set_endpoints(ngx_etcd_zone_t *zone,
    ngx_etcd_zone_endpoints_t *endpoints);
ngx_int_t ngx_etcd_zone_get_endpoints(ngx_etcd_zone_t *zone,
    ngx_etcd_zone_endpoints_t *endpoints);


/* under the mutex: one line of what the status shows as last changes */
void ngx_etcd_zone_event(ngx_etcd_zone_t *zone, ngx_str_t *name,
    ngx_str_t *key, ngx_etcd_change_e change, uint64_t revision);

/*
 * Copies the last changes, n of them and the newest first, to where there is
 * room for NGX_ETCD_ZONE_EVENTS: NGX_OK, or NGX_AGAIN (the mutex was held).
 */
ngx_int_t ngx_etcd_zone_get_events(ngx_etcd_zone_t *zone,
    ngx_etcd_zone_event_t *events, ngx_uint_t *n);


#endif /* _NGX_ETCD_ZONE_H_INCLUDED_ */
