
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_maintenance.h>
#include "test_etcd.h"


#define TEST_SERVER_VERSION_WAIT  20000     /* ms */


/* the arguments of the handler */

static struct {
    ngx_uint_t   told;
    ngx_uint_t   endpoint;
    uint64_t     version;
} test_server_version_state;


static void
test_server_version_parse(ngx_pool_t *pool)
{
    u_char       buf[NGX_ETCD_SERVER_VERSION_LEN];
    uint64_t     version;
    ngx_str_t   *text, shown;
    ngx_uint_t   i;

    static struct {
        char      *text;
        uint64_t   version;
        char      *shown;
    } cases[] = {
        { "3.5.30", ngx_etcd_server_version(3, 5, 30), "3.5.30" },
        { "0.0.0", ngx_etcd_server_version(0, 0, 0), "0.0.0" },
        { "3.6.0-rc.1", ngx_etcd_server_version(3, 6, 0) - 1, "3.6.0-pre" },
        { "3.4.23+git", ngx_etcd_server_version(3, 4, 23), "3.4.23" },
        { "65535.65535.65535", ngx_etcd_server_version(65535, 65535, 65535),
          "65535.65535.65535" },
        { "65535.65535.65535-x",
          ngx_etcd_server_version(65535, 65535, 65535) - 1,
          "65535.65535.65535-pre" },
        { "", 0, NULL }, { "3", 0, NULL }, { "3.", 0, NULL },
        { "3.5", 0, NULL }, { "3.5.", 0, NULL }, { ".5.1", 0, NULL },
        { "3..1", 0, NULL }, { "3.5.x", 0, NULL }, { "v3.5.1", 0, NULL },
        { "3-5-1", 0, NULL }, { "65536.0.0", 0, NULL },
        { "3.99999999999999999999.0", 0, NULL },
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        text = tap_string(pool, cases[i].text);
        version = ngx_etcd_server_version_parse(text->data, text->len);
        tap_check(version == cases[i].version);

        if (version != 0) {
            shown.data = buf;
            shown.len = ngx_etcd_server_version_text(buf, version) - buf;
            tap_text(&shown, cases[i].shown);
        }
    }
}


/* Versions before the one that mends reads, and before the one for leases. */

static void
test_server_version_faults(ngx_pool_t *pool)
{
    char        *fault;
    uint64_t     mended;
    ngx_uint_t   i;

#define LEASES  "linearizable reads may be stale, and leases may be renewed " \
                "that have been revoked"
#define READS   "linearizable reads may be stale"

    static struct {
        uint64_t   version;
        char      *fault;
        uint64_t   mended;
    } cases[] = {
        { ngx_etcd_server_version(3, 0, 0), LEASES,
          ngx_etcd_server_version(3, 4, 42) },
        { ngx_etcd_server_version(3, 4, 37), LEASES,
          ngx_etcd_server_version(3, 4, 42) },
        { ngx_etcd_server_version(3, 4, 38), READS,
          ngx_etcd_server_version(3, 4, 42) },
        { ngx_etcd_server_version(3, 4, 42), NULL, 0 },
        { ngx_etcd_server_version(3, 5, 0) - 1, LEASES,
          ngx_etcd_server_version(3, 5, 28) },
        { ngx_etcd_server_version(3, 5, 27), READS,
          ngx_etcd_server_version(3, 5, 28) },
        { ngx_etcd_server_version(3, 5, 28), NULL, 0 },
        { ngx_etcd_server_version(3, 6, 4), LEASES,
          ngx_etcd_server_version(3, 6, 9) },
        { ngx_etcd_server_version(3, 6, 5), READS,
          ngx_etcd_server_version(3, 6, 9) },
        { ngx_etcd_server_version(3, 6, 9), NULL, 0 },
        { ngx_etcd_server_version(3, 7, 0) - 1, NULL, 0 },
        { ngx_etcd_server_version(4, 0, 0), NULL, 0 },
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fault = ngx_etcd_server_version_fault(cases[i].version, 0, &mended);

        tap_check((fault == NULL) == (cases[i].fault == NULL));

        if (fault != NULL) {
            tap_text(tap_string(pool, fault), cases[i].fault);
            tap_check(mended == cases[i].mended);
        }
    }
}


