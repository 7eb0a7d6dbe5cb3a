
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_list.h>
#include "test_etcd.h"


/* the arguments of the consumers' handlers */

static struct {
    ngx_etcd_list_t         list;
    ngx_uint_t              begun;
    ngx_uint_t              keys;
    ngx_uint_t              most;          /* keys at a time */
    ngx_int_t               rc;            /* of keys() */
    int64_t                 revision;
} test_list_state;


static void
test_list_begin(ngx_etcd_list_t *list)
{
    test_list_state.begun++;
    test_list_state.keys = 0;
}


static ngx_int_t
test_list_keys(ngx_etcd_list_t *list, Etcd__KeyValue **kvs, size_t n)
{
    test_list_state.keys += n;
    test_list_state.most = ngx_max(test_list_state.most, n);

    return test_list_state.rc;
}


static void
test_list_done(ngx_etcd_list_t *list, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, int64_t revision)
{
    test_etcd_done(status, text);
    test_list_state.revision = revision;
}


static void
test_list_cleanup(void *data)
{
    ngx_etcd_list_cancel(&test_list_state.list);
}


static ngx_int_t
test_list_init(ngx_pool_t *pool)
{
    test_etcd_conf(pool, 2);

    if (test_etcd_create(pool) != NGX_OK) {
        return NGX_ERROR;
    }

    test_alloc_cleanup(pool, test_list_cleanup);

    ngx_memzero(&test_list_state, sizeof(test_list_state));

    test_list_state.list.cluster = test_etcd.cluster;
    test_list_state.list.key = *tap_string(pool, "/a");
    test_list_state.list.range_end = *tap_string(pool, "/b");
    test_list_state.list.begin = test_list_begin;
    test_list_state.list.keys = test_list_keys;
    test_list_state.list.done = test_list_done;

    return NGX_OK;
}


/* Pages of one revision; the next is asked for while one is handed on. */

static void
test_list_pages(ngx_pool_t *pool)
{
    Etcd__RangeRequest      *request;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_list_init(pool) == NGX_OK);
    test_etcd.cluster->reads->probed = 1;

    ngx_etcd_list_start(&test_list_state.list);
    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    request = (Etcd__RangeRequest *)
              test_etcd_request(pool, call, &etcd__range_request__descriptor);
    tap_check(request->limit == NGX_ETCD_LIST_PAGE && request->revision == 0);

    test_etcd_keys(call, 'a', TEST_ETCD_KEYS, 1, 50);
    tap_expect(test_list_state.begun == 1 && test_etcd.done == 0);
    tap_check(test_list_state.keys == 0);

    call = test_etcd_range(0);
    tap_expect(call != NULL);

    request = (Etcd__RangeRequest *)
              test_etcd_request(pool, call, &etcd__range_request__descriptor);
    tap_check(request->revision == 50 && request->key.len == 5);
    tap_check(ngx_memcmp(request->key.data, "a299", 5) == 0);

    /*
     * the second page comes before the keys of the first one are passed on, and
     * has another revision in its header
     */

    test_etcd_keys(call, 'b', 2, 0, 60);
    tap_check(test_etcd.done == 0);

    test_loop_run();
    tap_expect(test_etcd.done == 1 && test_etcd.status == NGX_ETCD_GRPC_OK);
    tap_check(test_list_state.keys == TEST_ETCD_KEYS + 2);
    tap_check(test_list_state.most == NGX_ETCD_LIST_PIECE);
    tap_check(test_list_state.revision == 50 && test_list_state.begun == 1);
}


/* A compacted revision begins again; smaller pages after one too large. */

