
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Who holds locks and who waits for them, for the status: a table of rows for
 * each worker that uses locks.  It writes its own alone, without a lock, and
 * everybody reads all of them; that of a process which died shows nothing any
 * more, and is the next one's.
 *
 * What has no row is not shown, and nothing else: counts are those of the
 * tally.
 */


#ifndef _NGX_ETCD_LOCK_TABLE_H_INCLUDED_
#define _NGX_ETCD_LOCK_TABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_tally.h>


#define NGX_ETCD_LOCK_TABLE_ROWS   64      /* the bits of a word */
#define NGX_ETCD_LOCK_TABLE_KEY    128     /* bytes of a key */
#define NGX_ETCD_LOCK_TABLE_SHARE  8       /* of the zone, for all of them */


typedef enum {
    NGX_ETCD_LOCK_ROW_NONE = 0,
    NGX_ETCD_LOCK_ROW_HELD,
    NGX_ETCD_LOCK_ROW_WAITING
} ngx_etcd_lock_row_e;


typedef struct {
    ngx_etcd_lock_row_e     state;
    ngx_etcd_tally_t       *lock;          /* the lock's name */
    uint64_t                since;         /* ngx_current_msec; of those who
                                              wait, the first one's */
    uint64_t                token;         /* held */
    uint32_t                waiting;       /* how many */
    uint32_t                key_len;
    u_char                  key[NGX_ETCD_LOCK_TABLE_KEY];
} ngx_etcd_lock_entry_t;


typedef struct {
    ngx_etcd_word_t         sequence;      /* odd: it is written */
    ngx_etcd_lock_entry_t   entry;
} ngx_etcd_lock_row_t;


struct ngx_etcd_lock_table_s {
    ngx_etcd_word_t         owner;         /* pid << 32 | 1: its rows are its
                                              own; 0: nobody's */
    uint64_t                used;          /* rows; the owner's alone */
    ngx_etcd_lock_row_t     rows[NGX_ETCD_LOCK_TABLE_ROWS];
};


/*
 * The master: tables for so many workers, and for those that they replace, as
 * far as that share of the zone reaches.
 */
void ngx_etcd_lock_table_declare(ngx_etcd_zone_t *zone, ngx_uint_t workers);

/* a worker: a table that is nobody's; NULL: there is none */
ngx_etcd_lock_table_t *ngx_etcd_lock_table_claim(ngx_etcd_zone_t *zone);

/* its own again, or NULL */
void ngx_etcd_lock_table_leave(ngx_etcd_lock_table_t *table);


/* the owner: a row that shows nothing yet; NULL: all are in use */
ngx_etcd_lock_row_t *ngx_etcd_lock_row_add(ngx_etcd_lock_table_t *table,
    ngx_etcd_tally_t *lock, ngx_str_t *key);
void ngx_etcd_lock_row_remove(ngx_etcd_lock_table_t *table,
    ngx_etcd_lock_row_t *row);

void ngx_etcd_lock_row_held(ngx_etcd_lock_row_t *row, uint64_t token,
    ngx_msec_t since);
void ngx_etcd_lock_row_waiting(ngx_etcd_lock_row_t *row, ngx_uint_t n,
    ngx_msec_t since);


/*
 * Anybody: copies what the table of that number says of a lock in that state
 * to where there is room for NGX_ETCD_LOCK_TABLE_ROWS, and says how many that
 * are and whose.  NGX_DECLINED: there are no more tables.
 */
ngx_int_t ngx_etcd_lock_table_read(ngx_etcd_zone_t *zone, ngx_uint_t number,
    ngx_etcd_tally_t *lock, ngx_etcd_lock_row_e state,
    ngx_etcd_lock_entry_t *entries, ngx_uint_t *n, ngx_pid_t *pid);


#endif /* _NGX_ETCD_LOCK_TABLE_H_INCLUDED_ */
