
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


#define NGX_ETCD_ZONE_MIN_SIZE       (256 * 1024)

#define NGX_ETCD_ZONE_EVENTS         64      /* changes shown in the status */
#define NGX_ETCD_ZONE_EVENT_LEN      128     /* of a key shown there */
#define NGX_ETCD_ZONE_MAX_ENDPOINTS  16


typedef volatile uint64_t            ngx_etcd_word_t;
typedef struct ngx_etcd_set_s        ngx_etcd_set_t;


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
    ngx_atomic_int_t                 endpoint;     /* in use, or -1 */
    ngx_atomic_t                     endpoints[NGX_ETCD_ZONE_MAX_ENDPOINTS];
    ngx_etcd_word_t                  cluster_id;
    ngx_etcd_word_t                  revision;     /* the highest seen */
    ngx_atomic_t                     proved;       /* ngx_current_msec; 0:
                                                      never */
    ngx_atomic_t                     reconnects;
    ngx_atomic_t                     resyncs;
    ngx_atomic_t                     repairs;
} ngx_etcd_zone_cluster_t;


typedef struct {
    ngx_etcd_word_t                  owner;        /* epoch << 32 | pid */
    ngx_atomic_t                     heartbeat;    /* ngx_current_msec */
    ngx_atomic_t                     epoch;        /* of the configuration */
    ngx_etcd_zone_cluster_t          cluster;

    ngx_queue_t                      sets;
    ngx_etcd_set_t                  *retired;      /* structs to be reused */
    void                            *chunks;       /* slot pages likewise */
    uint32_t                         next_id;
    uint32_t                         next_uid;

    ngx_uint_t                       nevents;      /* ever */
    ngx_etcd_zone_event_t            events[NGX_ETCD_ZONE_EVENTS];
} ngx_etcd_zone_shared_t;


/* a process's view, made by configuration: lives as long as the cycle */

typedef struct {
    ngx_slab_pool_t                 *shpool;
    ngx_etcd_zone_shared_t          *sh;
    ngx_uint_t                       epoch;        /* of this cycle */
} ngx_etcd_zone_t;


/*
 * To be called from the init handler of the shared memory, with the view of
 * the previous cycle or NULL.
 */
ngx_int_t ngx_etcd_zone_init(ngx_etcd_zone_t *zone, ngx_shm_zone_t *shm_zone,
    ngx_etcd_zone_t *old);

/* the master, once the configuration is in force: its processes may own */
void ngx_etcd_zone_next_epoch(ngx_etcd_zone_t *zone);

/*
 * The mutex, without waiting for it: NGX_OK, or NGX_AGAIN when somebody held
 * it for longer than anybody should.  On the way of a request that is some
 * 100 us; the patient one gives a holder that the system has put aside a few
 * milliseconds.
 */
ngx_int_t ngx_etcd_zone_lock(ngx_etcd_zone_t *zone);
ngx_int_t ngx_etcd_zone_lock_patient(ngx_etcd_zone_t *zone);
void ngx_etcd_zone_unlock(ngx_etcd_zone_t *zone);

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


/* under the mutex: one line of what the status shows as last changes */
void ngx_etcd_zone_event(ngx_etcd_zone_t *zone, ngx_str_t *name,
    ngx_str_t *key, ngx_etcd_change_e change, uint64_t revision);


#endif /* _NGX_ETCD_ZONE_H_INCLUDED_ */