static void
test_list_again(ngx_pool_t *pool)
{
    Etcd__RangeRequest      *request;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_list_init(pool) == NGX_OK);
    test_etcd.cluster->reads->probed = 1;

    ngx_etcd_list_start(&test_list_state.list);
    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    call->call->oversize = 1;
    test_etcd_fail(call, NGX_ETCD_GRPC_RESOURCE_EXHAUSTED, "too long");
    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    request = (Etcd__RangeRequest *)
              test_etcd_request(pool, call, &etcd__range_request__descriptor);
    tap_check(request->limit == NGX_ETCD_LIST_PAGE / 8);

    test_etcd_keys(call, 'a', 2, 1, 50);
    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL && test_list_state.keys == 2);

    test_etcd_fail(call, NGX_ETCD_GRPC_OUT_OF_RANGE, "compacted");
    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL && test_etcd.done == 0);

    request = (Etcd__RangeRequest *)
              test_etcd_request(pool, call, &etcd__range_request__descriptor);
    tap_check(request->revision == 0 && request->key.len == 2);

    test_etcd_keys(call, 'a', 1, 0, 70);
    test_loop_run();
    tap_check(test_etcd.done == 1 && test_list_state.begun == 2);
    tap_expect(test_list_state.keys == 1 && test_list_state.revision == 70);

    /* a revision that the caller wants is compacted */

    test_list_state.list.pinned = 30;
    ngx_etcd_list_start(&test_list_state.list);
    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    test_etcd_fail(call, NGX_ETCD_GRPC_OUT_OF_RANGE, "compacted");
    tap_check(test_etcd.done == 2);
    tap_check(test_etcd.status == NGX_ETCD_GRPC_OUT_OF_RANGE);
}


/*
 * Late answers: smaller pages, down to one key if a part came, and not so small
 * if the endpoints are silent.
 */

static void
test_list_late(ngx_pool_t *pool)
{
    ngx_uint_t               i, heard;
    ngx_etcd_list_t         *list;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_list_init(pool) == NGX_OK);
    test_etcd.cluster->reads->probed = 1;

    list = &test_list_state.list;

    for (heard = 0; heard < 2; heard++) {
        list->limit = 0;
        test_etcd.done = 0;
        ngx_etcd_list_start(list);

        for (i = 0; i < 60000 && test_etcd.done == 0; i += 50) {
            test_loop_pass(50);
            call = test_etcd_range(0);

            if (heard && call != NULL) {
                test_etcd_alive(call, 1);
            }
        }

        tap_expect(test_etcd.done == 1);
        tap_check(test_etcd.status == NGX_ETCD_GRPC_DEADLINE_EXCEEDED
                  || test_alloc_failed());
        tap_check(list->limit == (heard ? 1 : NGX_ETCD_LIST_LEAST)
                  || test_alloc_failed());
    }
}


/* Lists that cannot be used, or are not wanted any more. */

static void
test_list_unusable(ngx_pool_t *pool)
{
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_list_init(pool) == NGX_OK);
    test_etcd.cluster->reads->probed = 1;

    ngx_etcd_list_start(&test_list_state.list);
    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    test_etcd_keys(call, 'a', 1, 0, 0);
    tap_check(test_etcd.done == 1);
    tap_check(test_etcd.status == NGX_ETCD_GRPC_INTERNAL);

    test_list_state.rc = NGX_ERROR;
    ngx_etcd_list_start(&test_list_state.list);
    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    test_etcd_keys(call, 'a', 2, 1, 50);
    test_loop_run();
    tap_expect(test_etcd.done == 2);
    tap_check(test_etcd.status == NGX_ETCD_GRPC_INTERNAL);
    tap_check(test_etcd_range(0) == NULL);

    /* with a page, and with one ahead */

    test_list_state.rc = NGX_OK;
    ngx_etcd_list_start(&test_list_state.list);
    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    test_etcd_keys(call, 'a', 2, 1, 60);
    call = test_etcd_range(0);
    tap_expect(call != NULL);
    test_etcd_keys(call, 'b', 2, 1, 60);

    ngx_etcd_list_cancel(&test_list_state.list);
    ngx_etcd_list_cancel(&test_list_state.list);
    test_loop_run();
    tap_check(test_etcd.done == 2);
}


/* Begins a list whose first page, of two keys at revision 50, came. */

