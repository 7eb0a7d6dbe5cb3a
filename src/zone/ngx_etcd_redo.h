
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A redo log (write-ahead log) for the words of a zone: several of them change
 * at once, even if the process is killed meanwhile.
 *
 * The words and their values are collected, then written to the log, then
 * stored.  The process that gets the zone's mutex next stores again what a
 * killed process has written to the log.
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


/* zeroed: nothing is to be done */

typedef struct {
    ngx_uint_t             n;
    ngx_etcd_redo_word_t   words[NGX_ETCD_REDO_WORDS];
} ngx_etcd_redo_t;


/* a word that is to have a value of its own type */

#define ngx_etcd_redo_set(redo, addr, v)                                      \
    ngx_etcd_redo_add(redo, (void *) (addr),                                  \
                      (void *) &(__typeof__(*(addr))) { v },                  \
                      sizeof(*(addr)))

void ngx_etcd_redo_add(ngx_etcd_redo_t *redo, void *addr, void *value,
    size_t size);

/*
 * The links of a queue.  A redo log takes one of each, for different queues:
 * the links are those from before it is written.
 */
void ngx_etcd_redo_insert_tail(ngx_etcd_redo_t *redo, ngx_queue_t *h,
    ngx_queue_t *x);
void ngx_etcd_redo_remove(ngx_etcd_redo_t *redo, ngx_queue_t *x);

/*
 * Under the zone's mutex: stores what was collected, in that order, by way of
 * the zone's log.
 */
void ngx_etcd_redo_write(ngx_etcd_redo_t *log, ngx_etcd_redo_t *redo);

/* whoever got the mutex: stores what a killed process did not */
void ngx_etcd_redo_finish(ngx_etcd_redo_t *log);


#endif /* _NGX_ETCD_REDO_H_INCLUDED_ */
