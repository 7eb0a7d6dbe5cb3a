
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Allocations that fail.  The linker option --wrap leads the client's calls of
 * these functions here; calls inside of nginx and of libraries are not
 * affected.
 */


#include "sim.h"


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
void *__real_ngx_array_push(ngx_array_t *a);
void *__wrap_ngx_array_push(ngx_array_t *a);
u_char *__real_ngx_pstrdup(ngx_pool_t *pool, ngx_str_t *src);
u_char *__wrap_ngx_pstrdup(ngx_pool_t *pool, ngx_str_t *src);


ngx_uint_t
sim_memory_fails(void)
{
    if (sim.proc == NULL
        || sim.scarce == 0
        || sim.calm
        || sim.proc->starting
        || !sim_chance(sim.scarce))
    {
        return 0;
    }

    sim_trace("an allocation fails");

    return 1;
}


void *
__wrap_ngx_alloc(size_t size, ngx_log_t *log)
{
    return sim_memory_fails() ? NULL : __real_ngx_alloc(size, log);
}


void *
__wrap_ngx_calloc(size_t size, ngx_log_t *log)
{
    return sim_memory_fails() ? NULL : __real_ngx_calloc(size, log);
}


ngx_pool_t *
__wrap_ngx_create_pool(size_t size, ngx_log_t *log)
{
    return sim_memory_fails() ? NULL : __real_ngx_create_pool(size, log);
}


void *
__wrap_ngx_palloc(ngx_pool_t *pool, size_t size)
{
    return sim_memory_fails() ? NULL : __real_ngx_palloc(pool, size);
}


/* the memory of the simulation itself never fails */

void *
__wrap_ngx_pcalloc(ngx_pool_t *pool, size_t size)
{
    return (pool != sim.pool && sim_memory_fails())
           ? NULL : __real_ngx_pcalloc(pool, size);
}


void *
__wrap_ngx_pnalloc(ngx_pool_t *pool, size_t size)
{
    return sim_memory_fails() ? NULL : __real_ngx_pnalloc(pool, size);
}


ngx_pool_cleanup_t *
__wrap_ngx_pool_cleanup_add(ngx_pool_t *pool, size_t size)
{
    return sim_memory_fails() ? NULL : __real_ngx_pool_cleanup_add(pool, size);
}


void *
__wrap_ngx_array_push(ngx_array_t *a)
{
    return sim_memory_fails() ? NULL : __real_ngx_array_push(a);
}


u_char *
__wrap_ngx_pstrdup(ngx_pool_t *pool, ngx_str_t *src)
{
    return sim_memory_fails() ? NULL : __real_ngx_pstrdup(pool, src);
}
