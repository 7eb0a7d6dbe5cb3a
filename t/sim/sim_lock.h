
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The workers of sim_lock.c, and their keys (sim_lock_key.c).
 */


#ifndef _SIM_LOCK_H_INCLUDED_
#define _SIM_LOCK_H_INCLUDED_


#include "sim_world.h"
#include <ngx_etcd_lock.h>
#include <ngx_etcd_lock_client.h>
#include <ngx_etcd_lock_permit.h>


#define SIM_LOCKS     2
#define SIM_REQUESTS  5
#define SIM_CHECKED   8


typedef struct sim_worker_s  sim_worker_t;


/* one request after another */

typedef struct {
    ngx_etcd_grant_t          grant;
    ngx_event_t               timer;        /* the request begins, or ends */
    sim_worker_t             *worker;
    ngx_uint_t                busy;
    uint64_t                  began;
} sim_request_t;


/* a key that waits, and since when a read is under way that may let it hold */

typedef struct {
    int64_t                   created;
    ngx_uint_t                state;
    uint64_t                  time;         /* 0: there is none */
} sim_checked_t;


/* the key that was put last of those that hold, or have held, a lock */

typedef struct {
    ngx_uint_t                history;
    int64_t                   created;
    ngx_uint_t                number;
    ngx_uint_t                twins;        /* put by one transaction */
} sim_youngest_t;


struct sim_worker_s {
    sim_proc_t               *proc;
    ngx_etcd_conf_t           conf;
    ngx_etcd_lock_name_t      names[SIM_LOCKS];
    ngx_etcd_lock_conf_t      locks[SIM_LOCKS];
    ngx_etcd_lock_stats_t     stats[SIM_LOCKS];
    sim_request_t             requests[SIM_REQUESTS];
    sim_checked_t             checked[SIM_LOCKS][SIM_CHECKED];
    uint64_t                  looked;       /* when the keys were last looked
                                               at: not while the process stands
                                               still */
    sim_youngest_t            youngest;
    ngx_uint_t                got[SIM_LOCKS][2];  /* since it is calm; by
                                                     "shared" */
    ngx_uint_t                leaving;
    ngx_uint_t                ended;
    ngx_event_t               timer;        /* to leave */
};


/* fails unless all that has to hold for the keys of the worker holds */
void sim_lock_keys(sim_worker_t *worker);


#endif /* _SIM_LOCK_H_INCLUDED_ */
