
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_watch_request.h>
#include "client/test_etcd.h"


static void
test_watch_request_done(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    /* the test ends the call */
}


/* A call on a connection of the test; NGX_ERROR: no memory. */

static ngx_int_t
test_watch_request_call(ngx_pool_t *pool, ngx_etcd_grpc_call_t *call)
{
    test_etcd_conf(pool, 1);

    if (test_etcd_create(pool) != NGX_OK
        || ngx_etcd_channel_get(test_etcd.cluster->streams) != NULL)
    {
        return NGX_ERROR;
    }

    test_loop_pass(1000);

    if (test_etcd_connection(0) == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = "/etcdserverpb.Watch/Watch";
    call->response = &etcd__watch_response__descriptor;
    call->done = test_watch_request_done;

    return ngx_etcd_grpc_start(test_etcd_connection(0), call);
}


static Etcd__WatchRequest *
test_watch_request_sent(ngx_pool_t *pool)
{
    return (Etcd__WatchRequest *)
           test_etcd_request(pool,
                             test_etcd_call("/etcdserverpb.Watch/Watch", 0),
                             &etcd__watch_request__descriptor);
}


static void
test_watch_request_sends(ngx_pool_t *pool)
{
    ngx_int_t                  rc;
    Etcd__WatchRequest        *request;
    ngx_etcd_grpc_call_t       call;
    Etcd__WatchCreateRequest  *create;

    tap_expect(test_watch_request_call(pool, &call) == NGX_OK);

    rc = ngx_etcd_watch_request_create(&call, tap_string(pool, "a"),
                                       tap_string(pool, "b"), 17);
    if (rc != NGX_OK) {
        ngx_etcd_grpc_cancel(&call);
    }

    tap_expect(rc == NGX_OK);

    request = test_watch_request_sent(pool);
    create = request->create_request;

    tap_check(request->request_union_case
              == ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST);
    tap_check(create->start_revision == 17);
    tap_check(create->progress_notify && create->fragment);
    tap_check(create->key.len == 1 && create->key.data[0] == 'a');
    tap_check(create->range_end.len == 1 && create->range_end.data[0] == 'b');

    rc = ngx_etcd_watch_request_cancel(&call, 3);

    if (rc == NGX_OK) {
        request = test_watch_request_sent(pool);

        tap_check(request->request_union_case
                  == ETCD__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST);
        tap_check(request->cancel_request->watch_id == 3);
    }

    rc = ngx_etcd_watch_request_progress(&call);

    if (rc == NGX_OK) {
        request = test_watch_request_sent(pool);

        tap_check(request->request_union_case
                  == ETCD__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST);
    }

    ngx_etcd_grpc_cancel(&call);

    tap_expect(rc == NGX_OK);
}


static void
test_watch_request_statuses(ngx_pool_t *pool)
{
    ngx_uint_t  i;

    static struct {
        char                    *text;
        ngx_etcd_grpc_status_e   status;
    } cases[] = {
        { "etcdserver: permission denied", NGX_ETCD_GRPC_PERMISSION_DENIED },
        { "rpc error: code = PermissionDenied desc = etcdserver: no",
          NGX_ETCD_GRPC_PERMISSION_DENIED },
        { "permission denied", NGX_ETCD_GRPC_PERMISSION_DENIED },
        { "etcdserver: invalid auth token", NGX_ETCD_GRPC_UNAUTHENTICATED },
        { "rpc error: code = Unauthenticated", NGX_ETCD_GRPC_UNAUTHENTICATED },
        { "etcdserver: user name is empty", NGX_ETCD_GRPC_UNAUTHENTICATED },
        { "etcdserver: revision of auth store is old",
          NGX_ETCD_GRPC_UNAUTHENTICATED },
        { "permission denie", NGX_ETCD_GRPC_UNKNOWN },
        { "etcdserver: mvcc: required revision has been compacted",
          NGX_ETCD_GRPC_UNKNOWN },
        { "", NGX_ETCD_GRPC_UNKNOWN }
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tap_check(ngx_etcd_watch_request_status(tap_string(pool,
                                                           cases[i].text))
                  == cases[i].status);
    }
}


ngx_etcd_tap_test_t  test_watch_request[] = {
    { "watch request: messages", test_watch_request_sends },
    { "watch request: refusals", test_watch_request_statuses },
    { NULL, NULL }
};