static ngx_etcd_grpc_stream_t *
test_list_first(void)
{
    ngx_etcd_grpc_stream_t  *call;

    ngx_etcd_list_start(&test_list_state.list);
    test_loop_run();
    call = test_etcd_range(0);

    if (call == NULL) {
        return NULL;
    }

    test_etcd_keys(call, 'a', 2, 1, 50);

    return test_etcd_range_stream();
}


/* Sends a chunk of n keys; no header: revision 0. */

static void
test_list_chunk(ngx_etcd_grpc_stream_t *call, u_char letter, ngx_uint_t n,
    int64_t revision)
{
    ngx_uint_t                 i;
    Etcd__KeyValue             kv;
    Etcd__ResponseHeader       header;
    Etcd__RangeStreamResponse  stream;
    Etcd__NestedRangeResponse  range;

    static u_char               kvs[TEST_ETCD_KEYS][TEST_ETCD_VALUE + 32];
    static u_char               value[TEST_ETCD_VALUE];
    static u_char               chunk[sizeof(kvs) + 1024];
    static ProtobufCBinaryData  packed[TEST_ETCD_KEYS], response;

    etcd__range_stream_response__init(&stream);
    etcd__nested_range_response__init(&range);
    etcd__response_header__init(&header);

    for (i = 0; i < n; i++) {
        u_char  key[4];

        etcd__key_value__init(&kv);
        ngx_sprintf(key, "%c%03ui", letter, i);
        kv.key.data = key;
        kv.key.len = 4;
        kv.value.data = value;
        kv.value.len = test_etcd.value;

        packed[i].data = kvs[i];
        packed[i].len = etcd__key_value__pack(&kv, kvs[i]);
    }

    header.cluster_id = 7;
    header.revision = revision;
    header.raft_term = 3;

    range.header = revision ? &header : NULL;
    range.kvs = packed;
    range.n_kvs = n;

    response.data = chunk;
    response.len = etcd__nested_range_response__pack(&range, chunk);

    stream.range_response = &response;
    stream.n_range_response = 1;

    test_etcd_message(call, &stream.base);
}


/* After a first page the rest comes in chunks, and the header last. */

static void
test_list_stream(ngx_pool_t *pool)
{
    Etcd__RangeRequest      *request;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_list_init(pool) == NGX_OK);

    call = test_list_first();
    tap_expect(call != NULL);
    tap_check(call->call->timeout == 0 && call->ended);

    request = (Etcd__RangeRequest *)
              test_etcd_request(pool, call, &etcd__range_request__descriptor);
    tap_check(request->revision == 50 && request->limit == 0);
    tap_check(request->key.len == 5);
    tap_check(ngx_memcmp(request->key.data, "a001", 5) == 0);

    /* held from the first chunk that has to wait */

    test_list_chunk(call, 'b', TEST_ETCD_KEYS, 0);
    tap_expect(test_etcd_range_stream() == call && call->held);

    test_loop_run();
    tap_expect(test_list_state.keys == TEST_ETCD_KEYS + 2);
    tap_check(test_list_state.most == NGX_ETCD_LIST_PIECE);
    tap_expect(test_etcd_range_stream() == call && !call->held);

    test_list_chunk(call, 'c', 3, 0);
    tap_expect(test_etcd_range_stream() == call && !call->held);
    test_loop_run();
    tap_expect(test_etcd_range_stream() == call);

    test_list_chunk(call, 'd', 1, 60);
    tap_expect(test_etcd_range_stream() == call);
    tap_check(test_etcd.cluster->history.linearized == 60);

    test_loop_run();
    tap_expect(test_etcd_range_stream() == call && test_etcd.done == 0);

    test_etcd_fail(call, NGX_ETCD_GRPC_OK, "");
    tap_expect(test_etcd.done == 1 && test_etcd.status == NGX_ETCD_GRPC_OK);
    tap_check(test_list_state.keys == TEST_ETCD_KEYS + 6);
    tap_check(test_list_state.revision == 50 && test_list_state.begun == 1);

    /* the header may come alone, and all before the first key is used */

    call = test_list_first();
    tap_expect(call != NULL);
    test_list_chunk(call, 'b', 2, 0);
    tap_expect(test_etcd_range_stream() == call);
    test_list_chunk(call, 'c', 0, 60);
    tap_expect(test_etcd_range_stream() == call);
    test_etcd_fail(call, NGX_ETCD_GRPC_OK, "");
    tap_check(test_etcd.done == 1);

    test_loop_run();
    tap_expect(test_etcd.done == 2 && test_etcd.status == NGX_ETCD_GRPC_OK);
    tap_check(test_list_state.keys == 4);

    /* a list that is cancelled */

    call = test_list_first();
    tap_expect(call != NULL);
    test_list_chunk(call, 'b', 2, 0);
    tap_expect(test_etcd_range_stream() == call);
    ngx_etcd_list_cancel(&test_list_state.list);
    tap_check(test_etcd_range_stream() == NULL);
    test_loop_run();
    tap_check(test_etcd.done == 2);
}


