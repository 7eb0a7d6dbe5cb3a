
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A redo log (write-ahead log) for words of a zone: several words change
 * atomically, even if the process is killed.
 *
 * The words and their values are collected, written to the log, and then
 * stored.  The process that locks the zone's mutex next repeats the stores
 * that a killed process has logged.
 */


#ifndef _NGX_ETCD_REDO_H_INCLUDED_
#define _NGX_ETCD_REDO_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_REDO_WORDS  16


typedef struct {
    void                  *addr;
    size_t                 size;         /* 4 or 8 */
    uint64_t               value;
} ngx_etcd_redo_word_t;


/* A redo log of words in shared memory.  All zero: nothing to store. */

typedef struct {
    ngx_uint_t             n;
    ngx_etcd_redo_word_t   words[NGX_ETCD_REDO_WORDS];
} ngx_etcd_redo_t;


/* adds a store of v to *addr, converted to the type of *addr */

#define ngx_etcd_redo_set(redo, addr, v)                                      \
    ngx_etcd_redo_add(redo, (void *) (addr),                                  \
                      (void *) &(__typeof__(*(addr))) { v },                  \
                      sizeof(*(addr)))

void ngx_etcd_redo_add(ngx_etcd_redo_t *redo, void *addr, void *value,
    size_t size);

/*
 * Add the stores that change the links of a queue.  A log may take one such
 * change of a queue: the links are read before the log is written.
 */
void ngx_etcd_redo_insert_tail(ngx_etcd_redo_t *redo, ngx_queue_t *h,
    ngx_queue_t *x);
void ngx_etcd_redo_remove(ngx_etcd_redo_t *redo, ngx_queue_t *x);

/*
 * Stores the collected words in order through the zone's log: after a kill
 * the next holder of the mutex completes the stores.  The caller holds the
 * mutex.
 */
void ngx_etcd_redo_write(ngx_etcd_redo_t *log, ngx_etcd_redo_t *redo);

/* Completes the stores of a killed process.  The caller holds the mutex. */
void ngx_etcd_redo_finish(ngx_etcd_redo_t *log);


#endif /* _NGX_ETCD_REDO_H_INCLUDED_ */
