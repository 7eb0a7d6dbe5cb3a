
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Checks of the keys that a worker has for its locks, after each step.
 */


#include "sim_lock.h"


/* A watch that knows the key knows all that were put before. */

static void
sim_lock_kept(sim_worker_t *worker, ngx_etcd_lock_permit_t *permit)
{
    ngx_uint_t                others;
    ngx_etcd_mutex_t         *mutex;
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_mirror_entry_t  *own, *other;

    mutex = permit->mutex;
    mirror = &permit->lock->lock_queue.mirror;

    if (!permit->kept || !mirror->synced) {
        return;
    }

    own = ngx_etcd_mirror_find(mirror, &mutex->own);

    if (own == NULL || own->create_revision != mutex->created) {
        return;
    }

    others = 0;

    for (other = ngx_etcd_mirror_first(mirror);
         other != NULL;
         other = ngx_etcd_mirror_next(mirror, other))
    {
        others += (other != own && !sim_share(&other->key, &own->key));
    }

    if (others != 0) {
        sim_fail("a key is kept while nobody waits",
                 "%V is kept, and %ui others are known at %s", &mutex->key,
                 others, worker->proc->name);
    }
}


/*
 * A key that has waited holds after a read, its own or a poll, which began when
 * it was there: after the last look that did not see it.
 */

static void
sim_lock_read(sim_worker_t *worker, ngx_etcd_lock_permit_t *permit)
{
    ngx_uint_t         reads;
    sim_checked_t     *checked;
    ngx_etcd_mutex_t  *mutex;

    mutex = permit->mutex;
    checked = &worker->checked[permit->lock->name - worker->names]
                              [mutex->created % SIM_CHECKED];

    if (mutex->state == NGX_ETCD_MUTEX_HELD) {
        if (checked->created == mutex->created && checked->time != 0) {
            sim_read(worker->proc, &mutex->key, mutex->created,
                     checked->time);
        }

        checked->created = 0;
        return;
    }

    reads = mutex->state == NGX_ETCD_MUTEX_CHECKING
            || (mutex->state == NGX_ETCD_MUTEX_WAITING
                && permit->lock->lock_queue.poll.asked != NULL);

    if (checked->created != mutex->created || checked->state != mutex->state
        || !reads || checked->time == 0)
    {
        checked->time = reads ? worker->looked + 1 : 0;
    }

    checked->created = mutex->created;
    checked->state = mutex->state;
}


/* A key that holds is one that the watch has, as far as it has told. */

static void
sim_lock_seen(sim_worker_t *worker, ngx_etcd_lock_permit_t *permit)
{
    ngx_etcd_mutex_t         *mutex;
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_mirror_entry_t  *own;

    mutex = permit->mutex;
    mirror = &permit->lock->lock_queue.mirror;

    if (!ngx_etcd_mirror_covers(mirror, mutex->created)) {
        return;
    }

    own = ngx_etcd_mirror_find(mirror, &mutex->own);

    if (own == NULL || own->create_revision != mutex->created) {
        sim_fail("a key that is seen gone holds nothing", "%s holds a lock by "
                 "%V of revision %L, and does not see it", worker->proc->name,
                 &mutex->key, mutex->created);
    }
}


static void
sim_lock_young(sim_worker_t *worker, ngx_etcd_lock_permit_t *permit)
{
    sim_youngest_t    *youngest;
    ngx_etcd_mutex_t  *mutex;

    mutex = permit->mutex;
    youngest = &worker->youngest;

    if (mutex->state != NGX_ETCD_MUTEX_HELD) {
        return;
    }

    if (mutex->created > youngest->created
        || youngest->history != model.store->number)
    {
        youngest->history = model.store->number;
        youngest->created = mutex->created;
        youngest->number = mutex->number;
        youngest->twins = 0;

    } else if (mutex->created == youngest->created
               && mutex->number != youngest->number)
    {
        youngest->twins = 1;
    }
}


/* Each renewal that counts has read the youngest key, when that was there. */

static void
sim_lock_renewed(sim_worker_t *worker, ngx_etcd_lock_permit_t *permit)
{
    uint64_t             sent;
    sim_youngest_t      *youngest;
    ngx_etcd_mutex_t    *mutex;
    ngx_etcd_session_t  *session;

    mutex = permit->mutex;
    session = &mutex->client->session;
    youngest = &worker->youngest;

    if (mutex->created != youngest->created || youngest->twins
        || session->state != NGX_ETCD_SESSION_HELD)
    {
        return;
    }

    sent = sim_renewed(&session->lease);

    if ((mutex->since + NGX_ETCD_LOCK_CLIENT_YOUNG) * SIM_MS <= sent) {
        sim_read(worker->proc, &mutex->key, mutex->created, sent);
    }
}


static void
sim_lock_key(sim_worker_t *worker, ngx_etcd_lock_permit_t *permit)
{
    sim_lock_kept(worker, permit);
    sim_lock_read(worker, permit);

    if (permit->mutex->state == NGX_ETCD_MUTEX_HELD) {
        sim_lock_seen(worker, permit);
        sim_lock_renewed(worker, permit);
    }
}


static void
sim_lock_each(sim_worker_t *worker,
    void (*check)(sim_worker_t *worker, ngx_etcd_lock_permit_t *permit))
{
    ngx_queue_t              *q;
    ngx_rbtree_t             *tree;
    ngx_etcd_lock_t          *lock;
    ngx_rbtree_node_t        *node;
    ngx_etcd_lock_permit_t   *permit;
    ngx_etcd_worker_locks_t  *locks;

    locks = worker->conf.worker_locks;

    if (locks == NULL) {
        return;
    }

    tree = &locks->tree;

    if (tree->root == tree->sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(tree->root, tree->sentinel);
         node != NULL;
         node = ngx_rbtree_next(tree, node))
    {
        lock = (ngx_etcd_lock_t *) node;

        for (q = ngx_queue_head(&lock->permits);
             q != ngx_queue_sentinel(&lock->permits);
             q = ngx_queue_next(q))
        {
            permit = ngx_queue_data(q, ngx_etcd_lock_permit_t, queue);

            check(worker, permit);
        }
    }
}


void
sim_lock_keys(sim_worker_t *worker)
{
    sim_lock_each(worker, sim_lock_young);
    sim_lock_each(worker, sim_lock_key);

    worker->looked = sim.now;
}