/* Large values come a few at a time, from a page and from a chunk. */

static void
test_list_bytes(ngx_pool_t *pool)
{
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_list_init(pool) == NGX_OK);
    test_etcd.value = TEST_ETCD_VALUE;

    call = test_list_first();
    tap_expect(call != NULL);

    test_list_chunk(call, 'b', 7, 0);
    tap_expect(test_etcd_range_stream() == call);

    test_loop_run();
    tap_expect(test_list_state.keys == 9 && test_etcd.done == 0);
    tap_check(test_list_state.most
              == NGX_ETCD_LIST_BYTES / (TEST_ETCD_VALUE + 4));

    /* the list goes on after the last key of all pieces */

    test_etcd_fail(call, NGX_ETCD_GRPC_UNAVAILABLE, "left");
    call = test_etcd_range(0);
    tap_expect(call != NULL);

    test_list_state.most = 0;
    test_etcd_keys(call, 'c', 7, 0, 60);
    test_loop_run();
    tap_expect(test_etcd.done == 1 && test_etcd.status == NGX_ETCD_GRPC_OK);
    tap_check(test_list_state.keys == 16);
    tap_check(test_list_state.most
              == NGX_ETCD_LIST_BYTES / (TEST_ETCD_VALUE + 4));
}


/* Another etcd answers: its header is looked at before done(). */

static void
test_list_stream_history(ngx_pool_t *pool)
{
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_list_init(pool) == NGX_OK);

    call = test_list_first();
    tap_expect(call != NULL);

    test_etcd.cluster->cluster_id = 8;
    test_list_chunk(call, 'b', 2, 60);
    tap_expect(test_etcd.cluster->history.changes == 1);
    tap_check(ngx_etcd_list_outdated(&test_list_state.list));
}


/* Without RangeStream: asked for once on a connection. */

static void
test_list_unimplemented(ngx_pool_t *pool)
{
    ngx_uint_t               started;
    ngx_etcd_http2_t        *h2;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_list_init(pool) == NGX_OK);

    call = test_list_first();
    tap_expect(call != NULL);
    h2 = call->h2;

    test_etcd_fail(call, NGX_ETCD_GRPC_UNIMPLEMENTED, "unknown method");

    call = test_etcd_range(0);
    tap_expect(call != NULL && call->h2 == h2);
    test_etcd_keys(call, 'b', 2, 1, 60);
    test_loop_run();
    tap_check(test_etcd_range_stream() == NULL);
    call = test_etcd_range(0);
    tap_expect(call != NULL);
    test_etcd_keys(call, 'c', 1, 0, 60);
    test_loop_run();
    tap_expect(test_etcd.done == 1 && test_etcd.status == NGX_ETCD_GRPC_OK);
    tap_check(test_list_state.keys == 5 && test_list_state.begun == 1);

    started = test_etcd.started;
    tap_expect(test_list_first() == NULL);
    tap_expect(test_etcd.started == started + 2);
    ngx_etcd_list_cancel(&test_list_state.list);

    test_etcd_break(h2, "broken");
    call = test_list_first();
    tap_expect(call != NULL);

    /* after a page of one connection, another one is there */

    test_etcd_break(call->h2, "broken");
    tap_check(test_etcd_range_stream() == NULL);
    test_loop_pass(1000);
    tap_check(test_etcd_range_stream() == NULL);
    tap_expect(test_etcd_range(0) != NULL);
}


