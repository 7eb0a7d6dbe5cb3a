
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The "etcd_wait" directive; common to http and stream: the time that
 * requests may wait for an upstream, and their number.
 */


#ifndef _NGX_ETCD_WAIT_H_INCLUDED_
#define _NGX_ETCD_WAIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_conn_queue.h>
#include <ngx_etcd_service.h>
#include <ngx_etcd_wait_queue.h>


#define NGX_ETCD_WAIT_QUEUE  1024     /* default of the queue */


typedef struct {
    ngx_str_t                  upstream;
    ngx_uint_t                 stream;        /* 1: an upstream of the stream
                                                 module */
    ngx_msec_t                 timeout;
    ngx_uint_t                 limit;         /* per worker and upstream */
    ngx_uint_t                 min;           /* usable peers */
    ngx_uint_t                 full;          /* 1: also for a connection, if
                                                 all peers are at max_conns */
    ngx_etcd_service_conf_t   *service;       /* set after the configuration
                                                 was read */
    ngx_etcd_refusal_log_t     refusals;      /* of this worker */
    void                      *module;        /* stream: nginx's upstream, once
                                                 it was used */
    u_char                    *file;
    ngx_uint_t                 line;
} ngx_etcd_wait_t;


/*
 * The handler of the directive, for http if cmd->post is NULL, else for
 * stream.  The ngx_etcd_wait_t * at the command's offset is NGX_CONF_UNSET_PTR
 * at first, NULL for "off".
 */
char *ngx_etcd_wait_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* Called after the configuration was read: finds the upstreams. */
ngx_int_t ngx_etcd_wait_check(ngx_etcd_main_conf_t *emcf, ngx_log_t *log);

/* Returns 1 if the table of the upstream has too few usable peers. */
ngx_uint_t ngx_etcd_wait_needed(ngx_etcd_wait_t *wait,
    ngx_etcd_table_t *table);

/*
 * Returns 1 if the request must not take a connection yet, since others have
 * waited longer for one.  The entry is that of the request, NULL if it has not
 * waited.
 */
ngx_uint_t ngx_etcd_wait_yields(ngx_etcd_wait_t *wait, ngx_etcd_table_t *table,
    ngx_etcd_wait_queue_entry_t *entry);

/*
 * Returns the queue in which a request waits that got no peer: for a peer or,
 * if a peer may get a connection, for that.  NULL: there is nothing to wait
 * for.
 */
ngx_etcd_wait_queue_t *ngx_etcd_wait_queue(ngx_etcd_wait_t *wait,
    ngx_etcd_table_t *table);

/*
 * Returns 1 if the queue for connections is so long that a request which has
 * just come may not wait in it, which is logged.
 */
ngx_uint_t ngx_etcd_wait_refuses(ngx_etcd_wait_t *wait,
    ngx_etcd_table_t *table, ngx_pool_t *pool, ngx_log_t *log);

/*
 * Starts a wait, in a queue of the table or of none (NULL), of a request that
 * has waited for entry->waited ms before.
 * NGX_AGAIN: the handler will be called; NGX_DECLINED: the time is over;
 * NGX_BUSY: too many requests wait, which is logged.
 */
ngx_int_t ngx_etcd_wait_begin(ngx_etcd_wait_t *wait, ngx_etcd_table_t *table,
    ngx_etcd_wait_queue_t *queue, ngx_etcd_wait_queue_entry_t *entry,
    ngx_pool_t *pool, ngx_log_t *log);

/*
 * Likewise, for a set that is not known yet: ngx_etcd_pattern_values_table()
 * has just returned NGX_BUSY.
 */
ngx_int_t ngx_etcd_wait_loading(ngx_etcd_wait_t *wait,
    ngx_etcd_wait_queue_entry_t *entry, ngx_pool_t *pool, ngx_log_t *log);


#endif /* _NGX_ETCD_WAIT_H_INCLUDED_ */
