
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_client.h>
#include "test_etcd.h"


#define TEST_AUTO_SYNC_URLS  20


static ngx_etcd_grpc_stream_t *
test_auto_sync_asked(ngx_msec_t time)
{
    ngx_msec_t               passed;
    ngx_etcd_grpc_stream_t  *call;

    call = NULL;

    for (passed = 0; passed < time && call == NULL; passed += 100) {
        test_loop_pass(100);
        call = test_etcd_call("/etcdserverpb.Cluster/MemberList", 0);
    }

    return call;
}


/* Answers with one member that advertises these URLs. */

static void
test_auto_sync_answer(ngx_etcd_grpc_stream_t *call, char *name,
    ngx_uint_t learner, char **urls, uint64_t id)
{
    ngx_uint_t                 n;
    Etcd__Member               member, *members[1];
    ProtobufCBinaryData        url[TEST_AUTO_SYNC_URLS];
    Etcd__ResponseHeader       header;
    Etcd__MemberListResponse   response;

    etcd__member__init(&member);
    etcd__response_header__init(&header);
    etcd__member_list_response__init(&response);

    for (n = 0; urls[n] != NULL; n++) {
        url[n].data = (u_char *) urls[n];
        url[n].len = ngx_strlen(urls[n]);
    }

    member.name.data = (u_char *) name;
    member.name.len = ngx_strlen(name);
    member.clienturls = url;
    member.n_clienturls = n;
    member.islearner = learner;
    members[0] = &member;
    header.cluster_id = id;

    response.header = &header;
    response.members = members;
    response.n_members = 1;

    test_etcd_answer(call, &response.base);
}


static void
test_auto_sync_urls(ngx_pool_t *pool)
{
    ngx_etcd_endpoints_t    *endpoints;
    ngx_etcd_grpc_stream_t  *call;

    static char *more[] = { "http://10.0.0.1:2379", "http://10.0.0.3:2379",
                            "http://10.0.0.4:2379/", NULL };
    static char *less[] = { "http://10.0.0.4:2379", NULL };
    static char *unfit[] = { "", "http://etcd.example.com:2379",
                             "https://10.0.0.9:2379", "http://127.0.0.1:2379",
                             "http://localhost:2379", "unix:///run/x",
                             "http://\n[alert]", "http://10.0.0.8:2379", NULL };

    test_etcd_conf(pool, 2);
    test_etcd.conf.auto_sync = 10000;
    tap_expect(test_etcd_create(pool) == NGX_OK);

    endpoints = &test_etcd.cluster->endpoints;

    call = test_auto_sync_asked(NGX_ETCD_AUTO_SYNC_FIRST);
    tap_expect(call != NULL);

    test_auto_sync_answer(call, "m1", 0, more, 7);
    tap_expect(ngx_etcd_endpoints_count(endpoints) == 4);

    /* a learner, one that has not started, and another cluster */

    call = test_auto_sync_asked(13000);
    tap_expect(call != NULL);
    test_auto_sync_answer(call, "m1", 1, more, 7);
    tap_expect(ngx_etcd_endpoints_count(endpoints) == 2);

    call = test_auto_sync_asked(13000);
    tap_expect(call != NULL);
    test_auto_sync_answer(call, "", 0, more, 7);
    tap_expect(ngx_etcd_endpoints_count(endpoints) == 2);

    call = test_auto_sync_asked(13000);
    tap_expect(call != NULL);
    test_auto_sync_answer(call, "m1", 0, more, 7);
    tap_expect(ngx_etcd_endpoints_count(endpoints) == 4);

    test_etcd.cluster->cluster_id = 7;
    call = test_auto_sync_asked(13000);
    tap_expect(call != NULL);
    test_auto_sync_answer(call, "m1", 0, less, 8);
    tap_expect(ngx_etcd_endpoints_count(endpoints) == 4);

    call = test_auto_sync_asked(13000);
    tap_expect(call != NULL);
    test_auto_sync_answer(call, "m1", 0, less, 7);
    tap_expect(ngx_etcd_endpoints_count(endpoints) == 3);

    /* URLs that cannot be used */

    call = test_auto_sync_asked(13000);
    tap_expect(call != NULL);
    test_auto_sync_answer(call, "m1", 0, unfit, 7);
    tap_expect(ngx_etcd_endpoints_count(endpoints) == 3);
    tap_expect(test_etcd.cluster->auto_sync->learn.nreported == 7);

    /* nothing is lost by a failure, and URLs are reported once */

    call = test_auto_sync_asked(13000);
    tap_expect(call != NULL);
    test_etcd_fail(call, NGX_ETCD_GRPC_PERMISSION_DENIED, "no");
    tap_expect(ngx_etcd_endpoints_count(endpoints) == 3);

    call = test_auto_sync_asked(13000);
    tap_expect(call != NULL);
    test_auto_sync_answer(call, "m1", 0, unfit, 7);
    tap_expect(test_etcd.cluster->auto_sync->learn.nreported == 7);
}


ngx_etcd_tap_test_t  test_auto_sync[] = {
    { "auto sync: advertised URLs", test_auto_sync_urls },
    { NULL, NULL }
};
