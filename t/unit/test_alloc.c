
/*
 * Copyright (C) nginx-etcd contributors
 */


#include "test_alloc.h"
#include <sys/mman.h>


static ngx_uint_t  test_alloc_n;          /* the one that fails; 0: none */
static ngx_uint_t  test_alloc_made;
static ngx_uint_t  test_alloc_paused;


void *__real_ngx_alloc(size_t size, ngx_log_t *log);
void *__wrap_ngx_alloc(size_t size, ngx_log_t *log);
void *__real_ngx_calloc(size_t size, ngx_log_t *log);
void *__wrap_ngx_calloc(size_t size, ngx_log_t *log);
ngx_pool_t *__real_ngx_create_pool(size_t size, ngx_log_t *log);
ngx_pool_t *__wrap_ngx_create_pool(size_t size, ngx_log_t *log);
void *__real_ngx_palloc(ngx_pool_t *pool, size_t size);
void *__wrap_ngx_palloc(ngx_pool_t *pool, size_t size);
void *__real_ngx_pcalloc(ngx_pool_t *pool, size_t size);
void *__wrap_ngx_pcalloc(ngx_pool_t *pool, size_t size);
void *__real_ngx_pnalloc(ngx_pool_t *pool, size_t size);
void *__wrap_ngx_pnalloc(ngx_pool_t *pool, size_t size);
ngx_pool_cleanup_t *__real_ngx_pool_cleanup_add(ngx_pool_t *pool, size_t size);
ngx_pool_cleanup_t *__wrap_ngx_pool_cleanup_add(ngx_pool_t *pool, size_t size);
ngx_array_t *__real_ngx_array_create(ngx_pool_t *pool, ngx_uint_t n,
    size_t size);
ngx_array_t *__wrap_ngx_array_create(ngx_pool_t *pool, ngx_uint_t n,
    size_t size);
void *__real_ngx_array_push(ngx_array_t *a);
void *__wrap_ngx_array_push(ngx_array_t *a);
void *__real_ngx_array_push_n(ngx_array_t *a, ngx_uint_t n);
void *__wrap_ngx_array_push_n(ngx_array_t *a, ngx_uint_t n);
u_char *__real_ngx_pstrdup(ngx_pool_t *pool, ngx_str_t *src);
u_char *__wrap_ngx_pstrdup(ngx_pool_t *pool, ngx_str_t *src);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__real_mmap64(void *addr, size_t size, int prot, int flags, int fd,
    off_t offset);
void *__wrap_mmap64(void *addr, size_t size, int prot, int flags, int fd,
    off_t offset);

static ngx_uint_t test_alloc_fails(void);


void
test_alloc_fail(ngx_uint_t n)
{
    test_alloc_n = n;
    test_alloc_made = 0;
}


ngx_uint_t
test_alloc_failed(void)
{
    return test_alloc_n != 0 && test_alloc_made >= test_alloc_n;
}


void
test_alloc_pause(void)
{
    test_alloc_paused++;
}


void
test_alloc_resume(void)
{
    test_alloc_paused--;
}


static ngx_uint_t
test_alloc_fails(void)
{
    return test_alloc_paused == 0 && ++test_alloc_made == test_alloc_n;
}


void *
__wrap_ngx_alloc(size_t size, ngx_log_t *log)
{
    return test_alloc_fails() ? NULL : __real_ngx_alloc(size, log);
}


void *
__wrap_ngx_calloc(size_t size, ngx_log_t *log)
{
    return test_alloc_fails() ? NULL : __real_ngx_calloc(size, log);
}


ngx_pool_t *
__wrap_ngx_create_pool(size_t size, ngx_log_t *log)
{
    return test_alloc_fails() ? NULL : __real_ngx_create_pool(size, log);
}


void *
__wrap_ngx_palloc(ngx_pool_t *pool, size_t size)
{
    return test_alloc_fails() ? NULL : __real_ngx_palloc(pool, size);
}


void *
__wrap_ngx_pcalloc(ngx_pool_t *pool, size_t size)
{
    return test_alloc_fails() ? NULL : __real_ngx_pcalloc(pool, size);
}


void *
__wrap_ngx_pnalloc(ngx_pool_t *pool, size_t size)
{
    return test_alloc_fails() ? NULL : __real_ngx_pnalloc(pool, size);
}


ngx_pool_cleanup_t *
__wrap_ngx_pool_cleanup_add(ngx_pool_t *pool, size_t size)
{
    return test_alloc_fails() ? NULL : __real_ngx_pool_cleanup_add(pool, size);
}


ngx_array_t *
__wrap_ngx_array_create(ngx_pool_t *pool, ngx_uint_t n, size_t size)
{
    return test_alloc_fails() ? NULL : __real_ngx_array_create(pool, n, size);
}


void *
__wrap_ngx_array_push(ngx_array_t *a)
{
    return test_alloc_fails() ? NULL : __real_ngx_array_push(a);
}


void *
__wrap_ngx_array_push_n(ngx_array_t *a, ngx_uint_t n)
{
    return test_alloc_fails() ? NULL : __real_ngx_array_push_n(a, n);
}


u_char *
__wrap_ngx_pstrdup(ngx_pool_t *pool, ngx_str_t *src)
{
    return test_alloc_fails() ? NULL : __real_ngx_pstrdup(pool, src);
}


void *
__wrap_realloc(void *p, size_t size)
{
    return test_alloc_fails() ? NULL : __real_realloc(p, size);
}


void *
__wrap_mmap64(void *addr, size_t size, int prot, int flags, int fd,
    off_t offset)
{
    return test_alloc_fails() ? MAP_FAILED
                              : __real_mmap64(addr, size, prot, flags, fd,
                                              offset);
}
