
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Unit tests in C that print TAP.  A test is a function in a table; a module
 * with a table runs all tests by the directive
 *
 *     etcd_tap;
 *
 * Each test runs once as it is, then once for each of its allocations, with
 * this allocation failing; test_alloc_failed() says whether it has.  Memory
 * that is left after a run is a failure.
 */


#ifndef _NGX_ETCD_TAP_H_INCLUDED_
#define _NGX_ETCD_TAP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_alloc.h"


typedef struct {
    char        *name;
    void       (*run)(ngx_pool_t *pool);      /* destroyed after each run */
} ngx_etcd_tap_test_t;


/* the tables of a module; a test without a name, or NULL, ends them */
extern ngx_etcd_tap_test_t  *ngx_etcd_tap_tables[];


/* A condition of every run; the test ends where it does not hold. */
#define tap_check(what)                                                       \
    if (!(what)) {                                                            \
        ngx_etcd_tap_fail(#what, __FILE__, __LINE__);                         \
        return;                                                               \
    }

/* A condition of every run in which no allocation has failed. */
#define tap_expect(what)                                                      \
    if (!(what)) {                                                            \
        if (!test_alloc_failed()) {                                           \
            ngx_etcd_tap_fail(#what, __FILE__, __LINE__);                     \
        }                                                                     \
                                                                              \
        return;                                                               \
    }

/* Two texts are equal in every run; a failure shows both. */
#define tap_text(text, wanted)                                                \
    if (!ngx_etcd_tap_same(text, wanted, __FILE__, __LINE__)) {               \
        return;                                                               \
    }


void ngx_etcd_tap_fail(char *what, char *file, int line);
ngx_uint_t ngx_etcd_tap_same(ngx_str_t *text, char *wanted, char *file,
    int line);

/*
 * Returns a copy of the bytes in memory of their own, so that a sanitizer sees
 * what reads beyond them.  The memory is freed with the pool.
 */
ngx_str_t *ngx_etcd_tap_bytes(ngx_pool_t *pool, char *bytes, size_t len);
ngx_str_t *ngx_etcd_tap_string(ngx_pool_t *pool, char *string);
#define tap_bytes   ngx_etcd_tap_bytes
#define tap_string  ngx_etcd_tap_string


#endif /* _NGX_ETCD_TAP_H_INCLUDED_ */
