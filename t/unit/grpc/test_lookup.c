
/*
 * Copyright (C) nginx-etcd contributors
 *
 * nginx's resolver is that of the test: the functions below take the place of
 * its own.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lookup.h>
#include "ngx_etcd_tap.h"
#include "test_loop.h"


#define TEST_LOOKUP_ADDRS  10


typedef struct {
    ngx_etcd_lookup_t     lookup;
    ngx_resolver_ctx_t    ctx;           /* of the resolver */
    ngx_resolver_addr_t   addrs[TEST_LOOKUP_ADDRS];
    struct sockaddr_in    sin[TEST_LOOKUP_ADDRS];
    ngx_uint_t            asked;
    ngx_uint_t            open;          /* contexts */
    ngx_uint_t            done;
    ngx_uint_t            found;
    ngx_uint_t            state;         /* 1: no memory, 2: no resolver,
                                            3: it fails, 4: in its cache */
} test_lookup_t;


static test_lookup_t  test_look;


ngx_resolver_ctx_t *
ngx_resolve_start(ngx_resolver_t *r, ngx_resolver_ctx_t *temp)
{
    if (test_look.state == 1) {
        return NULL;
    }

    if (test_look.state == 2) {
        return NGX_NO_RESOLVER;
    }

    test_look.open++;
    ngx_memzero(&test_look.ctx, sizeof(ngx_resolver_ctx_t));

    return &test_look.ctx;
}


ngx_int_t
ngx_resolve_name(ngx_resolver_ctx_t *ctx)
{
    test_look.asked++;

    if (test_look.state == 3) {
        test_look.open--;
        return NGX_ERROR;
    }

    if (test_look.state == 4) {
        ctx->handler(ctx);
    }

    return NGX_OK;
}


void
ngx_resolve_name_done(ngx_resolver_ctx_t *ctx)
{
    test_look.open--;
}


static void
test_lookup_done(void *data)
{
    test_look.done++;
}


static void
test_lookup_found(void *data, ngx_resolver_addr_t *addrs, ngx_uint_t n)
{
    test_look.found += n;
}


static ngx_etcd_lookup_t *
test_lookup_init(ngx_pool_t *pool, ngx_uint_t state)
{
    ngx_uint_t  i;

    test_loop_init(pool->log);

    ngx_memzero(&test_look, sizeof(test_lookup_t));

    for (i = 0; i < TEST_LOOKUP_ADDRS; i++) {
        test_look.sin[i].sin_family = AF_INET;
        test_look.sin[i].sin_addr.s_addr = htonl(0x0a000001 + i);
        test_look.addrs[i].sockaddr = (struct sockaddr *) &test_look.sin[i];
        test_look.addrs[i].socklen = sizeof(struct sockaddr_in);
    }

    test_look.state = state;
    test_look.ctx.addrs = test_look.addrs;
    test_look.lookup.name = *tap_string(pool, "etcd.example.com");
    test_look.lookup.timeout = 5000;
    test_look.lookup.found = test_lookup_found;
    test_look.lookup.done = test_lookup_done;

    return &test_look.lookup;
}


static void
test_lookup_answer(ngx_int_t state, ngx_uint_t n)
{
    test_look.ctx.state = state;
    test_look.ctx.addrs = test_look.addrs;
    test_look.ctx.naddrs = n;
    test_look.ctx.valid = 77;
    test_look.ctx.handler(&test_look.ctx);
}


static void
test_lookup_addresses(ngx_pool_t *pool)
{
    ngx_etcd_lookup_t  *lookup;

    lookup = test_lookup_init(pool, 0);
    ngx_etcd_lookup_start(lookup, pool->log);

    tap_text(&test_look.ctx.name, "etcd.example.com");
    tap_check(test_look.ctx.timeout == 5000 && test_look.ctx.cancelable);

    test_loop_run();
    tap_check(test_look.done == 0);

    test_lookup_answer(NGX_OK, 2);

    tap_check(test_look.open == 0);
    tap_check(test_look.done == 0);

    test_loop_run();

    tap_check(test_look.done == 1);
    tap_check(test_look.found == 2 && lookup->valid == 77);
    tap_check(lookup->reason.len == 0);
}


/* No result is reported before the start has returned. */

static void
test_lookup_failures(ngx_pool_t *pool)
{
    ngx_uint_t          state;
    ngx_etcd_lookup_t  *lookup;

    static char *reasons[] = {
        "\"etcd.example.com\" could not be resolved: no memory",
        "\"etcd.example.com\" could not be resolved: no name server is defined",
        "\"etcd.example.com\" could not be resolved: the resolver failed"
    };

    for (state = 1; state <= 3; state++) {
        lookup = test_lookup_init(pool, state);
        ngx_etcd_lookup_start(lookup, pool->log);

        tap_check(test_look.done == 0);

        test_loop_run();

        tap_check(test_look.done == 1 && test_look.open == 0);
        tap_check(test_look.found == 0);
        tap_text(&lookup->reason, reasons[state - 1]);
    }

    lookup = test_lookup_init(pool, 0);
    ngx_etcd_lookup_start(lookup, pool->log);
    test_lookup_answer(NGX_RESOLVE_NXDOMAIN, 0);
    test_loop_run();

    tap_text(&lookup->reason, "\"etcd.example.com\" could not be resolved: "
                              "Host not found");

    /* in the resolver's cache, with an error */

    lookup = test_lookup_init(pool, 4);
    ngx_etcd_lookup_start(lookup, pool->log);

    tap_check(test_look.done == 0 && test_look.open == 0);

    test_loop_run();

    tap_check(test_look.done == 1);
}


static void
test_lookup_cancel(ngx_pool_t *pool)
{
    ngx_etcd_lookup_t  *lookup;

    lookup = test_lookup_init(pool, 0);

    ngx_etcd_lookup_cancel(lookup);

    ngx_etcd_lookup_start(lookup, pool->log);
    ngx_etcd_lookup_cancel(lookup);

    tap_check(test_look.open == 0);

    /* the answer is posted */

    ngx_etcd_lookup_start(lookup, pool->log);
    test_lookup_answer(NGX_OK, 1);
    ngx_etcd_lookup_cancel(lookup);
    ngx_etcd_lookup_cancel(lookup);
    test_loop_run();

    tap_check(test_look.done == 0 && test_look.open == 0);
}


static void
test_lookup_all(ngx_pool_t *pool)
{
    ngx_etcd_lookup_t  *lookup;

    lookup = test_lookup_init(pool, 0);
    ngx_etcd_lookup_start(lookup, pool->log);
    test_lookup_answer(NGX_OK, TEST_LOOKUP_ADDRS);

    tap_check(test_look.found == TEST_LOOKUP_ADDRS && test_look.done == 0);

    test_loop_run();

    tap_check(test_look.done == 1);

    ngx_etcd_lookup_start(lookup, pool->log);
    test_lookup_answer(NGX_RESOLVE_TIMEDOUT, 0);
    test_loop_run();

    tap_check(test_look.found == TEST_LOOKUP_ADDRS && test_look.done == 2);
    tap_check(lookup->reason.len != 0);
}


ngx_etcd_tap_test_t  test_lookup[] = {
    { "lookup: addresses", test_lookup_addresses },
    { "lookup: failures", test_lookup_failures },
    { "lookup: cancelled", test_lookup_cancel },
    { "lookup: all addresses", test_lookup_all },
    { NULL, NULL }
};
