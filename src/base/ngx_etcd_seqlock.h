
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A seqlock (Lameter, "Effective synchronization on Linux/NUMA systems",
 * 2005): data that one process writes and all processes read, without a lock
 * that a dead or stopped process could hold.  The number is odd while the data
 * are written; a reader copies them, and copies again if the number has
 * changed meanwhile.
 *
 * The copy of a reader may be torn until ngx_etcd_seqlock_valid() says that it
 * is not: a length in it may be any number and must be clamped before it is
 * used, a pointer in it must not be followed.
 *
 * A writer that is killed leaves the number odd, and readers without data,
 * until the next write.
 *
 *     write:                               read:
 *
 *     ngx_etcd_seqlock_write(&lock);       ngx_etcd_seqlock_read(&r, &lock, 0);
 *     data = ...;
 *     ngx_etcd_seqlock_written(&lock);     while (ngx_etcd_seqlock_try(&r)) {
 *                                              copy = data;
 *
 *                                              if (ngx_etcd_seqlock_valid(&r))
 *                                              {
 *                                                  return NGX_OK;
 *                                              }
 *                                          }
 *
 * Writers exclude each other by other means.
 */


#ifndef _NGX_ETCD_SEQLOCK_H_INCLUDED_
#define _NGX_ETCD_SEQLOCK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* tries to read: a write takes less than 1 us unless the writer is preempted */

#define NGX_ETCD_SEQLOCK_TRIES    256
#define NGX_ETCD_SEQLOCK_YIELDS   16


/* All zero: nothing was written, and the data are valid. */

typedef volatile uint64_t  ngx_etcd_seqlock_t;


typedef struct {
    ngx_etcd_seqlock_t  *lock;
    uint64_t             seen;
    ngx_uint_t           tries;          /* left */
    ngx_uint_t           yield;
} ngx_etcd_seqlock_reader_t;


/* The number may be odd already: a writer was killed. */

static ngx_inline void
ngx_etcd_seqlock_write(ngx_etcd_seqlock_t *lock)
{
    __atomic_store_n(lock, *lock | 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}


static ngx_inline void
ngx_etcd_seqlock_written(ngx_etcd_seqlock_t *lock)
{
    __atomic_store_n(lock, *lock + 1, __ATOMIC_RELEASE);
}


/*
 * "patient": a preempted writer gets some time; not for the path of a request.
 */

static ngx_inline void
ngx_etcd_seqlock_read(ngx_etcd_seqlock_reader_t *reader,
    ngx_etcd_seqlock_t *lock, ngx_uint_t patient)
{
    reader->lock = lock;
    reader->tries = patient ? NGX_ETCD_SEQLOCK_YIELDS : NGX_ETCD_SEQLOCK_TRIES;
    reader->yield = patient;
}


/* Returns 1 if the data can be copied now; 0: give up. */

static ngx_inline ngx_uint_t
ngx_etcd_seqlock_try(ngx_etcd_seqlock_reader_t *reader)
{
    while (reader->tries-- != 0) {

        reader->seen = __atomic_load_n(reader->lock, __ATOMIC_ACQUIRE);

        if ((reader->seen & 1) == 0) {
            return 1;
        }

        if (reader->yield) {
            ngx_sched_yield();

        } else {
            ngx_cpu_pause();
        }
    }

    return 0;
}


/* Returns 1 if the data were not written while they were copied. */

static ngx_inline ngx_uint_t
ngx_etcd_seqlock_valid(ngx_etcd_seqlock_reader_t *reader)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);

    return __atomic_load_n(reader->lock, __ATOMIC_RELAXED) == reader->seen;
}


/* Copies data of one size: NGX_OK, or NGX_AGAIN: given up. */

static ngx_inline ngx_int_t
ngx_etcd_seqlock_copy(ngx_etcd_seqlock_reader_t *reader, void *copy,
    void *data, size_t size)
{
    while (ngx_etcd_seqlock_try(reader)) {
        ngx_memcpy(copy, data, size);

        if (ngx_etcd_seqlock_valid(reader)) {
            return NGX_OK;
        }
    }

    return NGX_AGAIN;
}


#endif /* _NGX_ETCD_SEQLOCK_H_INCLUDED_ */
