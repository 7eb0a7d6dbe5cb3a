
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_proof.h>
#include "client/test_etcd.h"


/* ms, of the configuration in test_etcd_conf() */

#define TEST_PROOF_INTERVAL  (3 * 10000)
#define TEST_PROOF_TIMEOUT   5000


static ngx_uint_t          test_proof_requests;
static ngx_int_t           test_proof_rc;
static ngx_etcd_cluster_t  test_proof_cluster;


static ngx_int_t
test_proof_ask(void *data)
{
    if (test_proof_rc == NGX_OK) {
        test_proof_requests++;
    }

    return test_proof_rc;
}


static void
test_proof_init(ngx_pool_t *pool, ngx_etcd_proof_t *proof)
{
    test_loop_init(pool->log);

    ngx_memzero(proof, sizeof(ngx_etcd_proof_t));
    ngx_memzero(&test_proof_cluster, sizeof(ngx_etcd_cluster_t));

    test_proof_requests = 0;
    test_proof_rc = NGX_OK;

    proof->cluster = &test_proof_cluster;
    proof->progress = test_proof_ask;

    proof->verify.proof = proof;
    proof->verify.range = &proof->range;
}


/* A proof needs a watch in force, and no reason against it. */

static void
test_proof_proofs(ngx_pool_t *pool)
{
    ngx_etcd_proof_t  proof;

    test_proof_init(pool, &proof);

    ngx_etcd_proof_received(&proof, 0);
    ngx_etcd_proof_ask(&proof);
    tap_check(test_proof_cluster.proved == 0 && test_proof_requests == 0);

    ngx_etcd_proof_count(&proof, 0, 1);
    ngx_etcd_proof_count(&proof, 1, 0);
    ngx_etcd_proof_received(&proof, 0);
    tap_check(test_proof_cluster.proved == 0);

    ngx_etcd_proof_count(&proof, 0, -1);
    ngx_etcd_proof_received(&proof, 0);
    tap_check(test_proof_cluster.proved == ngx_etcd_clock());

    ngx_etcd_proof_count(&proof, -1, 0);
    ngx_current_msec += 10;
    ngx_etcd_proof_received(&proof, 0);
    tap_check(test_proof_cluster.proved == ngx_etcd_clock() - 10);

    ngx_etcd_proof_count(&proof, 1, 0);
    test_proof_cluster.current = 0;
    ngx_etcd_proof_ended(&proof);
    ngx_etcd_proof_received(&proof, 0);
    tap_check(test_proof_cluster.proved == ngx_etcd_clock() - 10);
}


/* An answer proves the time of the first request that had none yet. */

static void
test_proof_requested(ngx_pool_t *pool)
{
    uint64_t          first;
    ngx_etcd_proof_t  proof;

    test_proof_init(pool, &proof);
    ngx_etcd_proof_count(&proof, 1, 0);

    /* nobody was asked */

    ngx_etcd_proof_received(&proof, 1);
    tap_check(test_proof_cluster.proved == 0);

    test_proof_rc = NGX_DECLINED;
    ngx_etcd_proof_ask(&proof);
    tap_check(proof.asked == 0);

    test_proof_rc = NGX_OK;
    first = ngx_etcd_clock();
    ngx_etcd_proof_ask(&proof);
    ngx_current_msec += NGX_ETCD_PROOF_AGAIN - 1;
    ngx_etcd_proof_ask(&proof);
    tap_check(test_proof_requests == 1);

    ngx_current_msec++;
    ngx_etcd_proof_ask(&proof);
    tap_check(test_proof_requests == 2);

    ngx_etcd_proof_received(&proof, 1);
    tap_check(test_proof_cluster.proved == first);

    /* the answer to the other request must not count for a third one */

    ngx_current_msec += NGX_ETCD_PROOF_AGAIN - 1;
    ngx_etcd_proof_ask(&proof);
    tap_check(test_proof_requests == 2);

    ngx_etcd_proof_received(&proof, 1);
    tap_check(test_proof_cluster.proved == first);

    ngx_current_msec++;
    ngx_etcd_proof_ask(&proof);
    ngx_etcd_proof_received(&proof, 1);
    tap_check(test_proof_cluster.proved == ngx_etcd_clock());

    /* a request that was not repeated delays nothing */

    ngx_etcd_proof_ask(&proof);
    tap_check(test_proof_requests == 4);

    /* the answer to this request will not come on another stream */

    ngx_etcd_proof_ended(&proof);
    ngx_current_msec++;
    ngx_etcd_proof_received(&proof, 1);
    tap_check(test_proof_cluster.proved == ngx_etcd_clock() - 1);

    ngx_etcd_proof_ask(&proof);
    tap_check(test_proof_requests == 5);
}


static ngx_etcd_proof_t  test_quorum;
static ngx_uint_t        test_quorum_silent;


