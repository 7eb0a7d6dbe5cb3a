
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Values of single keys, for variables: the configuration declares them, the
 * agent watches each key by the stream of all watches and writes what it has
 * into a cell of the zone; every process reads that whenever it needs it.
 */


#ifndef _NGX_ETCD_VALUE_H_INCLUDED_
#define _NGX_ETCD_VALUE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cell.h>
#include <ngx_etcd_mirror.h>


/* made by configuration, lives as long as the cycle; the rest zeroed */

typedef struct {
    ngx_str_t                    name;         /* of the first variable */
    ngx_str_t                    key;          /* without the namespace */

    ngx_etcd_cell_t             *cell;         /* from declare() on */
    ngx_uint_t                   id;           /* of the cell */
    uint64_t                     version;      /* of this process's copy */
    ngx_etcd_cell_view_t         copy;
} ngx_etcd_value_conf_t;


/* all of one cluster, while its agent runs */
typedef struct ngx_etcd_values_s  ngx_etcd_values_t;


/*
 * The master, when the zone is there: finds or makes the cells; those of a new
 * zone take over what the old one, if there is one, has.
 */
ngx_int_t ngx_etcd_value_declare(ngx_etcd_value_conf_t *conf, ngx_str_t *ns,
    ngx_etcd_zone_t *zone, ngx_etcd_zone_t *old);

/* what is known of it now, until it is asked for again */
ngx_etcd_cell_view_t *ngx_etcd_value_get(ngx_etcd_value_conf_t *conf);

/*
 * NULL if a variable may have it.  Otherwise a text that says why not, which
 * is written into the buffer.
 */
#define NGX_ETCD_VALUE_REASON  128

ngx_str_t *ngx_etcd_value_refuse(ngx_str_t *value, u_char *buf,
    ngx_str_t *reason);


/*
 * The agent, owning the zone: watches all of them, an array of
 * ngx_etcd_value_conf_t *.  Memory is from the pool; NULL: no memory.
 */
ngx_etcd_values_t *ngx_etcd_values_create(ngx_array_t *confs,
    ngx_etcd_zone_t *zone, ngx_etcd_watcher_t *watcher, ngx_pool_t *pool,
    void (*written)(void *data), void (*lost)(void *data), void *data,
    ngx_log_t *log);

/* 1 while something that a watch has reported is not in the zone yet */
ngx_uint_t ngx_etcd_values_pending(ngx_etcd_values_t *values);

/* after the watcher was destroyed */
void ngx_etcd_values_destroy(ngx_etcd_values_t *values);


#endif /* _NGX_ETCD_VALUE_H_INCLUDED_ */
