
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_secret.h>
#include "ngx_etcd_tap.h"


/* the block cleared last: the linker leads the call here, see Makefile */

void __real_ngx_explicit_memzero(void *p, size_t n);
void __wrap_ngx_explicit_memzero(void *p, size_t n);

static u_char  *test_secret_cleared;
static size_t   test_secret_length;


void
__wrap_ngx_explicit_memzero(void *p, size_t n)
{
    test_secret_cleared = p;
    test_secret_length = n;

    __real_ngx_explicit_memzero(p, n);
}


/* Returns 1 if these bytes were in the memory that was cleared last. */

static ngx_uint_t
test_secret_is_cleared(void *p, size_t n)
{
    return test_secret_cleared != NULL
           && (u_char *) p >= test_secret_cleared
           && (u_char *) p + n <= test_secret_cleared + test_secret_length;
}


static void
test_secret_alloc(ngx_pool_t *pool)
{
    u_char      *p;
    size_t       i, n;
    ngx_uint_t   j;

    static size_t sizes[] = { 0, 1, 2032, 2048, 4080, 4081, 100000 };

    ngx_etcd_secret_free(NULL);

    for (j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
        n = sizes[j];
        p = ngx_etcd_secret_alloc(n, pool->log);

        tap_expect(p != NULL);
        tap_check((uintptr_t) p % _Alignof(max_align_t) == 0);

        for (i = 0; i < n; i++) {
            tap_check(p[i] == 0);
        }

        ngx_memset(p, 0xa5, n);
        test_secret_cleared = NULL;
        ngx_etcd_secret_free(p);

        tap_check(test_secret_is_cleared(p, n));
    }
}


static void
test_secret_pool(ngx_pool_t *pool)
{
    u_char      *p;
    ngx_pool_t  *own;

    own = ngx_create_pool(1024, pool->log);
    tap_expect(own != NULL);

    p = ngx_etcd_secret_palloc(own, 5000);

    test_secret_cleared = NULL;
    ngx_destroy_pool(own);

    tap_expect(p != NULL);
    tap_check(test_secret_is_cleared(p, 5000));
}


/* Blocks for libraries: small ones, pages, and what is between them. */

static void
test_secret_malloc(ngx_pool_t *pool)
{
    u_char      *p;
    size_t       n;
    ngx_uint_t   i;

    static size_t sizes[] = { 0, 1, 2047, 2048, 2049, 2064, 70000 };

    ngx_etcd_secret_release(NULL, NULL);

    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        n = sizes[i];
        p = ngx_etcd_secret_malloc(n, NULL);

        tap_expect(p != NULL);
        tap_check((uintptr_t) p % _Alignof(max_align_t) == 0);

        ngx_memset(p, 0xa5, n);
        test_secret_cleared = NULL;
        ngx_etcd_secret_release(p, NULL);

        tap_check(test_secret_is_cleared(p, n));
    }
}


static void
test_secret_calloc(ngx_pool_t *pool)
{
    u_char  *p;
    size_t   i;

    p = ngx_etcd_secret_calloc(7, 11, NULL);
    tap_expect(p != NULL);

    for (i = 0; i < 77; i++) {
        tap_check(p[i] == 0);
    }

    ngx_etcd_secret_release(p, NULL);

    /* a product that does not fit */

    tap_check(ngx_etcd_secret_calloc(NGX_MAX_SIZE_T_VALUE / 2, 3, NULL)
              == NULL);
    tap_check(ngx_etcd_secret_calloc(3, NGX_MAX_SIZE_T_VALUE / 2, NULL)
              == NULL);

    p = ngx_etcd_secret_calloc(NGX_MAX_SIZE_T_VALUE, 0, NULL);
    tap_expect(p != NULL);

    ngx_etcd_secret_release(p, NULL);
}


/* A fitting block stays; the old one is cleared, or kept if there is none. */

static void
test_secret_realloc(ngx_pool_t *pool)
{
    u_char      *p, *new;
    size_t       i, from, to;
    ngx_uint_t   j, k;

    static size_t sizes[] = { 1, 100, 2047, 2048, 9000 };

    for (j = 0; j < 5; j++) {
        for (k = 0; k < 5; k++) {
            from = sizes[j];
            to = sizes[k];

            p = ngx_etcd_secret_realloc(NULL, from, NULL);
            tap_expect(p != NULL);

            ngx_memset(p, 0xa5, from);
            test_secret_cleared = NULL;
            new = ngx_etcd_secret_realloc(p, to, NULL);

            if (new == NULL) {
                tap_check(test_alloc_failed() && p[from - 1] == 0xa5);
                ngx_etcd_secret_release(p, NULL);
                return;
            }

            tap_check(test_secret_is_cleared(p, from));

            for (i = 0; i < ngx_min(from, to); i++) {
                tap_check(new[i] == 0xa5);
            }

            ngx_memset(new, 0x5a, to);
            ngx_etcd_secret_release(new, NULL);
        }
    }
}


ngx_etcd_tap_test_t  test_secret[] = {
    { "secret: pages", test_secret_alloc },
    { "secret: with a pool", test_secret_pool },
    { "secret: blocks", test_secret_malloc },
    { "secret: arrays", test_secret_calloc },
    { "secret: another size", test_secret_realloc },
    { NULL, NULL }
};
