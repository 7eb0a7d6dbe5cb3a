
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_secret.h>

#include <sys/mman.h>


#define NGX_ETCD_SECRET_LARGE  2048      /* bytes; larger blocks are pages */


/* Precedes each block and keeps the block aligned for any type. */

typedef union {
    size_t       size;                   /* including the head */
    max_align_t  align;
} ngx_etcd_secret_head_t;




ngx_uint_t  ngx_etcd_secret_received;


void *
ngx_etcd_secret_alloc(size_t size, ngx_log_t *log)
{
    ngx_etcd_secret_head_t  *head;

    size = ngx_align(sizeof(ngx_etcd_secret_head_t) + size, ngx_pagesize);

    head = mmap(NULL, size, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANON, -1, 0);

    if (head == MAP_FAILED) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "mmap(MAP_ANON, %uz) failed", size);
        return NULL;
    }

    /* fails on a kernel without core dumps */

    (void) madvise(head, size, MADV_DONTDUMP);

    head->size = size;

    return head + 1;
}


void
ngx_etcd_secret_free(void *p)
{
    size_t                   size;
    ngx_etcd_secret_head_t  *head;

    if (p == NULL) {
        return;
    }

    head = (ngx_etcd_secret_head_t *) p - 1;
    size = head->size;

    ngx_explicit_memzero(head, size);

    if (munmap(head, size) == -1) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, ngx_errno,
                      "munmap(%p, %uz) failed", head, size);
    }
}


void
ngx_etcd_secret_drop(ngx_str_t *text)
{
    ngx_etcd_secret_free(text->data);

    ngx_str_null(text);
}


void *
ngx_etcd_secret_palloc(ngx_pool_t *pool, size_t size)
{
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    cln->data = ngx_etcd_secret_alloc(size, pool->log);
    cln->handler = ngx_etcd_secret_free;

    return cln->data;
}


void *
ngx_etcd_secret_malloc(size_t size, void *data)
{
    ngx_etcd_secret_head_t  *head;

    if (size >= NGX_ETCD_SECRET_LARGE) {
        return ngx_etcd_secret_alloc(size, ngx_cycle->log);
    }

    size += sizeof(ngx_etcd_secret_head_t);

    head = ngx_alloc(size, ngx_cycle->log);
    if (head == NULL) {
        return NULL;
    }

    head->size = size;

    return head + 1;
}


void *
ngx_etcd_secret_calloc(size_t n, size_t size, void *data)
{
    void  *p;

    if (size != 0 && n > NGX_MAX_SIZE_T_VALUE / size) {
        return NULL;
    }

    p = ngx_etcd_secret_malloc(n * size, data);

    if (p != NULL) {
        ngx_memzero(p, n * size);
    }

    return p;
}


void *
ngx_etcd_secret_realloc(void *p, size_t size, void *data)
{
    void                    *new;
    size_t                   old;
    ngx_etcd_secret_head_t  *head;

    new = ngx_etcd_secret_malloc(size, data);

    if (p == NULL || new == NULL) {
        return new;
    }

    head = (ngx_etcd_secret_head_t *) p - 1;
    old = head->size - sizeof(ngx_etcd_secret_head_t);

    ngx_memcpy(new, p, ngx_min(old, size));
    ngx_etcd_secret_release(p, data);

    return new;
}


void
ngx_etcd_secret_release(void *p, void *data)
{
    ngx_etcd_secret_head_t  *head;

    if (p == NULL) {
        return;
    }

    head = (ngx_etcd_secret_head_t *) p - 1;

    if (head->size >= NGX_ETCD_SECRET_LARGE + sizeof(ngx_etcd_secret_head_t)) {
        ngx_etcd_secret_free(p);
        return;
    }

    ngx_explicit_memzero(head, head->size);
    ngx_free(head);
}
