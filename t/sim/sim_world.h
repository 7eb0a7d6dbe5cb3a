
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The world of a seed: the processes, what they do and how they are
 * configured, and the phases: faults; calm, in which everything has to
 * come right; and the end, when all leave.
 */


#ifndef _SIM_WORLD_H_INCLUDED_
#define _SIM_WORLD_H_INCLUDED_


#include "model.h"
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_lease.h>


/* until everything is right again, and until nothing is left */
#define SIM_SETTLE   (90 * SIM_SECOND)
#define SIM_LEAVE    (60 * SIM_SECOND)


typedef struct {
    ngx_uint_t                ttl;          /* seconds */
    ngx_etcd_cluster_conf_t   conf;         /* of all processes */
    uint64_t                  watched;      /* how long a client may not hear
                                               of what somebody else did */
} sim_world_t;


extern sim_world_t  sim_world;


extern sim_actor_t  sim_mirror_actor;
extern sim_actor_t  sim_fanout_actor;
extern sim_actor_t  sim_lock_actor;
extern sim_actor_t  sim_election_actor;
extern sim_actor_t  sim_register_actor;


/* one seed; NGX_OK, or NGX_ERROR and sim.failed says why */
ngx_int_t sim_run(uint64_t seed, ngx_uint_t trace);

/* a key with the namespace, in the seed's memory */
ngx_str_t sim_key(const char *fmt, ...);

void sim_nothing(void *data);

/*
 * A process believes that it has that key, which was created at that revision,
 * with a lease, since it holds something by it: 1 if etcd has it as well; 0:
 * somebody took it away, and that may go unnoticed for a while.  Everything
 * else fails.
 */
ngx_uint_t sim_owns(sim_proc_t *proc, char *what, ngx_str_t *key,
    int64_t created, int64_t lease, uint64_t held);

/* 1: the key that was created at that revision was gone at that time */
ngx_uint_t sim_gone(ngx_str_t *key, int64_t created, uint64_t time);

/* when the last renewal that counts was sent, at the earliest */
uint64_t sim_renewed(ngx_etcd_lease_t *lease);

/* the key was there at that time, when a read began that has found it */
void sim_read(sim_proc_t *proc, ngx_str_t *key, int64_t created,
    uint64_t time);

/* 1: keys of these names share a lock */
ngx_uint_t sim_share(ngx_str_t *one, ngx_str_t *other);

/*
 * 1: etcd has had another key below the prefix, which does not share the lock
 * with that one, since then
 */
ngx_uint_t sim_waits(ngx_str_t *prefix, model_rec_t *rec, uint64_t time);

/*
 * how many keys below the prefix are older than that revision, of the key, and
 * do not share the lock with it; of those that came back, only the ones whose
 * owners may not know that they were gone, if these are asked for
 */
ngx_uint_t sim_before(model_store_t *store, ngx_str_t *prefix, ngx_str_t *key,
    int64_t created, ngx_uint_t unaware);

/*
 * the key must be among the first "permits" ones below the prefix, not counting
 * those that share the lock with it
 */
void sim_leads(sim_proc_t *proc, char *what, ngx_str_t *prefix, ngx_str_t *key,
    int64_t created, ngx_uint_t permits);


#endif /* _SIM_WORLD_H_INCLUDED_ */
