
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The tables of a worker: that of each upstream with a fixed prefix, and those
 * of the sets that requests have asked for.
 */


#ifndef _NGX_ETCD_WORKER_TABLES_H_INCLUDED_
#define _NGX_ETCD_WORKER_TABLES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>


/* The event calls ngx_etcd_worker_tables_sync(), and is posted by tables. */
void ngx_etcd_worker_tables_init(ngx_etcd_conf_t *conf, ngx_event_t *sync,
    ngx_log_t *log);
void ngx_etcd_worker_tables_done(ngx_etcd_conf_t *conf);

/*
 * Updates the tables from the zone: NGX_OK, NGX_AGAIN (call again after other
 * work), or NGX_BUSY (wait before that).
 */
ngx_int_t ngx_etcd_worker_tables_sync(ngx_etcd_conf_t *conf);

/* Called periodically: see ngx_etcd_table_tick(). */
void ngx_etcd_worker_tables_tick(ngx_etcd_conf_t *conf);


#endif /* _NGX_ETCD_WORKER_TABLES_H_INCLUDED_ */
