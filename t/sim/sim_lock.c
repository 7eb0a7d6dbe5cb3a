
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Requests of several workers that want the same locks, with one permit and
 * with two, with and without reuse of their keys.  In each fifth seed most
 * requests share the first lock.
 */


#include "sim_lock.h"


static void sim_lock_start(sim_proc_t *proc);
static void sim_lock_stop(sim_proc_t *proc);
static void sim_lock_free(ngx_etcd_lock_t *lock);
static void sim_lock_leave(sim_proc_t *proc);
static void sim_lock_resign(ngx_event_t *ev);
static void sim_lock_ended(void *data);
static void sim_lock_check(sim_proc_t *proc);
static ngx_uint_t sim_lock_settled(sim_proc_t *proc);
static ngx_uint_t sim_lock_left(sim_proc_t *proc);

static void sim_request_timer(ngx_event_t *ev);
static void sim_request_begin(sim_request_t *request);
static void sim_request_end(sim_request_t *request);
static void sim_request_handler(ngx_etcd_grant_t *grant);
static void sim_request_lost(ngx_etcd_grant_t *grant);
static void sim_request_shared(sim_request_t *request);
static void sim_request_token(sim_request_t *request);
static void sim_request_kept(sim_request_t *request);
static model_store_t *sim_request_store(sim_request_t *request);
static ngx_msec_t sim_request_pause(void);


sim_actor_t  sim_lock_actor = {
    "lock",
    sim_lock_start,
    sim_lock_stop,
    sim_lock_leave,
    sim_lock_check,
    sim_lock_settled,
    sim_lock_left
};


/* drawn by the first process */

static ngx_uint_t  sim_lock_permits[SIM_LOCKS];
static ngx_uint_t  sim_lock_reuse[SIM_LOCKS];
static ngx_msec_t  sim_lock_keep[SIM_LOCKS];

/* the highest token of a lock with one permit, in each history; by "shared" */

static uint64_t    sim_lock_token[SIM_LOCKS][MODEL_STORES][2];


/* the seeds in which requests share the first lock */

#define sim_lock_shared(i)  ((i) == 0 && sim.seed % 5 == 0)


static void
sim_lock_start(sim_proc_t *proc)
{
    ngx_uint_t      i;
    sim_worker_t   *worker;
    sim_request_t  *request;
    static char    *names[] = { "t/l1", "t/l2" };

    worker = ngx_pcalloc(proc->pool, sizeof(sim_worker_t));
    proc->data = worker;

    worker->proc = proc;
    worker->conf.client = sim_world.conf;
    ngx_str_set(&worker->conf.name, "sim");
    worker->conf.lock_ttl = sim_world.ttl;
    worker->conf.lock_waiters = 100;

    for (i = 0; i < SIM_LOCKS; i++) {
        if (proc->index == 0 && proc->lives == 1) {
            sim_lock_permits[i] = i + 1;
            sim_lock_reuse[i] = 1 + (sim_chance(2) ? sim_below(4) : 0);
            sim_lock_keep[i] = (sim_lock_permits[i] == 1 && sim_chance(3))
                               ? 1 + sim_below(500) : 0;
            ngx_memzero(sim_lock_token[i], sizeof(sim_lock_token[i]));
        }

        worker->names[i].name.data = (u_char *) names[i];
        worker->names[i].name.len = ngx_strlen(names[i]);
        worker->names[i].cluster = &worker->conf;
        worker->names[i].permits = sim_lock_permits[i];
        worker->names[i].reuse = sim_lock_reuse[i];
        worker->names[i].keep = sim_lock_keep[i];
        worker->names[i].shared = sim_lock_shared(i);
        worker->names[i].stats = &worker->stats[i];

        worker->locks[i].name = &worker->names[i];
        worker->locks[i].queue = 100;
    }

    for (i = 0; i < SIM_REQUESTS; i++) {
        request = &worker->requests[i];

        request->worker = worker;
        request->timer.handler = sim_request_timer;
        request->timer.data = request;
        request->timer.log = &sim.log;

        ngx_add_timer(&request->timer, sim_request_pause());
    }

    worker->timer.handler = sim_lock_resign;
    worker->timer.data = worker;
    worker->timer.log = &sim.log;
}


