
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A catalog: all sets of members of an upstream whose prefix holds variables.
 * The agent watches the literal part of the prefix once; each set has a service
 * (ngx_etcd_service.h), made when the first key of the set comes, and
 * destroyed with its last.
 */


#ifndef _NGX_ETCD_CATALOG_H_INCLUDED_
#define _NGX_ETCD_CATALOG_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_members_conf.h>


/* ms until something is tried again: the mutex was held; a set is beyond the
   limit, or the zone full */

#define NGX_ETCD_CATALOG_BUSY   50
#define NGX_ETCD_CATALOG_FULL   5000


typedef struct ngx_etcd_catalog_s  ngx_etcd_catalog_t;

typedef void (*ngx_etcd_catalog_published_pt)(void *data, ngx_uint_t changed);


/*
 * Called by the agent, which owns the zone.  Memory is of the pool; NULL: no
 * memory.
 */
ngx_etcd_catalog_t *ngx_etcd_catalog_create(ngx_etcd_catalog_conf_t *conf,
    ngx_pool_t *pool, ngx_etcd_catalog_published_pt published,
    void (*lost)(void *data), void *data, ngx_log_t *log);

/*
 * Makes the services of the sets in the zone, until a time of
 * ngx_etcd_time_budget_now(), and then starts the watch.  NGX_OK, NGX_AGAIN:
 * call again, or NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_catalog_load(ngx_etcd_catalog_t *catalog,
    ngx_etcd_watch_stream_t *stream, uint64_t until);

/* Returns 1 while reported changes are not in the zone yet. */
ngx_uint_t ngx_etcd_catalog_pending(ngx_etcd_catalog_t *catalog);

/*
 * The watch has all that etcd had at some time since the start, and nothing is
 * pending: a set that is not known is not in etcd.
 */
void ngx_etcd_catalog_proved(ngx_etcd_catalog_t *catalog);

/* Must be called after the watch stream was destroyed. */
void ngx_etcd_catalog_destroy(ngx_etcd_catalog_t *catalog);


#endif /* _NGX_ETCD_CATALOG_H_INCLUDED_ */