static void
test_quorum_leave(void *data, ngx_str_t *reason)
{
    test_quorum_silent++;
    ngx_etcd_proof_ended(&test_quorum);
}


static void
test_quorum_cleanup(void *data)
{
    ngx_etcd_proof_ended(&test_quorum);
}


/* The streams channel is connected, and a key is known. */

static ngx_int_t
test_quorum_init(ngx_pool_t *pool)
{
    ngx_str_t  key;

    test_quorum_silent = 0;

    test_etcd_conf(pool, 1);

    if (test_etcd_create(pool) != NGX_OK) {
        return NGX_ERROR;
    }

    test_alloc_cleanup(pool, test_quorum_cleanup);

    ngx_memzero(&test_quorum, sizeof(ngx_etcd_proof_t));

    test_quorum.cluster = test_etcd.cluster;
    test_quorum.leave = test_quorum_leave;

    test_quorum.verify.proof = &test_quorum;
    test_quorum.verify.range = &test_quorum.range;

    ngx_str_set(&key, "a/");
    ngx_etcd_proof_know(&test_quorum, &key);

    ngx_str_set(&key, "b/");
    ngx_etcd_proof_know(&test_quorum, &key);

    (void) ngx_etcd_channel_get(test_etcd.cluster->streams);
    test_loop_run();

    return NGX_OK;
}


/* Waits for the next read, at most one interval. */

static ngx_etcd_grpc_stream_t *
test_quorum_next(void)
{
    ngx_uint_t  ms;

    for (ms = 0; ms < TEST_PROOF_INTERVAL && test_etcd_range(0) == NULL; ms++)
    {
        test_loop_pass(1);
    }

    return test_etcd_range(0);
}


/* An answer is followed by the next read, however long it takes. */

static void
test_quorum_answers(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    Etcd__RangeRequest      *request;
    Etcd__RangeResponse      range;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_quorum_init(pool) == NGX_OK);

    test_etcd.cluster->current = 1;
    ngx_etcd_proof_opened(&test_quorum);
    test_loop_pass(TEST_PROOF_INTERVAL * 3 / 4 - 1);
    tap_check(test_etcd_range(0) == NULL);

    for (i = 0; i < 3; i++) {
        call = test_quorum_next();
        tap_expect(call != NULL);

        request = (Etcd__RangeRequest *)
                  test_etcd_request(pool, call,
                                    &etcd__range_request__descriptor);

        tap_check(request->key.len == 2 && !request->serializable);
        tap_check(request->key.data[0] == 'a' || test_alloc_failed());

        test_loop_pass(TEST_PROOF_TIMEOUT - 1);
        tap_check(test_quorum_silent == 0);

        if (i == 2) {
            test_etcd_fail(call, NGX_ETCD_GRPC_PERMISSION_DENIED,
                           "etcdserver: permission denied");

        } else {
            etcd__range_response__init(&range);
            test_etcd_answer(call, &range.base);
        }

        /* the answer proves the time of the request */

        tap_check(test_etcd.cluster->proved == test_quorum.verify.sent
                  && ngx_etcd_clock() - test_quorum.verify.sent
                     >= TEST_PROOF_TIMEOUT - 1);
    }

    test_loop_pass(TEST_PROOF_TIMEOUT);
    tap_check(test_quorum_silent == 0);
}


/* The next endpoint has twice as long; an answer of any kind ends this. */

static void
test_quorum_silence(ngx_pool_t *pool)
{
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_quorum_init(pool) == NGX_OK);

    ngx_etcd_proof_opened(&test_quorum);
    tap_expect(test_quorum_next() != NULL);

    test_loop_pass(TEST_PROOF_TIMEOUT);
    tap_check(test_quorum_silent == 1 && test_etcd_range(0) == NULL);

    ngx_etcd_proof_opened(&test_quorum);
    tap_expect(test_quorum_next() != NULL);

    test_loop_pass(TEST_PROOF_TIMEOUT * 2 - 1);
    tap_check(test_quorum_silent == 1);
    test_loop_pass(1);
    tap_check(test_quorum_silent == 2);

    ngx_etcd_proof_opened(&test_quorum);
    call = test_quorum_next();
    tap_expect(call != NULL);
    test_etcd_fail(call, NGX_ETCD_GRPC_PERMISSION_DENIED, "no");
    tap_check(test_quorum.verify.silences == 0);

    /* a failure proves nothing, and is no silence */

    call = test_quorum_next();
    tap_expect(call != NULL);
    test_etcd_fail(call, NGX_ETCD_GRPC_INTERNAL, "etcd has a fault");
    tap_check(test_quorum_silent == 2);
    tap_expect(test_quorum_next() != NULL);
}


/* Without a key or a connection nothing is read. */