/* the process is gone: its connections are, and so nobody hears of this */

static void
sim_lock_stop(sim_proc_t *proc)
{
    ngx_uint_t                i, n;
    ngx_pool_t               *pools[SIM_LOCKS];
    sim_worker_t             *worker;
    ngx_etcd_lock_t          *lock;
    ngx_etcd_worker_locks_t  *locks;

    worker = proc->data;
    locks = worker->conf.worker_locks;

    for (i = 0; i < SIM_REQUESTS; i++) {
        ngx_etcd_lock_end(&worker->requests[i].grant);

        if (worker->requests[i].timer.timer_set) {
            ngx_del_timer(&worker->requests[i].timer);
        }
    }

    if (worker->timer.timer_set) {
        ngx_del_timer(&worker->timer);
    }

    if (locks == NULL) {
        return;
    }

    if (locks->timer.timer_set) {
        ngx_del_timer(&locks->timer);
    }

    n = 0;

    while (locks->tree.root != locks->tree.sentinel) {
        lock = (ngx_etcd_lock_t *) locks->tree.root;
        pools[n++] = lock->lock_queue.pool;
        sim_lock_free(lock);
    }

    ngx_etcd_lock_client_destroy(locks->client);

    while (n > 0) {
        ngx_destroy_pool(pools[--n]);
    }
}


static void
sim_lock_free(ngx_etcd_lock_t *lock)
{
    ngx_queue_t             *q;
    ngx_etcd_lock_permit_t  *permit;

    while (!ngx_queue_empty(&lock->permits)) {
        q = ngx_queue_head(&lock->permits);
        ngx_queue_remove(q);

        permit = ngx_queue_data(q, ngx_etcd_lock_permit_t, queue);
        ngx_etcd_lock_reuse_end(permit);
        ngx_etcd_mutex_release(permit->mutex);
        ngx_free(permit);
    }

    ngx_rbtree_delete(&lock->locks->tree, &lock->node.node);
}


static ngx_msec_t
sim_request_pause(void)
{
    return 1 + sim_below(sim_chance(4) ? 3000 : 100);
}


static void
sim_request_timer(ngx_event_t *ev)
{
    sim_request_t  *request;

    request = ev->data;

    if (request->busy) {
        sim_request_end(request);

    } else {
        sim_request_begin(request);
    }
}


static void
sim_request_begin(sim_request_t *request)
{
    ngx_int_t          rc;
    ngx_etcd_grant_t  *grant;

    if (request->worker->leaving) {
        return;
    }

    grant = &request->grant;
    ngx_memzero(grant, sizeof(ngx_etcd_grant_t));

    grant->conf = &request->worker->locks[sim_below(SIM_LOCKS)];
    grant->conf->wait = sim_chance(8) ? 0 : 1 + sim_below(20000);
    grant->handler = sim_request_handler;
    grant->lost = sim_request_lost;
    grant->owner = request;

    if (grant->conf->name->shared) {
        grant->shared = !sim_chance(4);
    }

    request->busy = 1;
    request->began = sim.now;

    rc = ngx_etcd_lock_begin(grant, &sim.log);

    if (rc == NGX_OK) {
        sim_request_handler(grant);
        return;
    }

    if (rc != NGX_AGAIN) {
        sim_request_end(request);
        return;
    }

    /* some do not wait so long */

    if (sim_chance(10)) {
        ngx_add_timer(&request->timer, sim_request_pause());
    }
}


static void
sim_request_end(sim_request_t *request)
{
    request->busy = 0;
    ngx_etcd_lock_end(&request->grant);
    ngx_add_timer(&request->timer, sim_request_pause());
}


static void
sim_request_handler(ngx_etcd_grant_t *grant)
{
    sim_request_t  *request;

    request = grant->owner;

    if (grant->state != NGX_ETCD_GRANT_HELD) {
        sim_request_end(request);
        return;
    }

    sim_trace("%V is held%s, token %uL", &grant->conf->name->name,
              grant->shared ? " with others" : "", grant->token);

    if (sim.calm && !request->worker->leaving) {
        request->worker->got[grant->conf - request->worker->locks]
                            [grant->shared]++;
    }

    if (grant->shared) {
        sim_request_shared(request);
    }

    sim_request_token(request);
    sim_request_kept(request);

    /* some hold it for longer than a loss may go unnoticed */

    ngx_add_timer(&request->timer,
                  (!sim.calm && sim_chance(30)) ? 1 + sim_below(60000)
                                                : sim_request_pause());
}


