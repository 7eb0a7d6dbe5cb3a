
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A worker's tables of an upstream whose prefix holds variables: the table of
 * a set is made when a request first asks for the set, and given up when none
 * has asked for some time.
 */


#ifndef _NGX_ETCD_TABLE_CACHE_H_INCLUDED_
#define _NGX_ETCD_TABLE_CACHE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_hash_table.h>
#include <ngx_etcd_set_map.h>
#include <ngx_etcd_table.h>


/* Made by ngx_etcd_catalog_conf_worker(). */

typedef struct {
    ngx_etcd_zone_t             *zone;
    ngx_etcd_set_map_t          *map;
    ngx_etcd_table_conf_t       *rules;
    ngx_msec_t                   idle;
    ngx_event_t                 *sync;         /* posted to have
                                                  ngx_etcd_table_cache_sync()
                                                  called soon */
    ngx_log_t                   *log;

    /* private */

    ngx_etcd_hash_table_t        by_prefix;
    ngx_etcd_hash_table_t        by_set;
    ngx_queue_t                  used;         /* the last used first */
    ngx_queue_t                  former;       /* of sets that are gone, until
                                                  the last request ends */
    ngx_atomic_uint_t            generation;   /* of the map */
    ngx_queue_t                 *cursor;       /* of a pass over all tables */
    ngx_uint_t                   n;            /* tables, with former ones */
    unsigned                     unfinished:1; /* a table is not up to date */
} ngx_etcd_table_cache_t;


/* A table of a cache, which is the first field. */

typedef struct {
    ngx_etcd_table_t             table;
    ngx_str_t                    prefix;       /* key of by_prefix */
    ngx_str_t                    set_key;      /* key of by_set: the address
                                                  of the set */
    ngx_etcd_member_set_t       *set;
    ngx_queue_t                  queue;
    ngx_msec_t                   asked;        /* ngx_current_msec */
} ngx_etcd_cached_table_t;


void ngx_etcd_table_cache_done(ngx_etcd_table_cache_t *cache);

/*
 * The table of the set with that prefix, which is valid until the event
 * handler ends, or until table->users is 0 again.  NULL: there is no such set
 * (*rc is NGX_DECLINED), no memory (NGX_ERROR), or the zone was busy
 * for NGX_ETCD_TABLE_WAIT (NGX_AGAIN).
 */
ngx_etcd_table_t *ngx_etcd_table_cache_get(ngx_etcd_table_cache_t *cache,
    ngx_str_t *prefix, ngx_int_t *rc);

/* Returns the table if there is one (NULL: none); this is no use of it. */
ngx_etcd_cached_table_t *ngx_etcd_table_cache_find(
    ngx_etcd_table_cache_t *cache, ngx_str_t *prefix);

/*
 * Called when the worker was woken: updates the tables whose sets have
 * changed.  Returns as ngx_etcd_table_sync().
 */
ngx_int_t ngx_etcd_table_cache_sync(ngx_etcd_table_cache_t *cache);

/*
 * Called periodically: gives up tables that were not used for "idle" ms, and
 * calls ngx_etcd_table_tick() for leaders.
 */
void ngx_etcd_table_cache_tick(ngx_etcd_table_cache_t *cache);


#endif /* _NGX_ETCD_TABLE_CACHE_H_INCLUDED_ */
