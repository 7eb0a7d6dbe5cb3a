
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Functions of other rooms that the client never calls here: there is no TLS,
 * no name to be looked up, and no shared memory.
 */


#include "sim_world.h"
#include <ngx_etcd_lookup.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_lock_table.h>


ngx_module_t  ngx_etcd_module;


void
ngx_etcd_ssl_refresh(ngx_etcd_ssl_t *ssl, char *what, ngx_str_t *name,
    ngx_log_t *log)
{
    abort();
}


void
ngx_etcd_lookup_start(ngx_etcd_lookup_t *lookup, ngx_log_t *log)
{
    abort();
}


void
ngx_etcd_lookup_cancel(ngx_etcd_lookup_t *lookup)
{
    /* nothing is looked up */
}


/* the model is of no release */

ngx_int_t
ngx_etcd_server_faults_ask(ngx_etcd_cluster_t *cluster, ngx_etcd_conf_t *conf)
{
    return NGX_OK;
}


/* nobody is shown the locks */

ngx_etcd_lock_table_t *
ngx_etcd_lock_table_claim(ngx_etcd_zone_t *zone)
{
    return NULL;
}


void
ngx_etcd_lock_table_leave(ngx_etcd_lock_table_t *table)
{
    abort();
}


ngx_etcd_lock_row_t *
ngx_etcd_lock_table_add(ngx_etcd_lock_table_t *table,
    ngx_etcd_lock_stats_t *stats, ngx_str_t *key)
{
    abort();
}


void
ngx_etcd_lock_table_show(ngx_etcd_lock_row_t *row, ngx_etcd_lock_row_e state,
    ngx_uint_t shared, uint64_t value, ngx_msec_t since)
{
    abort();
}


void
ngx_etcd_lock_table_remove(ngx_etcd_lock_table_t *table,
    ngx_etcd_lock_row_t *row)
{
    abort();
}


void
ngx_etcd_gauge_set(ngx_etcd_gauge_t *gauge, uint32_t n)
{
    /* likewise */
}