/*
 * A request that shares the lock has passed none that wants it alone: not one
 * that came to this worker before, nor one of which the worker must have heard.
 */

static void
sim_request_shared(sim_request_t *request)
{
    uint64_t           time;
    ngx_uint_t         i;
    model_rec_t       *rec;
    sim_request_t     *other;
    ngx_etcd_grant_t  *grant;
    ngx_etcd_mutex_t  *mutex;

    grant = &request->grant;
    mutex = grant->permit->mutex;

    for (i = 0; i < SIM_REQUESTS; i++) {
        other = &request->worker->requests[i];

        if (other->grant.lock == grant->lock
            && other->grant.state == NGX_ETCD_GRANT_WAITING
            && !other->grant.shared
            && other->began < request->began)
        {
            sim_fail("who shares a lock passes nobody", "a request of %s that "
                     "came later has %V", request->worker->proc->name,
                     &mutex->key);
        }
    }

    rec = model_get(model.store, &mutex->key);
    time = sim_world.watched + NGX_ETCD_LOCK_MAX_KEEP * SIM_MS;

    if (rec != NULL && rec->create == mutex->created
        && request->began > model.store->began + time
        && sim_waits(&grant->lock->lock_queue.from, rec, request->began - time))
    {
        sim_fail("who shares a lock passes nobody", "a request of %s has %V, "
                 "though others wait", request->worker->proc->name,
                 &mutex->key);
    }
}


/*
 * A service that checks tokens lets only newer ones pass: those of requests
 * that share a lock lie between those of others.
 */

static void
sim_request_token(sim_request_t *request)
{
    uint64_t          *last;
    ngx_uint_t         i;
    model_rec_t       *rec;
    model_store_t     *store;
    ngx_etcd_grant_t  *grant;
    ngx_etcd_mutex_t  *mutex;

    grant = &request->grant;
    mutex = grant->permit->mutex;
    i = grant->conf - request->worker->locks;

    store = sim_request_store(request);
    rec = model_get(store, &mutex->key);

    if (sim_lock_permits[i] != 1
        || rec == NULL
        || rec->create != mutex->created)
    {
        return;
    }

    last = sim_lock_token[i][store->number];

    if (grant->token <= last[0]
        || (!grant->shared && grant->token <= last[1]))
    {
        sim_fail("tokens grow", "%s has token %uL, after %uL and %uL",
                 request->worker->proc->name, grant->token, last[0], last[1]);
    }

    last[grant->shared] = ngx_max(last[grant->shared], grant->token);
}


/* etcd had a key that was kept, and no other one, since the request came */

static void
sim_request_kept(sim_request_t *request)
{
    model_rec_t             *rec;
    model_store_t           *store;
    ngx_etcd_mutex_t        *mutex;
    ngx_etcd_lock_name_t    *name;
    ngx_etcd_lock_permit_t  *permit;

    store = model.store;
    permit = request->grant.permit;
    name = request->grant.conf->name;
    mutex = permit->mutex;

    if (name->reuse != 1 || permit->handoffs == 0
        || store->began >= request->began)
    {
        return;
    }

    rec = model_get(store, &mutex->key);

    if (sim_gone(&mutex->key, mutex->created, request->began)) {
        sim_fail("a key that is kept is there", "%V of revision %L was gone "
                 "when a request of %s came", &mutex->key,
                 mutex->created, request->worker->proc->name);
        return;
    }

    if (rec != NULL && sim_waits(&request->grant.lock->lock_queue.from, rec,
                                 request->began))
    {
        sim_fail("a key is kept while nobody waits", "%V was passed on at %s",
                 &mutex->key, request->worker->proc->name);
    }
}


