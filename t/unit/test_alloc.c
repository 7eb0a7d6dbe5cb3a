
/*
 * Copyright (C) nginx-etcd contributors
 */


#include "test_alloc.h"
#include <sys/mman.h>


#define TEST_ALLOC_LIVE  65536            /* a power of 2 */


static ngx_uint_t  test_alloc_n;          /* the one that fails; 0: none */
static ngx_uint_t  test_alloc_made;
static ngx_uint_t  test_alloc_paused;

/* a hash table of blocks, with linear probing */

static void       *test_alloc_live[TEST_ALLOC_LIVE];
static ngx_uint_t  test_alloc_nlive;
static u_char      test_alloc_gone;       /* marks a removed one */


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

void __real_free(void *p);
void __wrap_free(void *p);
int __real_munmap(void *p, size_t size);
int __wrap_munmap(void *p, size_t size);
void __real_ngx_destroy_pool(ngx_pool_t *pool);
void __wrap_ngx_destroy_pool(ngx_pool_t *pool);

static ngx_uint_t test_alloc_fails(void);
static void *test_alloc_add(void *p);
static void test_alloc_remove(void *p);


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


void
test_alloc_cleanup(ngx_pool_t *pool, ngx_pool_cleanup_pt handler)
{
    ngx_pool_cleanup_t  *cln;

    test_alloc_pause();
    cln = ngx_pool_cleanup_add(pool, 0);
    test_alloc_resume();

    if (cln == NULL) {
        abort();
    }

    cln->handler = handler;
}


void
test_alloc_forget(void)
{
    ngx_memzero(test_alloc_live, sizeof(test_alloc_live));
    test_alloc_nlive = 0;
}


ngx_uint_t
test_alloc_left(void)
{
    return test_alloc_nlive;
}


static ngx_uint_t
test_alloc_fails(void)
{
    return test_alloc_paused == 0 && ++test_alloc_made == test_alloc_n;
}


static void **
test_alloc_slot(void *p, void *wanted)
{
    ngx_uint_t  i, n;

    i = (uintptr_t) p / 16;

    for (n = 0; n < TEST_ALLOC_LIVE; n++, i++) {
        i %= TEST_ALLOC_LIVE;

        if (test_alloc_live[i] == wanted) {
            return &test_alloc_live[i];
        }

        if (test_alloc_live[i] == NULL) {
            return NULL;
        }
    }

    return NULL;
}


static void *
test_alloc_add(void *p)
{
    void  **slot;

    if (p == NULL) {
        return NULL;
    }

    slot = test_alloc_slot(p, &test_alloc_gone);

    if (slot == NULL) {
        slot = test_alloc_slot(p, NULL);
    }

    if (slot == NULL) {
        abort();
    }

    *slot = p;
    test_alloc_nlive++;

    return p;
}


/* Memory that was not allocated here is ignored: libraries return it. */

static void
test_alloc_remove(void *p)
{
    void  **slot;

    slot = (p != NULL) ? test_alloc_slot(p, p) : NULL;

    if (slot != NULL) {
        *slot = &test_alloc_gone;
        test_alloc_nlive--;
    }
}


void *
__wrap_ngx_alloc(size_t size, ngx_log_t *log)
{
    if (test_alloc_fails()) {
        return NULL;
    }

    return test_alloc_add(__real_ngx_alloc(size, log));
}


void *
__wrap_ngx_calloc(size_t size, ngx_log_t *log)
{
    if (test_alloc_fails()) {
        return NULL;
    }

    return test_alloc_add(__real_ngx_calloc(size, log));
}


ngx_pool_t *
__wrap_ngx_create_pool(size_t size, ngx_log_t *log)
{
    if (test_alloc_fails()) {
        return NULL;
    }

    return test_alloc_add(__real_ngx_create_pool(size, log));
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
    void  *new;

    if (test_alloc_fails()) {
        return NULL;
    }

    new = __real_realloc(p, size);

    if (new != NULL) {
        test_alloc_remove(p);
        test_alloc_add(new);
    }

    return new;
}


void
__wrap_free(void *p)
{
    test_alloc_remove(p);
    __real_free(p);
}


void
__wrap_ngx_destroy_pool(ngx_pool_t *pool)
{
    test_alloc_remove(pool);
    __real_ngx_destroy_pool(pool);
}


void *
__wrap_mmap64(void *addr, size_t size, int prot, int flags, int fd,
    off_t offset)
{
    void  *p;

    if (test_alloc_fails()) {
        return MAP_FAILED;
    }

    p = __real_mmap64(addr, size, prot, flags, fd, offset);

    return (p == MAP_FAILED) ? p : test_alloc_add(p);
}


int
__wrap_munmap(void *p, size_t size)
{
    test_alloc_remove(p);

    return __real_munmap(p, size);
}
