
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_channel.h>
#include "test_etcd.h"


/* Endpoints that tell these ids, until one is 0; the bits are of others. */

typedef struct {
    uint64_t     ids[TEST_ETCD_ENDPOINTS];
    ngx_uint_t   refused;
    ngx_uint_t   silent;
    ngx_uint_t   first;                 /* index, which is asked first */
} test_vote_t;


/*
 * The streams are connected to an endpoint of the winner before that time, in
 * ms, and no other connection is left.
 */

static void
test_vote_ends(ngx_pool_t *pool, test_vote_t *vote, ngx_msec_t time,
    uint64_t winner)
{
    ngx_uint_t           n;
    ngx_etcd_http2_t    *h2;
    ngx_etcd_channel_t  *streams;

    n = 0;

    while (n < TEST_ETCD_ENDPOINTS && vote->ids[n] != 0) {
        n++;
    }

    test_etcd_conf(pool, n);
    tap_expect(test_etcd_create(pool) == NGX_OK);

    ngx_memcpy(test_etcd.ids, vote->ids, sizeof(vote->ids));
    test_etcd.refused = vote->refused;
    test_etcd.silent = vote->silent;

    streams = test_etcd.cluster->streams;
    streams->next = &test_etcd.cluster->endpoints.places[vote->first];

    (void) ngx_etcd_channel_get(streams);
    test_loop_pass(time);

    tap_expect(ngx_etcd_cluster_id_known(test_etcd.cluster) == winner);

    test_loop_pass(10000);

    h2 = ngx_etcd_channel_get(streams);
    tap_expect(h2 != NULL);
    tap_check(vote->ids[test_etcd_where(h2) - 1] == winner);
    tap_check(test_etcd_connection(1) == NULL || vote->silent);
}


static void
test_vote_alone(ngx_pool_t *pool)
{
    test_vote_t  vote = { { 7 }, 0, 0, 0 };

    test_vote_ends(pool, &vote, 0, 7);
}


/* More than half of the endpoints, whichever is asked first. */

static void
test_vote_majority(ngx_pool_t *pool)
{
    test_vote_t  vote = { { 8, 7, 7 }, 0, 0, 0 };

    test_vote_ends(pool, &vote, 0, 7);
}


static void
test_vote_most(ngx_pool_t *pool)
{
    test_vote_t  vote = { { 9, 8, 7, 7 }, 0, 0, 1 };

    test_vote_ends(pool, &vote, 0, 7);
}


/* If two have as many, the endpoint that is named first decides. */

static void
test_vote_tie(ngx_pool_t *pool)
{
    test_vote_t  vote = { { 8, 7 }, 0, 0, 1 };

    test_vote_ends(pool, &vote, 0, 8);
}


/* Endpoints that fail do not vote, and are not waited for. */

static void
test_vote_refused(ngx_pool_t *pool)
{
    test_vote_t  vote = { { 8, 7, 7, 7 }, 6, 0, 0 };

    test_vote_ends(pool, &vote, 0, 8);
}


/* Endpoints that do not answer are waited for until request_timeout. */

static void
test_vote_silent(ngx_pool_t *pool)
{
    test_vote_t  vote = { { 8, 7, 7 }, 0, 6, 0 };

    test_vote_ends(pool, &vote, 5000, 8);
}


/*
 * Another worker has chosen a cluster while this one's vote goes on: what waits
 * goes on with the next endpoint that answers, or fails.
 */

static void
test_vote_late(ngx_pool_t *pool, ngx_uint_t answers)
{
    ngx_etcd_http2_t    *h2;
    ngx_etcd_channel_t  *streams;

    test_etcd_conf(pool, 3);
    tap_expect(test_etcd_create(pool) == NGX_OK);

    test_etcd.ids[0] = test_etcd.ids[1] = test_etcd.ids[2] = 7;
    test_etcd.silent = 6;

    streams = test_etcd.cluster->streams;
    streams->next = &test_etcd.cluster->endpoints.places[0];

    (void) ngx_etcd_channel_get(streams);
    test_loop_pass(0);

    tap_expect(ngx_etcd_channel_get(streams) == NULL);

    test_etcd.cluster->id.id = 7;
    h2 = test_etcd_connection(1);
    tap_expect(h2 != NULL);

    if (answers) {
        test_etcd_connected(h2);

    } else {
        test_etcd_break(h2, "connection reset by peer");
    }

    test_loop_pass(0);

    h2 = ngx_etcd_channel_get(streams);
    tap_expect(h2 != NULL);
    tap_check(test_etcd_where(h2) == 1);
}


static void
test_vote_late_answer(ngx_pool_t *pool)
{
    test_vote_late(pool, 1);
}


static void
test_vote_late_failure(ngx_pool_t *pool)
{
    test_vote_late(pool, 0);
}


ngx_etcd_tap_test_t  test_vote[] = {
    { "vote: one endpoint", test_vote_alone },
    { "vote: a majority", test_vote_majority },
    { "vote: the most", test_vote_most },
    { "vote: as many of each", test_vote_tie },
    { "vote: some fail", test_vote_refused },
    { "vote: some do not answer", test_vote_silent },
    { "vote: later than that of another worker", test_vote_late_answer },
    { "vote: later, and an endpoint fails", test_vote_late_failure },
    { NULL, NULL }
};
