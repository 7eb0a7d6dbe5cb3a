
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Allocations that fail.  The linker option --wrap leads the calls of the
 * functions in test_alloc.c from all objects of a test's module there, see
 * Makefile; calls inside of nginx and of libraries are not affected.
 */


#ifndef _TEST_ALLOC_H_INCLUDED_
#define _TEST_ALLOC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* The n-th allocation from now on fails; 0: none does. */
void test_alloc_fail(ngx_uint_t n);

/* Returns 1 if that allocation has failed. */
ngx_uint_t test_alloc_failed(void);

/* Allocations in between are not counted and do not fail; may be nested. */
void test_alloc_pause(void);
void test_alloc_resume(void);

/* Calls the handler with the pool's end; this never fails. */
void test_alloc_cleanup(ngx_pool_t *pool, ngx_pool_cleanup_pt handler);

/*
 * The number of blocks, pools and mappings that are allocated since
 * test_alloc_forget() and not freed.
 */
void test_alloc_forget(void);
ngx_uint_t test_alloc_left(void);


#endif /* _TEST_ALLOC_H_INCLUDED_ */
