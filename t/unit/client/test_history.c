
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_history.h>
#include "test_etcd.h"


static ngx_uint_t                    test_history_told;
static ngx_etcd_history_listener_t   test_history_listener;


static void
test_history_changed(void *data)
{
    test_history_told++;

    if (data != NULL) {
        ngx_etcd_history_forget(data);
    }
}


static ngx_etcd_cluster_t *
test_history_init(ngx_pool_t *pool)
{
    ngx_etcd_cluster_t  *cluster;

    static ngx_etcd_cluster_t  space;

    test_etcd_conf(pool, 1);

    cluster = &space;
    ngx_memzero(cluster, sizeof(ngx_etcd_cluster_t));
    cluster->conf = &test_etcd.conf;
    cluster->log = pool->log;

    ngx_etcd_history_init(cluster);

    test_history_told = 0;
    ngx_memzero(&test_history_listener, sizeof(ngx_etcd_history_listener_t));
    test_history_listener.changed = test_history_changed;

    ngx_etcd_history_forget(&test_history_listener);
    ngx_etcd_history_listen(cluster, &test_history_listener);

    return cluster;
}


/* An answer with this header to a request that is sent now. */

static void
test_history_answer(ngx_etcd_cluster_t *cluster, uint64_t id, int64_t revision,
    uint64_t term, ngx_etcd_history_mark_t *mark)
{
    Etcd__ResponseHeader     header;
    ngx_etcd_history_mark_t  now;

    etcd__response_header__init(&header);

    header.cluster_id = id;
    header.revision = revision;
    header.raft_term = term;

    now = ngx_etcd_history_mark(cluster);
    ngx_etcd_history_check(cluster, &header, mark ? mark : &now);
}


static void
test_history_same(ngx_pool_t *pool)
{
    ngx_etcd_cluster_t       *cluster;
    ngx_etcd_history_mark_t   mark;

    cluster = test_history_init(pool);

    mark = ngx_etcd_history_mark(cluster);
    ngx_etcd_history_check(cluster, NULL, &mark);

    test_history_answer(cluster, 7, 100, 5, NULL);
    tap_check(cluster->cluster_id == 7 && cluster->history.linearized == 100
              && cluster->history.raft_term == 5);

    /* nothing has been written since */

    test_history_answer(cluster, 7, 100, 5, NULL);
    tap_check(cluster->history.changes == 0);

    /* a proxy's own headers, and one without a term */

    test_history_answer(cluster, 0, 1, 1, NULL);
    test_history_answer(cluster, 7, 0, 1, NULL);
    test_history_answer(cluster, 7, -1, 1, NULL);
    test_history_answer(cluster, 7, 101, 0, NULL);

    /* an answer to an older request */

    mark = ngx_etcd_history_mark(cluster);
    test_history_answer(cluster, 7, 200, 6, NULL);
    test_history_answer(cluster, 7, 150, 5, &mark);

    tap_check(cluster->history.linearized == 200
              && cluster->history.raft_term == 6);

    test_loop_run();
    tap_check(test_history_told == 0 && cluster->history.changes == 0);
}


static void
test_history_other(ngx_pool_t *pool)
{
    ngx_uint_t           i;
    ngx_etcd_cluster_t  *cluster;

    static struct {
        uint64_t   id;
        int64_t    revision;
        uint64_t   term;
    } cases[] = {
        { 8, 100, 5 }, { 7, 99, 5 }, { 7, 100, 4 }, { 7, 1000, 2 }
    };

    for (i = 0; i < 4; i++) {
        cluster = test_history_init(pool);
        test_history_answer(cluster, 7, 100, 5, NULL);
        test_history_answer(cluster, cases[i].id, cases[i].revision,
                            cases[i].term, NULL);

        tap_check(cluster->history.changes == 1 && cluster->history.foreign);
        tap_check(test_history_told == 0);

        test_loop_run();

        tap_check(test_history_told == 1 && !cluster->history.foreign);
        tap_check(cluster->cluster_id == cases[i].id);
        tap_check(cluster->history.linearized == cases[i].revision);
        tap_check(cluster->history.raft_term == cases[i].term);
    }

    /* Revisions that watches have seen count. */

    cluster = test_history_init(pool);
    test_history_answer(cluster, 7, 100, 5, NULL);
    cluster->revision = 300;
    test_history_answer(cluster, 7, 299, 5, NULL);
    tap_check(cluster->history.changes == 1);

    ngx_etcd_event_stop(&cluster->history.tell);
    test_loop_run();
    tap_check(test_history_told == 0);
}


/* A request from before the change is not compared with the former history. */

static void
test_history_late(ngx_pool_t *pool)
{
    ngx_etcd_cluster_t           *cluster;
    ngx_etcd_history_mark_t       mark;
    ngx_etcd_history_listener_t   another;

    cluster = test_history_init(pool);

    ngx_memzero(&another, sizeof(ngx_etcd_history_listener_t));
    another.changed = test_history_changed;
    another.data = &another;
    ngx_etcd_history_listen(cluster, &another);

    test_history_answer(cluster, 7, 100, 5, NULL);

    mark = ngx_etcd_history_mark(cluster);

    test_history_answer(cluster, 7, 10, 2, NULL);
    test_history_answer(cluster, 7, 11, 2, &mark);
    test_loop_run();

    /* each listener once, and who is gone is told no more */

    tap_check(cluster->history.changes == 1 && test_history_told == 2);

    test_history_answer(cluster, 7, 5, 2, NULL);
    test_loop_run();

    tap_check(cluster->history.changes == 2 && test_history_told == 3);
}


ngx_etcd_tap_test_t  test_history[] = {
    { "history: the same one", test_history_same },
    { "history: another one", test_history_other },
    { "history: late answers", test_history_late },
    { NULL, NULL }
};
