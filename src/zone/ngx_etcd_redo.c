
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_redo.h>


void
ngx_etcd_redo_add(ngx_etcd_redo_t *redo, void *addr, void *value, size_t size)
{
    ngx_etcd_redo_word_t  *word;

    word = &redo->words[redo->n++];

    word->addr = addr;
    word->size = size;
    word->value = 0;
    ngx_memcpy(&word->value, value, size);
}


void
ngx_etcd_redo_insert_tail(ngx_etcd_redo_t *redo, ngx_queue_t *h,
    ngx_queue_t *x)
{
    ngx_etcd_redo_set(redo, &x->prev, h->prev);
    ngx_etcd_redo_set(redo, &x->next, h);
    ngx_etcd_redo_set(redo, &h->prev->next, x);
    ngx_etcd_redo_set(redo, &h->prev, x);
}


void
ngx_etcd_redo_remove(ngx_etcd_redo_t *redo, ngx_queue_t *x)
{
    ngx_etcd_redo_set(redo, &x->prev->next, x->next);
    ngx_etcd_redo_set(redo, &x->next->prev, x->prev);
}


void
ngx_etcd_redo_write(ngx_etcd_redo_t *log, ngx_etcd_redo_t *redo)
{
    ngx_memcpy(log->words, redo->words,
               redo->n * sizeof(ngx_etcd_redo_word_t));

    ngx_memory_barrier();

    log->n = redo->n;

    ngx_etcd_redo_finish(log);
}


void
ngx_etcd_redo_finish(ngx_etcd_redo_t *log)
{
    uint32_t               value;
    ngx_uint_t             i;
    ngx_etcd_redo_word_t  *word;

    if (log->n == 0) {
        return;
    }

    ngx_memory_barrier();

    for (i = 0; i < log->n; i++) {
        word = &log->words[i];

        if (word->size == sizeof(uint32_t)) {
            ngx_memcpy(&value, &word->value, sizeof(uint32_t));
            __atomic_store_n((uint32_t *) word->addr, value,
                             __ATOMIC_RELEASE);

        } else {
            __atomic_store_n((uint64_t *) word->addr, word->value,
                             __ATOMIC_RELEASE);
        }
    }

    ngx_memory_barrier();

    log->n = 0;
}
