
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_watch_events.h>
#include "client/test_etcd.h"


#define TEST_EVENTS  2000


/* the events that the owner was told, by revision */

static struct {
    ngx_etcd_watch_stream_t  *stream;
    ngx_etcd_watch_range_t    range;
    ngx_etcd_watch_events_t   events;
    int64_t                   revision;
    int64_t                   told[TEST_EVENTS];
    ngx_uint_t                ntold;
    ngx_uint_t                pieces;
    size_t                    largest;      /* events of a piece */
    ngx_uint_t                splits;
    ngx_uint_t                strange;      /* keys */
    ngx_uint_t                overflows;
    ngx_uint_t                drop;         /* with the next piece */
} test_events;


static void
test_events_told(void *data, Etcd__Event **events, size_t n)
{
    size_t  i;

    test_events.pieces++;
    test_events.largest = ngx_max(test_events.largest, n);
    test_events.splits += test_events.events.split;

    for (i = 0; i < n; i++) {
        test_events.told[test_events.ntold++] = events[i]->kv->mod_revision;

        if (events[i]->kv->key.len != 2
            || ngx_memcmp(events[i]->kv->key.data, "ab", 2) != 0)
        {
            test_events.strange++;
        }
    }

    if (test_events.drop) {
        ngx_etcd_watch_events_drop(&test_events.events);
    }
}


static void
test_events_overflow(void *data)
{
    test_events.overflows++;
}


static void
test_events_cleanup(void *data)
{
    ngx_etcd_watch_events_drop(&test_events.events);
    ngx_etcd_watch_stream_destroy(test_events.stream);
}


