
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_lock_queue.h>
#include <ngx_etcd_mutex.h>
#include "client/test_etcd.h"


static ngx_etcd_lock_session_t *
test_lock_session_init(ngx_pool_t *pool)
{
    static ngx_etcd_lock_session_t  locks;

    test_etcd_conf(pool, 1);

    if (test_etcd_create(pool) != NGX_OK) {
        return NULL;
    }

    ngx_memzero(&locks, sizeof(ngx_etcd_lock_session_t));
    locks.cluster = test_etcd.cluster;

    return &locks;
}


/* The first prefix is kept, unless there was no memory for it. */

static void
test_lock_session_prefix(ngx_pool_t *pool)
{
    ngx_etcd_lock_session_t  *locks;

    locks = test_lock_session_init(pool);
    tap_expect(locks != NULL);

    ngx_etcd_lock_session_know(locks, tap_string(pool, "ns/one"));
    ngx_etcd_lock_session_know(locks, tap_string(pool, "ns/two"));

    if (test_alloc_failed()) {
        tap_text(&locks->prefix, "ns/two");
        return;
    }

    tap_text(&locks->prefix, "ns/one");
}


static void
test_lock_session_valid(ngx_pool_t *pool)
{
    ngx_etcd_lock_session_t  *locks;

    locks = test_lock_session_init(pool);
    tap_expect(locks != NULL);

    locks->session.lease.deadline = ngx_etcd_clock() + 1;
    tap_check(!ngx_etcd_lock_session_valid(locks));

    locks->session.state = NGX_ETCD_SESSION_HELD;
    tap_check(ngx_etcd_lock_session_valid(locks));

    /* another history may have given its keys to others */

    locks->cluster->foreign = 1;
    tap_check(!ngx_etcd_lock_session_valid(locks));
    locks->cluster->foreign = 0;

    ngx_current_msec++;
    tap_check(!ngx_etcd_lock_session_valid(locks));
}


/* Pauses are short from the first lock to the last one. */

static void
test_lock_session_urgent(ngx_pool_t *pool)
{
    ngx_etcd_lock_session_t  *locks;

    locks = test_lock_session_init(pool);
    tap_expect(locks != NULL);

    ngx_etcd_lock_session_enter(locks);
    ngx_etcd_lock_session_enter(locks);
    tap_check(locks->cluster->urgent);

    ngx_etcd_lock_session_leave(locks);
    tap_check(locks->cluster->urgent);

    ngx_etcd_lock_session_leave(locks);
    tap_check(!locks->cluster->urgent);
}


/* Keys of the lease that no mutex knows of are deleted, each by one mutex. */

static void
test_lock_session_found(ngx_pool_t *pool)
{
    ngx_str_t                *key;
    ngx_uint_t                i, n;
    ngx_etcd_mutex_t         *mutex;
    ngx_etcd_lock_session_t  *locks;

    static char *keys[] = {
        "l/1a2b-2", "l/1a2b-", "l/1a2b", "l/a1a2b-3", "1a2b-3", "l/1a2b-x",
        "l/1a2b--3", "l/1a2b-2"
    };

    locks = test_lock_session_init(pool);
    tap_expect(locks != NULL);

    locks->session.state = NGX_ETCD_SESSION_HELD;
    locks->session.lease.id = 0x1a2b;

    ngx_queue_init(&locks->leaving);
    ngx_rbtree_init(&locks->keys, &locks->sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_etcd_txn_batch_init(&locks->batch, locks->cluster);

    for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        key = tap_string(pool, keys[i]);
        ngx_etcd_mutex_found(locks, key, 40);
    }

    n = 0;

    while (!ngx_queue_empty(&locks->leaving)) {
        mutex = ngx_queue_data(ngx_queue_head(&locks->leaving),
                               ngx_etcd_mutex_t, queue);

        tap_text(&mutex->key, "l/1a2b-2");
        tap_check(mutex->op.latest == 40 && mutex->writing);

        ngx_etcd_txn_batch_withdraw(&mutex->op);
        ngx_etcd_mutex_drop(&locks->leaving, 1);
        n++;
    }

    /* without memory for the first mutex, the key's second sight makes one */

    tap_check(n == 1);
    tap_check(locks->keys.root == locks->keys.sentinel);

    ngx_etcd_txn_batch_done(&locks->batch);
}


ngx_etcd_tap_test_t  test_lock_session[] = {
    { "lock session: a prefix", test_lock_session_prefix },
    { "lock session: validity", test_lock_session_valid },
    { "lock session: urgency", test_lock_session_urgent },
    { "lock session: keys of the lease", test_lock_session_found },
    { NULL, NULL }
};
