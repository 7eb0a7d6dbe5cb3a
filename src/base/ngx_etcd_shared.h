
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Data that processes share without a lock: words that any process writes, and
 * seqlocks; and whether the process that has left something is still there.
 */


#ifndef _NGX_ETCD_SHARED_H_INCLUDED_
#define _NGX_ETCD_SHARED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Whether the process that left something in shared memory, or a file, is
 * still there.  A pid may be in use again: what must not be taken for another
 * process's carries an epoch or a process slot as well.
 *
 * Returns 1 if there is no such process; 0 also if it may not be signalled.
 */

static ngx_inline ngx_uint_t
ngx_etcd_process_gone(ngx_pid_t pid)
{
    return kill(pid, 0) == -1 && ngx_errno == NGX_ESRCH;
}


/*
 * The cluster of etcd that all clients of one nginx use: words in shared
 * memory, which any process reads and writes without a lock.
 */

#define NGX_ETCD_SHARED_ID_ROWS  32     /* endpoints of another cluster */


/* an endpoint of another cluster, which was logged */

typedef struct {
    volatile uint64_t        url;       /* a hash of it; 0: unused */
    volatile uint64_t        id;        /* of its cluster; 0: of ours */
} ngx_etcd_shared_id_row_t;


typedef struct {
    volatile uint64_t        id;        /* of the cluster; 0: not known yet */
    volatile uint64_t        answered;  /* ngx_etcd_clock() of the last answer
                                           of an endpoint of that cluster */
    volatile uint64_t        epoch;     /* of the configuration whose clients
                                           use and change these words */
    ngx_etcd_shared_id_row_t  rows[NGX_ETCD_SHARED_ID_ROWS];
} ngx_etcd_shared_id_t;


/*
 * Returns 1 if this id is new for the endpoint with that URL.  An id of 0: the
 * endpoint belongs to our cluster; returns 1 if it did not before.
 */
ngx_uint_t ngx_etcd_shared_id_mark(ngx_etcd_shared_id_t *shared,
    ngx_str_t *url, uint64_t id);


/*
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


#endif /* _NGX_ETCD_SHARED_H_INCLUDED_ */