static void
test_quorum_nothing(ngx_pool_t *pool)
{
    tap_expect(test_quorum_init(pool) == NGX_OK);

    test_quorum.range.key.len = 0;
    ngx_etcd_proof_opened(&test_quorum);
    tap_check(test_quorum_next() == NULL);

    ngx_str_set(&test_quorum.range.key, "a/");
    tap_expect(test_etcd_connection(0) != NULL);
    test_etcd.down = 1;
    test_etcd_break(test_etcd_connection(0), "broken");
    tap_check(test_quorum_next() == NULL && test_quorum_silent == 0);
}


typedef struct {
    ngx_etcd_verify_t  verify;
    int64_t            revision;
    int64_t            nkeys;
    uint64_t           time;         /* verified as of it */
    ngx_uint_t         differs;      /* times */
} test_verify_t;


static test_verify_t  test_verify;


static ngx_uint_t
test_verify_pending(void *data)
{
    return 0;
}


static void
test_verify_verified(void *data, uint64_t time)
{
    test_verify.time = time;
}


static void
test_verify_differs(void *data)
{
    test_verify.differs++;
}


static void
test_verify_cleanup(void *data)
{
    ngx_etcd_verify_stop(&test_verify.verify);
}


/* A watch of so many keys at that revision, as far as it knows. */

static ngx_int_t
test_verify_init(ngx_pool_t *pool, int64_t revision, int64_t nkeys)
{
    ngx_etcd_verify_t  *verify;

    if (test_quorum_init(pool) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_memzero(&test_verify, sizeof(test_verify_t));

    test_verify.revision = revision;
    test_verify.nkeys = nkeys;

    verify = &test_verify.verify;

    verify->proof = &test_quorum;
    verify->range = &test_quorum.range;
    verify->interval = 1000;
    verify->revision = &test_verify.revision;
    verify->nkeys = &test_verify.nkeys;
    verify->pending = test_verify_pending;
    verify->verified = test_verify_verified;
    verify->differs = test_verify_differs;

    test_alloc_cleanup(pool, test_verify_cleanup);

    ngx_etcd_verify_start(verify);

    return NGX_OK;
}


/* The answer to the next read: so many keys at that revision. */

static ngx_int_t
test_verify_answer(int64_t revision, int64_t count)
{
    Etcd__RangeResponse      range;
    Etcd__ResponseHeader     header;
    ngx_etcd_grpc_stream_t  *call;

    call = test_quorum_next();

    if (call == NULL) {
        return NGX_ERROR;
    }

    etcd__response_header__init(&header);
    header.cluster_id = 7;
    header.revision = revision;

    etcd__range_response__init(&range);
    range.header = &header;
    range.count = count;

    test_etcd_answer(call, &range.base);

    return NGX_OK;
}


/* The watch reports one event of that revision. */

static void
test_verify_event(int64_t revision, ngx_int_t change)
{
    test_verify.revision = revision;
    test_verify.nkeys += change;

    ngx_etcd_verify_counted(&test_verify.verify, revision, change);
    ngx_etcd_verify_reached(&test_verify.verify);
}


/*
 * A watch that was behind has as many keys as the answer when it comes to its
 * revision, whatever comes later; or it lacks events.
 */

static void
test_verify_awaited(ngx_pool_t *pool)
{
    uint64_t  sent;

    tap_expect(test_verify_init(pool, 5, 2) == NGX_OK);

    tap_expect(test_verify_answer(7, 3) == NGX_OK);
    sent = test_verify.verify.sent;
    tap_check(test_verify.time == 0 && test_verify.differs == 0);

    test_loop_pass(10);
    test_verify_event(6, 1);
    tap_check(test_verify.time == 0);

    test_verify_event(8, -1);
    tap_check(test_verify.time == sent && test_verify.differs == 0);

    /* the event of revision 9 is lost, and a later one makes up for it */

    tap_expect(test_verify_answer(10, 3) == NGX_OK);
    test_verify_event(11, 1);
    tap_check(test_verify.time == sent && test_verify.differs == 1);
}


/* Keys that are counted anew say nothing of what was awaited. */

static void
test_verify_anew(ngx_pool_t *pool)
{
    tap_expect(test_verify_init(pool, 5, 2) == NGX_OK);
    tap_expect(test_verify_answer(7, 3) == NGX_OK);
    ngx_etcd_verify_anew(&test_verify.verify);
    test_verify_event(8, -1);
    tap_check(test_verify.time == 0 && test_verify.differs == 0);
}


ngx_etcd_tap_test_t  test_proof[] = {
    { "proof: watches in force", test_proof_proofs },
    { "proof: requests for progress", test_proof_requested },
    { "proof: answers to reads", test_quorum_answers },
    { "proof: no answer to a read", test_quorum_silence },
    { "proof: nothing to read", test_quorum_nothing },
    { "proof: a watch that catches up", test_verify_awaited },
    { "proof: keys counted anew", test_verify_anew },
    { NULL, NULL }
};
