
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The holders and waiters of locks, for the status: one table of rows for
 * each worker that uses locks.  Only the owner writes a table, without a
 * lock; all processes read all tables.  The table of a dead process is not
 * shown and can be claimed by another one.
 *
 * A lock without a row is not shown but still counted: the counters of the
 * locks of one name are those of all workers of the instance, but for locks
 * held or awaited by a dead worker.
 */


#ifndef _NGX_ETCD_LOCK_TABLE_H_INCLUDED_
#define _NGX_ETCD_LOCK_TABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_object.h>


#define NGX_ETCD_LOCK_TABLE_ROWS   64      /* one bit each in "used" */
#define NGX_ETCD_LOCK_TABLE_KEY    128     /* longer keys are truncated */
#define NGX_ETCD_LOCK_TABLE_SHARE  8       /* 1/8 of the zone for all tables */


/* the counters of a lock */

typedef struct {
    ngx_etcd_object_t    object;
    ngx_etcd_gauge_t     held;
    ngx_etcd_gauge_t     waiting;
    ngx_atomic_t         acquired;
    ngx_atomic_t         timeouts;
    ngx_atomic_t         handoffs;
    ngx_atomic_t         refused[NGX_ETCD_REFUSALS_OF_LOCK];  /* and lost */
} ngx_etcd_lock_stats_t;


typedef enum {
    NGX_ETCD_LOCK_ROW_NONE = 0,
    NGX_ETCD_LOCK_ROW_HELD,
    NGX_ETCD_LOCK_ROW_WAITING
} ngx_etcd_lock_row_e;


typedef struct {
    ngx_etcd_lock_row_e     state;
    ngx_etcd_lock_stats_t  *lock;          /* by the lock's name */
    uint64_t                since;         /* ngx_current_msec; if WAITING: of
                                              the first waiter */
    uint64_t                value;         /* HELD: token; WAITING: number of
                                              waiters */
    uint32_t                shared;        /* requests that share it; 0: it is
                                              exclusive */
    uint32_t                key_len;
    u_char                  key[NGX_ETCD_LOCK_TABLE_KEY];
} ngx_etcd_lock_entry_t;


typedef struct {
    ngx_etcd_seqlock_t      lock;
    ngx_etcd_lock_entry_t   entry;
} ngx_etcd_lock_row_t;


/* the rows of a worker that show one lock, copied */

typedef struct {
    ngx_pid_t               pid;
    ngx_uint_t              n;
    ngx_etcd_lock_entry_t   entries[NGX_ETCD_LOCK_TABLE_ROWS];
} ngx_etcd_lock_rows_t;


struct ngx_etcd_lock_table_s {
    ngx_etcd_atomic64_t     owner;         /* pid << 32 | 1: claimed; pid <<
                                              32: being cleared; 0: free */
    uint64_t                used;          /* bitmap of rows, for the owner */
    ngx_etcd_lock_row_t     rows[NGX_ETCD_LOCK_TABLE_ROWS];
};


#define ngx_etcd_lock_stats_refuse(stats, refusal)                            \
    (void) ngx_atomic_fetch_add(                                              \
        &(stats)->refused[(refusal) - NGX_ETCD_REFUSAL_LOCK_HELD], 1)


extern const ngx_etcd_object_type_t  ngx_etcd_lock_stats_type;


/*
 * Called by the master: creates tables for the workers and for the workers
 * that they replace, within the share of the zone.
 */
void ngx_etcd_lock_table_declare(ngx_etcd_zone_t *zone, ngx_uint_t workers);

/* Called by a worker: claims a free table; NULL: there is none. */
ngx_etcd_lock_table_t *ngx_etcd_lock_table_claim(ngx_etcd_zone_t *zone);

/* Releases the table of the calling process; NULL is ignored. */
void ngx_etcd_lock_table_leave(ngx_etcd_lock_table_t *table);


/* Called by the owner: allocates an empty row; NULL: all rows are in use. */
ngx_etcd_lock_row_t *ngx_etcd_lock_table_add(ngx_etcd_lock_table_t *table,
    ngx_etcd_lock_stats_t *lock, ngx_str_t *key);
void ngx_etcd_lock_table_remove(ngx_etcd_lock_table_t *table,
    ngx_etcd_lock_row_t *row);

void ngx_etcd_lock_table_show(ngx_etcd_lock_row_t *row,
    ngx_etcd_lock_row_e state, ngx_uint_t shared, uint64_t value,
    ngx_msec_t since);


/*
 * Copies the rows of table "number" that show the lock in that state, and the
 * pid of the owner.  NGX_DECLINED: there is no such table.  Any process may
 * call this function.
 */
ngx_int_t ngx_etcd_lock_table_read(ngx_etcd_zone_t *zone, ngx_uint_t number,
    ngx_etcd_lock_stats_t *lock, ngx_etcd_lock_row_e state,
    ngx_etcd_lock_rows_t *rows);


#endif /* _NGX_ETCD_LOCK_TABLE_H_INCLUDED_ */
