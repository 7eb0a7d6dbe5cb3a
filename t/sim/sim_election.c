
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Candidates of one election, each of which goes on with the lease of its
 * former life, or not.
 */


#include "sim_world.h"
#include <ngx_etcd_client.h>
#include <ngx_etcd_election.h>


typedef struct {
    ngx_etcd_cluster_t       *cluster;
    ngx_etcd_watch_stream_t  *stream;
    ngx_etcd_lease_stream_t  *leases;
    ngx_etcd_election_t       election;
    uint64_t                  asked;        /* the read that decides on
                                               leadership began; 0: there is
                                               none */
    int64_t                   created;      /* of its key */
    uint64_t                  known;        /* since when */
    ngx_uint_t                ended;
} sim_candidate_t;


static void sim_election_start(sim_proc_t *proc);
static void sim_election_stop(sim_proc_t *proc);
static void sim_election_leave(sim_proc_t *proc);
static void sim_election_ended(void *data);
static void sim_election_check(sim_proc_t *proc);
static void sim_election_read(sim_proc_t *proc, ngx_str_t *key,
    sim_candidate_t *candidate);
static void sim_election_seen(sim_proc_t *proc, ngx_str_t *key,
    ngx_etcd_election_t *election);
static ngx_uint_t sim_election_settled(sim_proc_t *proc);
static ngx_uint_t sim_election_left(sim_proc_t *proc);
static ngx_int_t sim_election_changed(ngx_etcd_election_t *election,
    ngx_uint_t seen);


sim_actor_t  sim_election_actor = {
    "election",
    sim_election_start,
    sim_election_stop,
    sim_election_leave,
    sim_election_check,
    sim_election_settled,
    sim_election_left
};


/* the state that a process leaves in shared memory */

static ngx_etcd_lease_state_t  sim_election_holds[SIM_PROCS];

/* since when it says that the process leads */

static uint64_t  sim_election_since[SIM_PROCS];


static void
sim_election_start(sim_proc_t *proc)
{
    sim_candidate_t      *candidate;
    ngx_etcd_election_t  *election;

    if (proc->lives == 1) {
        ngx_memzero(&sim_election_holds[proc->index],
                    sizeof(sim_election_holds[0]));
    }

    candidate = ngx_pcalloc(proc->pool, sizeof(sim_candidate_t));
    proc->data = candidate;

    candidate->cluster = ngx_etcd_client_create(&sim_world.conf, sim_nothing,
                                                NULL, &sim.log);
    candidate->stream = ngx_etcd_watch_stream_create(candidate->cluster);
    candidate->leases = ngx_etcd_lease_stream_create(candidate->cluster);

    election = &candidate->election;
    election->stream = candidate->stream;
    election->leases = candidate->leases;
    election->pool = proc->pool;
    ngx_str_set(&election->name, "election");
    ngx_str_set(&election->prefix, "t/e");
    election->value.data = proc->name;
    election->value.len = ngx_strlen(proc->name);
    election->ttl = sim_world.ttl;
    election->changed = sim_election_changed;
    election->data = proc;

    if (proc->lives > 1 && sim_chance(2)) {
        election->hold = sim_election_holds[proc->index];
    }

    if (ngx_etcd_election_start(election) != NGX_OK) {
        abort();
    }

    sim_election_holds[proc->index] = election->hold;
}


static void
sim_election_stop(sim_proc_t *proc)
{
    sim_candidate_t  *candidate;

    candidate = proc->data;

    ngx_etcd_watch_stream_destroy(candidate->stream);
    ngx_etcd_election_close(&candidate->election);
    ngx_etcd_lease_stream_destroy(candidate->leases);
    ngx_etcd_client_destroy(candidate->cluster);
}


static ngx_int_t
sim_election_changed(ngx_etcd_election_t *election, ngx_uint_t seen)
{
    sim_proc_t  *proc;

    proc = election->data;

    if ((sim_election_holds[proc->index].until != 0)
        != (election->hold.until != 0))
    {
        sim_trace("%s", election->hold.until ? "it leads"
                                             : "it does not lead any more");
        sim_election_since[proc->index] = sim.now;
    }

    sim_election_holds[proc->index] = election->hold;

    return NGX_OK;
}