static void
test_server_version_known(void *data, ngx_str_t *url, uint64_t version)
{
    test_server_version_state.told++;
    test_server_version_state.version = version;
    test_server_version_state.endpoint = url->data[url->len - 6] - '0';
}


static ngx_int_t
test_server_version_init(ngx_pool_t *pool)
{
    ngx_memzero(&test_server_version_state, sizeof(test_server_version_state));

    test_etcd_conf(pool, 2);

    if (test_etcd_create(pool) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_etcd_server_version_ask(test_etcd.cluster,
                                       test_server_version_known, NULL);
}


static void
test_server_version_answer(ngx_etcd_grpc_stream_t *call, char *version)
{
    Etcd__StatusResponse  response;

    etcd__status_response__init(&response);

    response.version.data = (u_char *) version;
    response.version.len = ngx_strlen(version);

    test_etcd_answer(call, &response.base);
}


/* The call that is made within a time; the streams' channel is in use. */

static ngx_etcd_grpc_stream_t *
test_server_version_call(ngx_msec_t time)
{
    ngx_msec_t               end;
    ngx_etcd_grpc_stream_t  *call;

    end = ngx_current_msec + time;

    for ( ;; ) {
        (void) ngx_etcd_channel_get(test_etcd.cluster->streams);
        test_loop_run();

        call = test_etcd_call("/etcdserverpb.Maintenance/Status", 0);

        if (call != NULL || ngx_current_msec >= end) {
            return call;
        }

        test_loop_pass(100);
    }
}


/* Each connection of the streams is asked once; nothing connects for it. */

static void
test_server_version_ask(ngx_pool_t *pool)
{
    ngx_uint_t               first;
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_server_version_init(pool) == NGX_OK);

    test_loop_pass(10000);
    tap_check(test_etcd.connects == 0);

    call = test_server_version_call(0);
    tap_expect(call != NULL);

    first = test_etcd_where(call->h2);

    test_server_version_answer(call, "3.5.30");
    tap_check(test_server_version_state.told == 1);
    tap_check(test_server_version_state.endpoint == first);
    tap_check(test_server_version_state.version
              == ngx_etcd_server_version(3, 5, 30));

    tap_check(test_server_version_call(TEST_SERVER_VERSION_WAIT) == NULL);

    /* another connection; a text that is no version is not told */

    test_etcd_break(test_etcd_connection(0), "gone");

    call = test_server_version_call(TEST_SERVER_VERSION_WAIT);
    tap_expect(call != NULL);

    test_server_version_answer(call, "unknown");
    tap_check(test_server_version_state.told == 1);
}


/* A refusal is no trouble; only a lack of a token is worth another call. */

static void
test_server_version_refused(ngx_pool_t *pool)
{
    ngx_etcd_grpc_stream_t  *call;

    tap_expect(test_server_version_init(pool) == NGX_OK);

    call = test_server_version_call(0);
    tap_expect(call != NULL);

    test_etcd_fail(call, NGX_ETCD_GRPC_UNAUTHENTICATED, "no token");
    tap_check(test_etcd.cluster->auth->unauthorized);
    tap_check(test_server_version_state.told == 0);

    call = test_server_version_call(NGX_ETCD_AUTH_BACKOFF_MAX);
    tap_expect(call != NULL);

    test_server_version_state.version = 1;
    test_etcd_fail(call, NGX_ETCD_GRPC_PERMISSION_DENIED, "root only");

    tap_check(test_server_version_call(TEST_SERVER_VERSION_WAIT) == NULL);
    tap_check(test_server_version_state.told == 1);
    tap_check(test_server_version_state.version == 0);
}


/* The client may go while etcd is asked. */

static void
test_server_version_leave(ngx_pool_t *pool)
{
    tap_expect(test_server_version_init(pool) == NGX_OK);

    tap_expect(test_server_version_call(0) != NULL);
}


ngx_etcd_tap_test_t  test_server_version[] = {
    { "server version: texts", test_server_version_parse },
    { "server version: faults", test_server_version_faults },
    { "server version: each connection", test_server_version_ask },
    { "server version: refused", test_server_version_refused },
    { "server version: a client that leaves", test_server_version_leave },
    { NULL, NULL }
};
