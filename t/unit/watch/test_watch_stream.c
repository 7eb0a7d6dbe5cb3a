
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A watch comes into force, whichever allocation fails on the way.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_watch.h>
#include "client/test_etcd.h"


static struct {
    ngx_etcd_watch_stream_t  *stream;
    ngx_etcd_watch_t          watch;
    ngx_uint_t                keys;
    int64_t                   listed;
} test_watch_state;


static void
test_watch_list(ngx_etcd_watch_t *watch)
{
    test_watch_state.keys = 0;
}


static ngx_int_t
test_watch_keys(ngx_etcd_watch_t *watch, Etcd__KeyValue **kvs, size_t n)
{
    test_watch_state.keys += n;

    return NGX_OK;
}


static void
test_watch_listed(ngx_etcd_watch_t *watch, int64_t revision)
{
    test_watch_state.listed = revision;
}


static void
test_watch_event(ngx_etcd_watch_t *watch, Etcd__Event **events, size_t n,
    int64_t revision)
{
    /* the endpoint has none */
}


static void
test_watch_failed(ngx_etcd_watch_t *watch, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    /* the watch is tried again */
}


static void
test_watch_cleanup(void *data)
{
    ngx_etcd_watch_stream_destroy(test_watch_state.stream);
}


static ngx_int_t
test_watch_begin(ngx_pool_t *pool, ngx_uint_t prompt)
{
    ngx_etcd_watch_t  *watch;

    test_etcd_conf(pool, 1);

    if (test_etcd_create(pool) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_memzero(&test_watch_state, sizeof(test_watch_state));

    test_watch_state.stream = ngx_etcd_watch_stream_create(test_etcd.cluster);
    if (test_watch_state.stream == NULL) {
        return NGX_ERROR;
    }

    test_alloc_cleanup(pool, test_watch_cleanup);

    watch = &test_watch_state.watch;

    ngx_str_set(&watch->range.prefix, "a");
    watch->prompt = prompt;
    watch->list = test_watch_list;
    watch->keys = test_watch_keys;
    watch->listed = test_watch_listed;
    watch->events = test_watch_event;
    watch->failed = test_watch_failed;

    return ngx_etcd_watch_add(test_watch_state.stream, watch);
}


/* A message of that cluster on the stream. */

static void
test_watch_message(ngx_etcd_grpc_stream_t *call, uint64_t id,
    ngx_uint_t created)
{
    Etcd__WatchResponse   response;
    Etcd__ResponseHeader  header;

    etcd__response_header__init(&header);
    etcd__watch_response__init(&response);

    header.cluster_id = id;
    header.revision = 10;
    header.raft_term = 3;

    response.header = &header;
    response.created = created;
    response.watch_id = created ? 0 : -1;

    test_etcd_message(call, &response.base);
}


/* Answers the create that was sent last, unless it has an answer. */

static void
test_watch_create(ngx_pool_t *pool)
{
    Etcd__WatchRequest      *request;
    ngx_etcd_grpc_stream_t  *call;

    call = test_etcd_call("/etcdserverpb.Watch/Watch", 0);

    if (call == NULL || call->request.len == 0) {
        return;
    }

    request = (Etcd__WatchRequest *)
              test_etcd_request(pool, call, &etcd__watch_request__descriptor);
    call->request.len = 0;

    if (request->request_union_case
        != ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST)
    {
        return;
    }

    test_watch_message(call, 7, 1);
}


static void
test_watch_lives(ngx_pool_t *pool, ngx_uint_t prompt)
{
    ngx_uint_t               i;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_watch_begin(pool, prompt) == NGX_OK);

    for (i = 0; i < 200; i++) {
        test_loop_pass(50);

        call = test_etcd_range(0);

        if (call != NULL) {
            test_etcd_keys(call, 'a', 3, 0, 10);
        }

        test_watch_create(pool);
    }

    tap_check(ngx_etcd_watch_active(&test_watch_state.watch));
    tap_check(test_watch_state.keys == 3 && test_watch_state.listed == 10);

    tap_check(ngx_etcd_watch_remove(&test_watch_state.watch) == NGX_OK);
}


static void
test_watch_listed_first(ngx_pool_t *pool)
{
    test_watch_lives(pool, 0);
}


static void
test_watch_created_first(ngx_pool_t *pool)
{
    test_watch_lives(pool, 1);
}


/*
 * A list that has begun begins again if another cluster answers the stream,
 * which has taken the place of the known one.
 */

static void
test_watch_another_cluster(ngx_pool_t *pool)
{
    Etcd__RangeRequest      *request;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_watch_begin(pool, 0) == NGX_OK);

    test_loop_pass(1000);
    call = test_etcd_range(0);
    tap_expect(call != NULL);
    test_etcd_keys(call, 'a', 3, 1, 10);

    test_loop_pass(1000);
    call = test_etcd_call("/etcdserverpb.Watch/Watch", 0);
    tap_expect(call != NULL && test_watch_state.keys == 3);
    tap_expect(ngx_etcd_cluster_id_adopt(test_etcd.cluster, 8));
    test_watch_message(call, 8, 0);

    test_loop_pass(1000);
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    request = (Etcd__RangeRequest *)
              test_etcd_request(pool, call, &etcd__range_request__descriptor);

    tap_check(request->key.len == 1 && request->revision == 0);
    tap_check(test_watch_state.listed == 0);
}


ngx_etcd_tap_test_t  test_watch_stream[] = {
    { "watch stream: a list, then a watch", test_watch_listed_first },
    { "watch stream: a watch, then a list", test_watch_created_first },
    { "watch stream: another cluster", test_watch_another_cluster },
    { NULL, NULL }
};
