
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Values of single keys, for variables.  The configuration declares them; the
 * agent watches each key and writes its value into a shared value of the zone;
 * every process reads the shared value when it needs the value.
 */


#ifndef _NGX_ETCD_VALUE_H_INCLUDED_
#define _NGX_ETCD_VALUE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_shared_value.h>
#include <ngx_etcd_mirror.h>


/* made by configuration, lives as long as the cycle; other fields are zeroed */

typedef struct {
    ngx_str_t                    name;         /* of the first variable */
    ngx_str_t                    key;          /* without the namespace */

    ngx_etcd_shared_value_t     *shared;       /* from declare() on */
    ngx_uint_t                   id;           /* of the shared value */
    uint64_t                     version;      /* of this process's copy */
    ngx_etcd_shared_value_view_t copy;

    u_char                      *table_buf;    /* NULL: no split= */
    ngx_str_t                    table;        /* of the copy, see
                                                  ngx_etcd_split.h */
    uint64_t                     table_version;
} ngx_etcd_value_conf_t;


/* all values of one cluster, while its agent runs */
typedef struct ngx_etcd_values_s  ngx_etcd_values_t;


/*
 * Called by the master when the zone exists: finds or makes the shared value.
 * The shared value of a new zone is copied from the old zone, if there is one.
 */
ngx_int_t ngx_etcd_value_declare(ngx_etcd_value_conf_t *conf, ngx_str_t *ns,
    ngx_etcd_zone_t *zone, ngx_etcd_zone_t *old);

/* Returns the present value, which is valid until the next call. */
ngx_etcd_shared_value_view_t *ngx_etcd_value_get(ngx_etcd_value_conf_t *conf);

/*
 * Sets the table of the present value, which is valid until the next call, and
 * is empty if there is none.  The value is read when it has changed: only then
 * the reason is returned why it has none, otherwise NULL.
 */
char *ngx_etcd_value_table(ngx_etcd_value_conf_t *conf, ngx_str_t *table);

/*
 * Takes off what is no part of a value: a byte order mark at its beginning, and
 * the line feed, or CR and LF, at its end.
 */
void ngx_etcd_value_trim(ngx_str_t *value);

/*
 * Returns NULL if a variable may have the value, of at most "max" bytes,
 * otherwise the reason why not, which is written into the buffer.
 */
#define NGX_ETCD_VALUE_REASON  128

ngx_str_t *ngx_etcd_value_refuse(ngx_str_t *value, size_t max, u_char *buf,
    ngx_str_t *reason);


/*
 * Called by the agent, which owns the zone: watches all values, an array of
 * ngx_etcd_value_conf_t *.  Memory is of the pool; NULL: no memory.
 */
ngx_etcd_values_t *ngx_etcd_value_create(ngx_array_t *confs,
    ngx_etcd_zone_t *zone, ngx_etcd_watch_stream_t *stream, ngx_pool_t *pool,
    void (*written)(void *data), void (*lost)(void *data), void *data,
    ngx_log_t *log);

/* Returns 1 while reported changes are not in the zone yet. */
ngx_uint_t ngx_etcd_value_pending(ngx_etcd_values_t *values);

/* Must be called after the watch stream was destroyed. */
void ngx_etcd_value_destroy(ngx_etcd_values_t *values);


#endif /* _NGX_ETCD_VALUE_H_INCLUDED_ */
