
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_hash_table.h>
#include <openssl/rand.h>
#include "ngx_etcd_tap.h"


static ngx_uint_t  test_siphash_refused = 1;


/* The key of the published test vectors, in place of a random one. */

int
RAND_bytes(unsigned char *buf, int n)
{
    int  i;

    for (i = 0; i < n; i++) {
        buf[i] = (unsigned char) i;
    }

    return !test_siphash_refused;
}


/* A failure is none for good. */

static void
test_siphash_init(ngx_pool_t *pool)
{
    if (test_siphash_refused) {
        tap_check(ngx_etcd_siphash_init(pool->log) == NGX_ERROR);
        tap_check(ngx_etcd_siphash_init(pool->log) == NGX_ERROR);
    }

    test_siphash_refused = 0;

    tap_check(ngx_etcd_siphash_init(pool->log) == NGX_OK);
    tap_check(ngx_etcd_siphash_init(pool->log) == NGX_OK);
}


/*
 * SipHash-1-3 of 00, 00 01, 00 01 02, ... with the key 00 .. 0f: the first
 * four bytes of the published results.
 */

static void
test_siphash_vectors(ngx_pool_t *pool)
{
    char         text[64];
    ngx_uint_t   i;

    static struct {
        size_t     len;
        uint32_t   hash;
    } cases[] = {
        { 0, 0x050fc4dc }, { 1, 0x7d57ca93 }, { 2, 0x4dc7d44d },
        { 7, 0x9bb11140 }, { 8, 0x8d299a8e }, { 9, 0x6c063de4 },
        { 15, 0x2a519956 }, { 16, 0x7d908b66 }, { 63, 0xb7bbb3a8 }
    };

    for (i = 0; i < sizeof(text); i++) {
        text[i] = (char) i;
    }

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tap_check((uint32_t) ngx_etcd_siphash(tap_bytes(pool, text,
                                                        cases[i].len))
                  == cases[i].hash);
    }
}


ngx_etcd_tap_test_t  test_siphash[] = {
    { "SipHash: the key", test_siphash_init },
    { "SipHash: test vectors", test_siphash_vectors },
    { NULL, NULL }
};