/* the check of a request that reads the shared memory */

static void
sim_election_check(sim_proc_t *proc)
{
    ngx_str_t                prefix, key;
    sim_candidate_t         *candidate;
    ngx_etcd_lease_state_t  *hold;

    hold = &sim_election_holds[proc->index];
    candidate = proc->data;

    /* the candidate has no lease, or leaves */

    if (hold->lease == 0) {
        candidate->asked = 0;
        return;
    }

    prefix = sim_key("t/e/");
    key = sim_key("t/e/%xL", hold->lease);

    sim_election_read(proc, &key, candidate);

    if (hold->until <= sim.now / SIM_MS + 1) {
        return;
    }

    sim_election_seen(proc, &key, &candidate->election);

    if (sim_owns(proc, "election", &key, hold->created, hold->lease,
                 sim_election_since[proc->index]))
    {
        sim_leads(proc, "election", &prefix, &key, hold->created, 1);
    }
}


/*
 * A key makes its candidate lead after a read, which began when it was there.
 * The same holds for each renewal that counts.
 */

static void
sim_election_read(sim_proc_t *proc, ngx_str_t *key, sim_candidate_t *candidate)
{
    uint64_t              sent;
    ngx_etcd_election_t  *election;

    election = &candidate->election;

    if (election->hold.created == 0) {
        candidate->asked = 0;
        return;
    }

    if (candidate->asked != 0 && election->own.confirmed) {
        sim_read(proc, key, election->hold.created, candidate->asked);
    }

    if (!election->own.reading || !election->own.deciding) {
        candidate->asked = 0;

    } else if (candidate->asked == 0) {
        candidate->asked = sim.now + 1;
    }

    if (candidate->created != election->hold.created) {
        candidate->created = election->hold.created;
        candidate->known = sim.now;
    }

    sent = sim_renewed(&election->session.lease);

    if (election->session.state == NGX_ETCD_SESSION_HELD
        && candidate->known < sent)
    {
        sim_read(proc, key, election->hold.created, sent);
    }
}


/* A leader has not seen that its key is not the first one. */

static void
sim_election_seen(sim_proc_t *proc, ngx_str_t *key,
    ngx_etcd_election_t *election)
{
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_mirror_entry_t  *first;

    mirror = &election->mirror;

    if (!mirror->synced || mirror->listing || mirror->refused) {
        return;
    }

    first = ngx_etcd_mirror_first(mirror);

    if (first == NULL || first->create_revision != election->hold.created) {
        sim_fail("a key that is seen gone holds nothing", "%s leads by %V of "
                 "revision %L, and sees another one", proc->name, key,
                 election->hold.created);
    }
}


/* everybody sees the same leader, who knows it */

static ngx_uint_t
sim_election_settled(sim_proc_t *proc)
{
    ngx_uint_t                i, leads;
    ngx_etcd_mirror_entry_t  *leader;
    ngx_etcd_election_t      *election;

    election = &((sim_candidate_t *) proc->data)->election;
    leader = election->leader;

    if (leader == NULL || election->session.state != NGX_ETCD_SESSION_HELD
        || ngx_etcd_mirror_find(&election->mirror, &election->own.key) == NULL)
    {
        return 0;
    }

    leads = 0;

    for (i = 0; i < sim.nprocs; i++) {
        if (sim_election_holds[i].until > sim.now / SIM_MS + 1) {
            leads++;

            if (sim_election_holds[i].created != leader->create_revision) {
                return 0;
            }
        }
    }

    return leads == 1;
}


static void
sim_election_leave(sim_proc_t *proc)
{
    sim_candidate_t  *candidate;

    candidate = proc->data;

    ngx_memzero(&sim_election_holds[proc->index],
                sizeof(ngx_etcd_lease_state_t));
    ngx_etcd_election_end(&candidate->election, sim_election_ended, candidate);
}


static void
sim_election_ended(void *data)
{
    sim_candidate_t *candidate = data;

    candidate->ended = 1;
}


static ngx_uint_t
sim_election_left(sim_proc_t *proc)
{
    sim_candidate_t  *candidate;

    candidate = proc->data;

    return candidate->ended;
}