static ngx_int_t
test_events_init(ngx_pool_t *pool)
{
    ngx_str_t  space = ngx_string("ns/");

    test_etcd_conf(pool, 1);

    if (test_etcd_create(pool) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_memzero(&test_events, sizeof(test_events));

    test_events.stream = ngx_etcd_watch_stream_create(test_etcd.cluster);
    if (test_events.stream == NULL) {
        return NGX_ERROR;
    }

    test_alloc_cleanup(pool, test_events_cleanup);

    test_events.revision = 1;
    ngx_str_set(&test_events.range.prefix, "a");
    test_events.events.stream = test_events.stream;
    test_events.events.range = &test_events.range;
    test_events.events.revision = &test_events.revision;
    test_events.events.events = test_events_told;
    test_events.events.overflow = test_events_overflow;

    return ngx_etcd_watch_range_init(&test_events.range, pool, &space);
}


/* A packed event of that revision, in the pool. */

static void
test_events_pack(ngx_pool_t *pool, ProtobufCBinaryData *packed, char *key,
    int64_t revision, size_t size)
{
    Etcd__Event     event;
    Etcd__KeyValue  kv;

    static u_char  value[NGX_ETCD_WATCH_TOGETHER_BYTES];

    etcd__event__init(&event);
    etcd__key_value__init(&kv);

    kv.key.data = (u_char *) key;
    kv.key.len = ngx_strlen(key);
    kv.mod_revision = revision;
    kv.value.data = value;
    kv.value.len = size;
    event.kv = &kv;

    packed->len = protobuf_c_message_get_packed_size(&event.base);
    packed->data = ngx_palloc(pool, packed->len);

    if (packed->data == NULL) {
        abort();
    }

    (void) protobuf_c_message_pack(&event.base, packed->data);
}


/*
 * A response, or a fragment of one, with n events of each of these revisions.
 */

static ngx_int_t
test_events_add(ngx_uint_t fragment, int64_t first, int64_t last, ngx_uint_t n,
    size_t size, char *key)
{
    int64_t              revision;
    ngx_int_t            rc;
    ngx_uint_t           i;
    ngx_pool_t          *pool;
    Etcd__WatchResponse  response;

    test_alloc_pause();

    pool = ngx_create_pool(4096, test_etcd.cluster->log);
    if (pool == NULL) {
        abort();
    }

    etcd__watch_response__init(&response);

    response.fragment = fragment;
    response.events = ngx_palloc(pool, (last - first + 1) * n
                                       * sizeof(ProtobufCBinaryData));
    if (response.events == NULL) {
        abort();
    }

    for (revision = first; revision <= last; revision++) {
        for (i = 0; i < n; i++) {
            test_events_pack(pool, &response.events[response.n_events++], key,
                             revision, size);
        }
    }

    test_alloc_resume();

    rc = ngx_etcd_watch_events_add(&test_events.events, &response, pool);

    if (rc != NGX_DONE) {
        ngx_destroy_pool(pool);
    }

    return rc;
}


/* Returns 1 if n events of each revision after 1 were told, in order. */

static ngx_uint_t
test_events_all(int64_t last, ngx_uint_t n)
{
    ngx_uint_t  i;

    if (test_events.ntold != (ngx_uint_t) (last - 1) * n
        || test_events.strange)
    {
        return 0;
    }

    for (i = 0; i < test_events.ntold; i++) {
        if (test_events.told[i] != (int64_t) (2 + i / n)) {
            return 0;
        }
    }

    return 1;
}


static ngx_uint_t
test_events_pending(void)
{
    return test_events.events.buffering && test_events.events.whole != 0;
}


/* Nothing is buffered: the buffer holds up no proof, and takes no memory. */

static ngx_uint_t
test_events_idle(void)
{
    return test_events.stream->buffered == 0
           && test_events.stream->proof.behind == 0
           && !test_events_pending();
}


static void
test_events_small(ngx_pool_t *pool)
{
    tap_expect(test_events_init(pool) == NGX_OK);

    tap_expect(test_events_add(0, 2, 3, 2, 10, "ns/ab") == NGX_OK);
    tap_check(test_events_all(3, 2) && test_events.pieces == 1);
    tap_check(test_events.revision == 3 && test_events_idle());

    /* the owner has these already */

    tap_expect(test_events_add(0, 2, 3, 1, 10, "ns/ab") == NGX_OK);
    tap_check(test_events.pieces == 1);

    ngx_etcd_watch_events_progress(&test_events.events, 3);
    tap_check(test_events.pieces == 1);

    ngx_etcd_watch_events_progress(&test_events.events, 9);
    tap_check(test_events.pieces == 2 && test_events.revision == 9);

    /* an event of another watch */

    tap_check(test_events_add(0, 10, 10, 1, 10, "ns/b") == NGX_ERROR);
    tap_check(test_events.pieces == 2 && test_events.revision == 9);
    tap_expect(test_events.stream->serial);
}


static void
test_events_fragments(ngx_pool_t *pool)
{
    tap_expect(test_events_init(pool) == NGX_OK);

    tap_expect(test_events_add(1, 2, 2, 2, 10, "ns/ab") == NGX_DONE);
    test_loop_run();
    tap_check(test_events.pieces == 0 && test_events.revision == 1);
    tap_check(!test_events_pending());
    tap_check(test_events.stream->proof.behind == 1);

    ngx_etcd_watch_events_progress(&test_events.events, 7);
    tap_check(test_events.revision == 1);

    tap_expect(test_events_add(0, 3, 4, 2, 10, "ns/ab") == NGX_DONE);
    tap_check(test_events.pieces == 0);
    tap_check(test_events_pending());

    test_loop_run();

    /* events that cannot be read end the stream, and are listed again */

    tap_check(test_alloc_failed() ? test_events.revision == 0
                                    || test_events_all(4, 2)
                                  : test_events_all(4, 2));
    tap_expect(test_events.revision == 7 && test_events_idle());
}


/* Pieces are whole revisions, unless a revision is larger than a piece. */

static void
test_events_pieces(ngx_pool_t *pool)
{
    tap_expect(test_events_init(pool) == NGX_OK);

    tap_expect(test_events_add(0, 2, 301, 1, 1, "ns/ab") == NGX_DONE);
    test_loop_run();
    tap_expect(test_events_all(301, 1) && test_events.splits == 0);
    tap_check(test_events.pieces == 3);
    tap_check(test_events.largest == NGX_ETCD_WATCH_PIECE);
    tap_check(test_events_idle());
}


static void
test_events_large_revisions(ngx_pool_t *pool)
{
    tap_expect(test_events_init(pool) == NGX_OK);

    /* larger than a piece, but one revision */

    tap_expect(test_events_add(0, 2, 3, 200, 1, "ns/ab") == NGX_DONE);
    test_loop_run();
    tap_expect(test_events_all(3, 200) && test_events.splits == 0);
    tap_check(test_events.pieces == 2 && test_events.largest == 200);

    /* too large: *revision is that of the last part only */

    tap_expect(test_events_add(0, 4, 4, 600, 1, "ns/ab") == NGX_DONE);

    ngx_event_move_posted_next((ngx_cycle_t *) ngx_cycle);
    ngx_event_process_posted((ngx_cycle_t *) ngx_cycle, &ngx_posted_events);
    tap_expect(test_events.pieces == 3);
    tap_check(test_events.revision == 3 && test_events.splits == 1);

    test_loop_run();
    tap_expect(test_events.revision == 4 && test_events.splits == 2);
    tap_check(test_events.ntold == 400 + 600 && test_events_idle());
    tap_check(test_events.largest == NGX_ETCD_WATCH_TOGETHER);
}


/* A value is never split, and fills a piece of its own. */

static void
test_events_large_values(ngx_pool_t *pool)
{
    tap_expect(test_events_init(pool) == NGX_OK);

    tap_expect(test_events_add(0, 2, 2, 1, NGX_ETCD_WATCH_BYTES, "ns/ab")
               == NGX_OK);
    tap_check(test_events.pieces == 1);

    tap_expect(test_events_add(0, 3, 5, 1, NGX_ETCD_WATCH_BYTES, "ns/ab")
               == NGX_DONE);
    test_loop_run();
    tap_expect(test_events_all(5, 1));
    tap_check(test_events.pieces == 4 && test_events_idle());
}


static void
test_events_held(ngx_pool_t *pool)
{
    tap_expect(test_events_init(pool) == NGX_OK);

    ngx_etcd_watch_events_hold(&test_events.events, 1);
    ngx_etcd_watch_events_progress(&test_events.events, 9);
    tap_check(test_events.pieces == 0);

    tap_expect(test_events_add(0, 2, 4, 1, 1, "ns/ab") == NGX_DONE);
    test_loop_run();
    tap_check(test_events.pieces == 0);

    ngx_etcd_watch_events_hold(&test_events.events, 0);
    test_loop_run();
    tap_expect(test_events_all(4, 1) && test_events_idle());

    /* the owner drops the rest */

    ngx_etcd_watch_events_hold(&test_events.events, 1);
    tap_expect(test_events_add(0, 5, 304, 1, 1, "ns/ab") == NGX_DONE);

    test_events.drop = 1;
    ngx_etcd_watch_events_hold(&test_events.events, 0);
    test_loop_run();
    tap_expect(test_events.pieces == 2);
    tap_check(test_events.revision == 4 + NGX_ETCD_WATCH_PIECE);
    tap_check(test_events_idle());
}


static void
test_events_too_many(ngx_pool_t *pool)
{
    ngx_int_t   rc;
    ngx_uint_t  n;

    rc = NGX_DONE;

    tap_expect(test_events_init(pool) == NGX_OK);

    test_etcd.conf.max_message_size = 4096;

    /* how many fit depends on how nginx's pools count memory */

    for (n = 0; n < 5; n++) {
        rc = test_events_add(1, 2, 2, 100, 80, "ns/ab");

        if (rc != NGX_DONE) {
            break;
        }
    }

    tap_expect(n != 0 && rc == NGX_OK);
    tap_check(test_events.overflows == 1 && test_events.pieces == 0);

    ngx_etcd_watch_events_drop(&test_events.events);
    tap_check(test_events_idle());
}


ngx_etcd_tap_test_t  test_watch_events[] = {
    { "watch events: a small response", test_events_small },
    { "watch events: fragments", test_events_fragments },
    { "watch events: pieces", test_events_pieces },
    { "watch events: large revisions", test_events_large_revisions },
    { "watch events: large values", test_events_large_values },
    { "watch events: held back", test_events_held },
    { "watch events: too many", test_events_too_many },
    { NULL, NULL }
};
