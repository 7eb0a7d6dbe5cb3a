
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_maintenance.h>
#include <ngx_etcd_session.h>
#include "test_etcd.h"


/* Questions about etcd's database and about a lease. */

static struct {
    ngx_etcd_db_status_t   db;
    ngx_etcd_lease_ttl_t   lease;
    size_t                 keys;
    int64_t                revision;
    uint64_t               until;
} test_status_state;


static void
test_status_db_done(ngx_etcd_db_status_t *db, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    test_etcd_done(status, text);
}


static void
test_status_keys(ngx_etcd_lease_ttl_t *lease, ProtobufCBinaryData *keys,
    size_t n, int64_t revision)
{
    test_status_state.keys += n;
    test_status_state.revision = revision;
}


static void
test_status_lease_done(ngx_etcd_lease_ttl_t *lease, uint64_t until)
{
    test_etcd.done++;
    test_status_state.until = until;
}


static void
test_status_cleanup(void *data)
{
    ngx_etcd_unary_cancel(&test_status_state.db.unary);

    if (test_status_state.lease.unary.cluster != NULL) {
        ngx_etcd_lease_ttl_cancel(&test_status_state.lease);
    }
}


static ngx_int_t
test_status_init(ngx_pool_t *pool)
{
    test_etcd_conf(pool, 1);

    if (test_etcd_create(pool) != NGX_OK) {
        return NGX_ERROR;
    }

    test_alloc_cleanup(pool, test_status_cleanup);

    ngx_memzero(&test_status_state, sizeof(test_status_state));

    test_status_state.db.cluster = test_etcd.cluster;
    test_status_state.db.done = test_status_db_done;
    test_status_state.lease.cluster = test_etcd.cluster;
    test_status_state.lease.lease = 0x7fffffffffffffff;
    test_status_state.lease.done = test_status_lease_done;

    return NGX_OK;
}


static void
test_status_db(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    Etcd__StatusResponse     response;
    ProtobufCBinaryData      errors[2];
    ngx_etcd_grpc_stream_t  *call;

    static struct {
        int64_t      size;
        int64_t      quota;
        char        *error;
        uint64_t     wanted_size;
        uint64_t     wanted_quota;
        ngx_uint_t   nospace;
    } cases[] = {
        { 100, 2000, "", 100, 2000, 0 },
        { 0, 0, "memberID:1 alarm:CORRUPT ", 0, 0, 0 },
        { 100, 0, "memberID:1 alarm:NOSPACE ", 100, 0, 1 },
        { -1, -5, "alarm:nospace", 0, 0, 1 },
        { 1, 1, "alarm:NOSPAC", 1, 1, 0 }
    };

    tap_expect(test_status_init(pool) == NGX_OK);

    ngx_etcd_unary_cancel(&test_status_state.db.unary);

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ngx_etcd_db_status_start(&test_status_state.db);
        test_loop_pass(100);
        call = test_etcd_call("/etcdserverpb.Maintenance/Status", 0);
        tap_expect(call != NULL);

        etcd__status_response__init(&response);

        errors[0].data = (u_char *) "x";
        errors[0].len = 1;
        errors[1].data = (u_char *) cases[i].error;
        errors[1].len = ngx_strlen(cases[i].error);

        response.dbsize = cases[i].size;
        response.dbsizequota = cases[i].quota;
        response.errors = errors;
        response.n_errors = 2;
        test_etcd_answer(call, &response.base);

        tap_check(test_etcd.done == i + 1);
        tap_check(test_status_state.db.size == cases[i].wanted_size);
        tap_check(test_status_state.db.quota == cases[i].wanted_quota);
        tap_check(test_status_state.db.nospace == cases[i].nospace);
    }

    ngx_etcd_db_status_start(&test_status_state.db);
    test_loop_pass(100);
    call = test_etcd_call("/etcdserverpb.Maintenance/Status", 0);
    tap_expect(call != NULL);

    test_etcd_fail(call, NGX_ETCD_GRPC_PERMISSION_DENIED, "no");
    tap_check(test_etcd.status == NGX_ETCD_GRPC_PERMISSION_DENIED);
}


/* The TTL counts from the request on; a TTL beyond etcd's limit is cut. */

static void
test_status_lease(ngx_pool_t *pool)
{
    uint64_t                        asked;
    ngx_uint_t                      i;
    Etcd__ResponseHeader            header;
    ProtobufCBinaryData             keys[2];
    ngx_etcd_grpc_stream_t         *call;
    Etcd__LeaseTimeToLiveRequest   *request;
    Etcd__LeaseTimeToLiveResponse   response;

    static struct {
        int64_t    ttl;
        uint64_t   lasts;
    } cases[] = {
        { 10, 10000 }, { 1, 1000 }, { 0, 0 }, { -1, 0 },
        { 9000000000, 9000000000000 },
        { 0x7fffffffffffffff, 9000000000000 },
        { -0x7fffffffffffffff, 0 }
    };

    tap_expect(test_status_init(pool) == NGX_OK);

    etcd__response_header__init(&header);
    header.revision = 44;

    keys[0].data = (u_char *) "a";
    keys[0].len = 1;
    keys[1] = keys[0];

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        test_status_state.lease.keys = (i % 2) ? test_status_keys : NULL;
        test_status_state.keys = 0;

        ngx_etcd_lease_ttl_ask(&test_status_state.lease);
        test_loop_pass(100);
        call = test_etcd_call("/etcdserverpb.Lease/LeaseTimeToLive", 0);
        tap_expect(call != NULL);

        request = (Etcd__LeaseTimeToLiveRequest *)
                  test_etcd_request(pool, call,
                           &etcd__lease_time_to_live_request__descriptor);
        tap_check(request->id == 0x7fffffffffffffff);
        tap_check(request->keys == (int) (i % 2));

        asked = test_status_state.lease.unary.last;
        test_loop_pass(50);

        etcd__lease_time_to_live_response__init(&response);

        response.header = (i != 5) ? &header : NULL;
        response.ttl = cases[i].ttl;
        response.keys = keys;
        response.n_keys = 2;
        test_etcd_answer(call, &response.base);

        tap_check(test_etcd.done == i + 1);
        tap_check(test_status_state.until
                  == (cases[i].lasts ? asked + cases[i].lasts : 0));

        /* keys without a revision are of no use */

        tap_check(test_status_state.keys == ((i % 2) && i != 5 ? 2 : 0));
    }

    ngx_etcd_lease_ttl_ask(&test_status_state.lease);
    test_loop_pass(100);
    call = test_etcd_call("/etcdserverpb.Lease/LeaseTimeToLive", 0);
    tap_expect(call != NULL);

    test_status_state.until = 1;
    test_etcd_fail(call, NGX_ETCD_GRPC_NOT_FOUND, "no such lease");
    tap_check(test_status_state.until == 0);
}


ngx_etcd_tap_test_t  test_status[] = {
    { "database status", test_status_db },
    { "lease: time to live", test_status_lease },
    { NULL, NULL }
};
