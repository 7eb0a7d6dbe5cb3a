
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A cell: the value of one key in shared memory.  Written by the owner of the
 * zone, read by every worker without a lock: of its two views one is in force
 * and the other one is written, so a writer that dies leaves the former one.
 */


#ifndef _NGX_ETCD_CELL_H_INCLUDED_
#define _NGX_ETCD_CELL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_zone.h>


#define NGX_ETCD_CELL_MAX_VALUE   4096
#define NGX_ETCD_CELL_MAX_REASON  256


typedef enum {
    NGX_ETCD_CELL_LOADING = 0,       /* not read yet */
    NGX_ETCD_CELL_SYNCED,
    NGX_ETCD_CELL_DENIED             /* the user may not read the key */
} ngx_etcd_cell_state_e;


/* all zero: nothing is known */

typedef struct {
    uint64_t                         revision;     /* known up to here; 0: to
                                                      be read */
    uint64_t                         modified;     /* mod_revision of the
                                                      value; 0: no value */
    uint64_t                         refused;      /* that of a newer one,
                                                      which is not used; 0:
                                                      there is none */
    ngx_etcd_cell_state_e            state;
    uint32_t                         len;
    uint32_t                         reason_len;   /* why it was refused */
    u_char                           reason[NGX_ETCD_CELL_MAX_REASON];
    u_char                           value[NGX_ETCD_CELL_MAX_VALUE];
} ngx_etcd_cell_view_t;


struct ngx_etcd_cell_s {
    ngx_etcd_cell_t                 *next;
    ngx_atomic_t                     id;           /* 0: nobody's; the struct
                                                      is never given back */
    uint32_t                         epoch;        /* last declared by */
    ngx_str_t                        key;
    ngx_etcd_word_t                  version;      /* grows by 1 */
    ngx_etcd_cell_view_t             views[2];     /* by version */
};


/*
 * The master: finds or makes the cell.  NULL: the zone is too small, or its
 * mutex is held.
 */
ngx_etcd_cell_t *ngx_etcd_cell_declare(ngx_etcd_zone_t *zone, ngx_str_t *key);

/*
 * The master: fills a cell that was just made with what its like in another
 * zone holds (that of the configuration before, which had another size).
 * NGX_OK or NGX_AGAIN.
 */
ngx_int_t ngx_etcd_cell_inherit(ngx_etcd_cell_t *cell, ngx_etcd_zone_t *from);

/*
 * The owner: cells that its configuration does not have are nobody's.  NGX_OK
 * or NGX_AGAIN.
 */
ngx_int_t ngx_etcd_cell_retire_old(ngx_etcd_zone_t *zone);

/*
 * The owner: NGX_OK, NGX_AGAIN (the mutex was held; nothing was done), or
 * NGX_DECLINED (it is not the owner any more).  What differs is an event,
 * under that name and key.
 */
ngx_int_t ngx_etcd_cell_write(ngx_etcd_zone_t *zone, ngx_etcd_cell_t *cell,
    ngx_etcd_cell_view_t *view, ngx_str_t *name, ngx_str_t *key);

/* while nobody else knows of the zone */
void ngx_etcd_cell_fill(ngx_etcd_cell_t *cell, ngx_etcd_cell_view_t *view);

/*
 * Any process: brings its copy up to date, which is of a version (0, and all
 * zero, at first).  The cell is that of the id, or the copy stays as it is.
 */
void ngx_etcd_cell_read(ngx_etcd_cell_t *cell, ngx_uint_t id,
    uint64_t *version, ngx_etcd_cell_view_t *copy);


#endif /* _NGX_ETCD_CELL_H_INCLUDED_ */
