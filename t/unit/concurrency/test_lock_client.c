
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_lock_queue_read.h>
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

    ngx_etcd_lock_queue_know(client, tap_string(pool, "ns/one"));
    ngx_etcd_lock_queue_know(client, tap_string(pool, "ns/two"));

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
    tap_check(!ngx_etcd_lock_client_left(client));

    client->session.state = NGX_ETCD_SESSION_HELD;
    tap_check(ngx_etcd_lock_client_left(client));

    /* another history may have given its keys to others */

    client->cluster->history.foreign = 1;
    tap_check(!ngx_etcd_lock_client_left(client));
    client->cluster->history.foreign = 0;

    ngx_current_msec++;
    tap_check(!ngx_etcd_lock_client_left(client));
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


/* The number of a key that is being deleted is not used for another one. */

static void
test_lock_client_number(ngx_etcd_lock_client_t *client)
{
    ngx_event_t            news;
    ngx_etcd_mutex_t      *mutex;
    ngx_etcd_lock_queue_t  lock_queue;

    ngx_memzero(&news, sizeof(ngx_event_t));
    ngx_memzero(&lock_queue, sizeof(ngx_etcd_lock_queue_t));

    ngx_queue_init(&lock_queue.mutexes);
    ngx_queue_init(&lock_queue.leaving);
    ngx_str_set(&lock_queue.prefix, "l/");
    lock_queue.from = lock_queue.prefix;
    lock_queue.client = client;
    lock_queue.permits = 1;
    lock_queue.news = &news;
    lock_queue.lease = client->session.lease.id;
    lock_queue.free[lock_queue.nfree++] = 2;

    mutex = ngx_etcd_mutex_create(&lock_queue, 0);

    if (mutex != NULL) {
        tap_text(&mutex->key, "l/1a2b-1");

        ngx_etcd_mutex_release(mutex);
        ngx_etcd_mutex_drop(&lock_queue.leaving, 1);
    }

    if (news.posted) {
        ngx_delete_posted_event(&news);
    }
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

    test_lock_client_number(client);

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


/*
 * Whether a key holds is what etcd has: a watch that has not noticed another
 * history may not know of an earlier key.
 */

static void
test_lock_client_place(ngx_pool_t *pool)
{
    ngx_str_t              *name;
    ngx_uint_t              i;
    Etcd__KeyValue          own, other, *kvs[2];
    ngx_etcd_mutex_t        mutex;
    Etcd__RangeResponse     response;
    Etcd__ResponseHeader    header;
    ngx_etcd_lock_queue_t   lock_queue;

    static struct {
        size_t       n;
        char        *other;
        int64_t      created;
        ngx_uint_t   permits;
        ngx_uint_t   shared;
        ngx_int_t    rc;
    } cases[] = {
        { 1, "l/2-1", 6, 1, 0, NGX_OK },
        { 2, "l/2-1", 6, 1, 0, NGX_OK },
        { 2, "l/2-1", 4, 1, 0, NGX_AGAIN },
        { 2, "l/2-1", 4, 2, 0, NGX_OK },
        { 2, "l/2-1", 5, 1, 0, NGX_OK },
        { 2, "l/0-1", 5, 1, 0, NGX_AGAIN },
        { 2, "l/0-1", 5, 2, 0, NGX_OK },
        { 0, "l/2-1", 4, 1, 0, NGX_DECLINED },

        { 2, "l/2-1-shared", 4, 1, 0, NGX_AGAIN },
        { 2, "l/2-1-shared", 4, 1, 1, NGX_OK },
        { 2, "l/0-1-shared", 5, 1, 1, NGX_OK },
        { 2, "l/2-1", 4, 1, 1, NGX_AGAIN },
        { 2, "l/0-1", 5, 1, 1, NGX_AGAIN },
        { 2, "l/2-1", 6, 1, 1, NGX_OK },
        { 2, "l/-shared-1", 4, 1, 1, NGX_AGAIN },
        { 2, "-shared", 4, 1, 1, NGX_AGAIN },
        { 0, "l/2-1-shared", 4, 1, 1, NGX_DECLINED }
    };

    ngx_memzero(&mutex, sizeof(ngx_etcd_mutex_t));
    mutex.key = *tap_string(pool, "l/1-1");
    mutex.created = 5;

    ngx_memzero(&lock_queue, sizeof(ngx_etcd_lock_queue_t));
    mutex.lock_queue = &lock_queue;

    etcd__response_header__init(&header);
    header.revision = 7;

    etcd__range_response__init(&response);
    response.header = &header;
    response.kvs = kvs;

    kvs[0] = &own;
    kvs[1] = &other;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        etcd__key_value__init(&own);
        own.key = ngx_etcd_bytes(&mutex.key);
        own.create_revision = 5;

        name = tap_string(pool, cases[i].other);
        etcd__key_value__init(&other);
        other.key = ngx_etcd_bytes(name);
        other.create_revision = cases[i].created;

        response.n_kvs = cases[i].n;
        lock_queue.permits = cases[i].permits;
        mutex.shared = cases[i].shared;

        tap_check(ngx_etcd_lock_queue_place(&mutex, &response)
                  == cases[i].rc);
    }

    /* a key of the same name that was put later is another one */

    own.create_revision = 6;
    mutex.shared = 0;
    response.n_kvs = 1;

    tap_check(ngx_etcd_lock_queue_place(&mutex, &response)
              == NGX_DECLINED);
}


ngx_etcd_tap_test_t  test_lock_client[] = {
    { "lock session: a prefix", test_lock_client_prefix },
    { "lock session: validity", test_lock_client_valid },
    { "lock session: urgency", test_lock_client_urgent },
    { "lock session: keys of the lease", test_lock_client_found },
    { "lock session: the first keys", test_lock_client_place },
    { NULL, NULL }
};