/* Pages go on after the last key, whatever ends a stream early. */

static void
test_list_cut(ngx_pool_t *pool)
{
    Etcd__RangeRequest      *request;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_list_init(pool) == NGX_OK);

    call = test_list_first();
    tap_expect(call != NULL);
    test_list_chunk(call, 'b', TEST_ETCD_KEYS, 0);
    tap_expect(test_etcd_range_stream() == call);
    test_list_chunk(call, 'c', 2, 0);
    tap_expect(test_etcd_range_stream() == call);

    test_etcd_fail(call, NGX_ETCD_GRPC_UNIMPLEMENTED, "no more of it");
    tap_check(test_etcd_range(0) == NULL);
    test_loop_run();
    tap_expect(test_list_state.keys == TEST_ETCD_KEYS + 4);

    call = test_etcd_range(0);
    tap_expect(call != NULL && test_etcd.done == 0);
    request = (Etcd__RangeRequest *)
              test_etcd_request(pool, call, &etcd__range_request__descriptor);
    tap_check(request->revision == 50 && request->key.len == 5);
    tap_check(request->limit == NGX_ETCD_LIST_PAGE);
    tap_check(ngx_memcmp(request->key.data, "c001", 5) == 0);

    test_etcd_keys(call, 'd', 1, 0, 60);
    test_loop_run();
    tap_expect(test_etcd.done == 1 && test_etcd.status == NGX_ETCD_GRPC_OK);
    tap_check(test_list_state.keys == TEST_ETCD_KEYS + 5);

    /* compacted: the page says so, too, and the list starts again */

    test_etcd.cluster->reads->probed = 0;
    call = test_list_first();
    tap_expect(call != NULL);
    test_list_chunk(call, 'b', 2, 0);
    tap_expect(test_etcd_range_stream() == call);
    test_etcd_fail(call, NGX_ETCD_GRPC_OUT_OF_RANGE, "compacted");
    test_loop_run();
    call = test_etcd_range(0);
    tap_expect(call != NULL && test_etcd_range_stream() == NULL);
    test_etcd_fail(call, NGX_ETCD_GRPC_OUT_OF_RANGE, "compacted");
    call = test_etcd_range(0);
    tap_expect(call != NULL);
    test_etcd_keys(call, 'a', 1, 1, 70);
    tap_check(test_list_state.begun == 3);
    tap_expect(test_etcd_range_stream() != NULL);
}


/* Chunks that no etcd sends, and none at all. */

static void
test_list_stray(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_grpc_stream_t  *call;

    static struct {
        ngx_uint_t   n[2];              /* keys of two chunks */
        int64_t      revision[2];
        ngx_uint_t   chunks;
        ngx_uint_t   keys;              /* keys that are used */
    } cases[] = {
        { { 0, 0 }, { 0, 0 }, 1, 2 },           /* nothing */
        { { 2, 0 }, { 49, 0 }, 1, 2 },          /* an older revision */
        { { 2, 1 }, { 0, 49 }, 2, 4 },
        { { 2, 1 }, { 60, 60 }, 2, 4 },         /* more after the header */
        { { 2, 0 }, { 0, 0 }, 1, 4 },           /* no header */
        { { 0, 0 }, { 0, 0 }, 0, 2 }
    };

    tap_expect(test_list_init(pool) == NGX_OK);

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ngx_uint_t  n;

        test_etcd.cluster->reads->probed = 0;
        call = test_list_first();
        tap_expect(call != NULL);

        for (n = 0; n < cases[i].chunks; n++) {
            tap_expect(test_etcd_range_stream() == call);
            test_list_chunk(call, 'b' + n, cases[i].n[n],
                            cases[i].revision[n]);
        }

        if (test_etcd_range_stream() == call) {
            test_etcd_fail(call, NGX_ETCD_GRPC_OK, "");
        }

        test_loop_run();
        tap_expect(test_list_state.keys == cases[i].keys);
        tap_check(test_etcd_range_stream() == NULL);
        call = test_etcd_range(0);
        tap_expect(call != NULL && test_etcd.done == i);
        test_etcd_keys(call, 'd', 1, 0, 60);
        test_loop_run();
        tap_expect(test_etcd.done == i + 1
                   && test_etcd.status == NGX_ETCD_GRPC_OK);
    }
}


