
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_lock_queue.h>
#include <ngx_etcd_mutex.h>
#include "client/test_etcd.h"


static ngx_etcd_lock_client_t *
test_lock_client_init(ngx_pool_t *pool)
{
    static ngx_etcd_lock_client_t  client;

    test_etcd_conf(pool, 1);

    if (test_etcd_create(pool) != NGX_OK) {
        return NULL;
    }

    ngx_memzero(&client, sizeof(ngx_etcd_lock_client_t));
    client.cluster = test_etcd.cluster;

    return &client;
}


/* The first prefix is kept, unless there was no memory for it. */

static void
test_lock_client_prefix(ngx_pool_t *pool)
{
    ngx_etcd_lock_client_t  *client;

    client = test_lock_client_init(pool);
    tap_expect(client != NULL);

    ngx_etcd_lock_client_know(client, tap_string(pool, "ns/one"));
    ngx_etcd_lock_client_know(client, tap_string(pool, "ns/two"));

    if (test_alloc_failed()) {
        tap_text(&client->prefix, "ns/two");
        return;
    }

    tap_text(&client->prefix, "ns/one");
}


static void
test_lock_client_valid(ngx_pool_t *pool)
{
    ngx_etcd_lock_client_t  *client;

    client = test_lock_client_init(pool);
    tap_expect(client != NULL);

    client->session.lease.deadline = ngx_etcd_clock() + 1;
    tap_check(!ngx_etcd_lock_client_valid(client));

    client->session.state = NGX_ETCD_SESSION_HELD;
    tap_check(ngx_etcd_lock_client_valid(client));

    /* another history may have given its keys to others */

    client->cluster->foreign = 1;
    tap_check(!ngx_etcd_lock_client_valid(client));
    client->cluster->foreign = 0;

    ngx_current_msec++;
    tap_check(!ngx_etcd_lock_client_valid(client));
}


/* Pauses are short from the first lock to the last one. */

static void
test_lock_client_urgent(ngx_pool_t *pool)
{
    ngx_etcd_lock_client_t  *client;

    client = test_lock_client_init(pool);
    tap_expect(client != NULL);

    ngx_etcd_lock_client_enter(client);
    ngx_etcd_lock_client_enter(client);
    tap_check(client->cluster->urgent);

    ngx_etcd_lock_client_leave(client);
    tap_check(client->cluster->urgent);

    ngx_etcd_lock_client_leave(client);
    tap_check(!client->cluster->urgent);
}


/* Keys of the lease that no mutex knows of are deleted, each by one mutex. */

static void
test_lock_client_found(ngx_pool_t *pool)
{
    ngx_str_t               *key;
    ngx_uint_t               i, n;
    ngx_etcd_mutex_t        *mutex;
    ngx_etcd_lock_client_t  *client;

    static char *keys[] = {
        "l/1a2b-2", "l/1a2b-", "l/1a2b", "l/a1a2b-3", "1a2b-3", "l/1a2b-x",
        "l/1a2b--3", "l/1a2b-2"
    };

    client = test_lock_client_init(pool);
    tap_expect(client != NULL);

    client->session.state = NGX_ETCD_SESSION_HELD;
    client->session.lease.id = 0x1a2b;

    ngx_queue_init(&client->leaving);
    ngx_rbtree_init(&client->mutexes, &client->sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_etcd_txn_batch_init(&client->batch, client->cluster);

    for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        key = tap_string(pool, keys[i]);
        ngx_etcd_mutex_found(client, key, 40);
    }

    n = 0;

    while (!ngx_queue_empty(&client->leaving)) {
        mutex = ngx_queue_data(ngx_queue_head(&client->leaving),
                               ngx_etcd_mutex_t, queue);

        tap_text(&mutex->key, "l/1a2b-2");
        tap_check(mutex->op.latest == 40 && mutex->writing);

        ngx_etcd_txn_batch_withdraw(&mutex->op);
        ngx_etcd_mutex_drop(&client->leaving, 1);
        n++;
    }

    /* without memory for the first mutex, the key's second sight makes one */

    tap_check(n == 1);
    tap_check(client->mutexes.root == client->mutexes.sentinel);

    ngx_etcd_txn_batch_done(&client->batch);
}


ngx_etcd_tap_test_t  test_lock_client[] = {
    { "lock session: a prefix", test_lock_client_prefix },
    { "lock session: validity", test_lock_client_valid },
    { "lock session: urgency", test_lock_client_urgent },
    { "lock session: keys of the lease", test_lock_client_found },
    { NULL, NULL }
};