/*
 * The history that a grant belongs to.  A restore may bring back an older key,
 * whose end was the reason why this one holds.  A process that has had no
 * answer since then goes on in the former history, as the owner of the older
 * key does in this one.  No answer shows that a member which lagged behind has
 * gone on alone: there all go on with what held before.
 */

static model_store_t *
sim_request_store(sim_request_t *request)
{
    ngx_uint_t         history;
    ngx_etcd_grant_t  *grant;
    ngx_etcd_mutex_t  *mutex;

    grant = &request->grant;
    mutex = grant->permit->mutex;
    history = request->worker->proc->history;

    while (model.stores[history]->forced
           && mutex->since * SIM_MS < model.stores[history]->began)
    {
        history--;
    }

    if (history == model.store->number
        || sim_before(model.store, &grant->lock->lock_queue.from, &mutex->key,
                      mutex->created, 1)
           < grant->conf->name->permits)
    {
        return model.store;
    }

    return model.stores[history];
}


static void
sim_request_lost(ngx_etcd_grant_t *grant)
{
    sim_trace("%V is lost", &grant->conf->name->name);

    sim_request_end(grant->owner);
}


static void
sim_lock_check(sim_proc_t *proc)
{
    ngx_str_t          prefix;
    ngx_uint_t         i, j;
    sim_worker_t      *worker;
    ngx_etcd_grant_t  *grant;
    ngx_etcd_mutex_t  *mutex;

    worker = proc->data;

    for (i = 0; i < SIM_REQUESTS; i++) {
        grant = &worker->requests[i].grant;

        if (grant->lock == NULL
            || !grant->opened
            || !ngx_etcd_lock_held(grant))
        {
            continue;
        }

        for (j = 0; j < i; j++) {
            if (worker->requests[j].grant.lock != NULL
                && worker->requests[j].grant.state == NGX_ETCD_GRANT_HELD
                && worker->requests[j].grant.permit == grant->permit
                && !(worker->requests[j].grant.shared && grant->shared))
            {
                sim_fail("a key serves one request", "two hold %V at %s",
                         &grant->permit->mutex->key, proc->name);
                return;
            }
        }

        mutex = grant->permit->mutex;

        if (sim_owns(proc, "lock", &mutex->key, mutex->created,
                     mutex->lease, mutex->since * SIM_MS))
        {
            prefix = grant->lock->lock_queue.from;
            sim_leads(proc, "lock", &prefix, &mutex->key,
                      mutex->created, grant->conf->name->permits);
        }
    }

    sim_lock_keys(worker);
}


/* every lock was got */

static ngx_uint_t
sim_lock_settled(sim_proc_t *proc)
{
    ngx_uint_t     i;
    sim_worker_t  *worker;

    worker = proc->data;

    for (i = 0; i < SIM_LOCKS; i++) {
        if (worker->got[i][0] == 0
            || (sim_lock_shared(i) && worker->got[i][1] == 0))
        {
            return 0;
        }
    }

    return 1;
}


static void
sim_lock_leave(sim_proc_t *proc)
{
    ngx_uint_t      i;
    sim_worker_t   *worker;
    sim_request_t  *request;

    worker = proc->data;
    worker->leaving = 1;

    for (i = 0; i < SIM_REQUESTS; i++) {
        request = &worker->requests[i];

        request->busy = 0;
        ngx_etcd_lock_end(&request->grant);

        if (request->timer.timer_set) {
            ngx_del_timer(&request->timer);
        }
    }

    /* keys are deleted, or all that is left goes with the lease */

    ngx_add_timer(&worker->timer, sim_chance(2) ? 1 : 1000);
}


static void
sim_lock_resign(ngx_event_t *ev)
{
    sim_worker_t             *worker;
    ngx_etcd_worker_locks_t  *locks;

    worker = ev->data;
    locks = worker->conf.worker_locks;

    if (locks == NULL) {
        worker->ended = 1;
        return;
    }

    ngx_etcd_lock_client_end(locks->client, sim_lock_ended, worker);
}


static void
sim_lock_ended(void *data)
{
    sim_worker_t *worker = data;

    worker->ended = 1;
}


static ngx_uint_t
sim_lock_left(sim_proc_t *proc)
{
    sim_worker_t  *worker;

    worker = proc->data;

    return worker->ended;
}