/* Chunks that wait are not too many. */

static void
test_list_flood(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_list_init(pool) == NGX_OK);

    call = test_list_first();
    tap_expect(call != NULL);

    for (i = 0; i < NGX_ETCD_LIST_QUEUE; i++) {
        test_list_chunk(call, 'b', 1, 0);
        tap_expect(test_etcd_range_stream() == call && call->held);
    }

    test_list_chunk(call, 'c', 1, 0);
    tap_check(test_etcd_range_stream() == NULL && test_etcd.done == 0);

    test_loop_run();
    tap_expect(test_list_state.keys == NGX_ETCD_LIST_QUEUE + 2);
    tap_expect(test_etcd_range(0) != NULL);
}


/* Silence ends it, but not while it is held, nor with other input. */

static void
test_list_silence(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_list_init(pool) == NGX_OK);

    call = test_list_first();
    tap_expect(call != NULL);

    for (i = 0; i < 5; i++) {
        test_loop_pass(NGX_ETCD_LIST_STREAM_SILENCE - 100);
        tap_expect(test_etcd_range_stream() == call);
        test_etcd.cluster->reads->heard = ngx_current_msec;
    }

    /* input, but no keys */

    while (i++ < 2 + test_etcd.conf.request_timeout
                     / (NGX_ETCD_LIST_STREAM_SILENCE - 100))
    {
        test_loop_pass(NGX_ETCD_LIST_STREAM_SILENCE - 100);
        test_etcd.cluster->reads->heard = ngx_current_msec;
    }

    tap_check(test_etcd_range_stream() == NULL);
    tap_expect(test_etcd_range(0) != NULL);
    ngx_etcd_list_cancel(&test_list_state.list);

    test_etcd.cluster->reads->probed = 0;
    call = test_list_first();
    tap_expect(call != NULL);

    ngx_etcd_list_stream_hold(&test_list_state.list.stream, 1);
    test_loop_pass(3 * NGX_ETCD_LIST_STREAM_SILENCE);
    tap_expect(test_etcd_range_stream() == call);

    ngx_etcd_list_stream_hold(&test_list_state.list.stream, 0);
    test_loop_pass(NGX_ETCD_LIST_STREAM_SILENCE + 100);
    tap_check(test_etcd_range_stream() == NULL);
    tap_expect(test_etcd_range(0) != NULL);
    tap_check(test_etcd.done == 0);
}


ngx_etcd_tap_test_t  test_list[] = {
    { "list: pages", test_list_pages },
    { "list: again", test_list_again },
    { "list: late answers", test_list_late },
    { "list: unusable, and cancelled", test_list_unusable },
    { "list: the rest in a stream", test_list_stream },
    { "list: pieces of large values", test_list_bytes },
    { "list: a stream of another history", test_list_stream_history },
    { "list: no streams", test_list_unimplemented },
    { "list: a stream that is cut", test_list_cut },
    { "list: a stream that is none", test_list_stray },
    { "list: many chunks", test_list_flood },
    { "list: a silent stream", test_list_silence },
    { NULL, NULL }
};
