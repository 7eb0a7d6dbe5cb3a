
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The agent's elections and registrations of a cluster.  An agent continues
 * with the leases of its predecessor and leaves its own to its successor.
 */


#ifndef _NGX_ETCD_CAMPAIGNER_H_INCLUDED_
#define _NGX_ETCD_CAMPAIGNER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_campaign.h>
#include <ngx_etcd_watch.h>


typedef struct ngx_etcd_campaigner_s  ngx_etcd_campaigner_t;


/*
 * Returns 1 if the cluster has elections or registrations to run, or former
 * ones to end.
 */
ngx_uint_t ngx_etcd_campaigner_wanted(ngx_etcd_conf_t *conf);

/*
 * Called by the owner of the zone: campaigns and registers from now on, and
 * resigns from what this configuration has not declared.  lost() is called
 * when the zone has a new owner.  Memory is allocated from the pool of the
 * watch stream's cluster.  NULL: no memory (*rc is NGX_ERROR), or the mutex was
 * held (NGX_BUSY).
 */
ngx_etcd_campaigner_t *ngx_etcd_campaigner_create(ngx_etcd_conf_t *conf,
    ngx_etcd_watch_stream_t *stream, void (*lost)(void *data), void *data,
    ngx_log_t *log, ngx_int_t *rc);

/*
 * Called periodically: asks etcd about leases of other leaders, for the
 * status.
 */
void ngx_etcd_campaigner_tick(ngx_etcd_campaigner_t *campaigner);

/*
 * Called after the watch stream was destroyed; leases are left to the next
 * agent.
 */
void ngx_etcd_campaigner_destroy(ngx_etcd_campaigner_t *campaigner);

/*
 * Resigns for good.  When this function returns, etcd_require_leader refuses.
 * done() is called when etcd has answered, possibly before the return.
 */
void ngx_etcd_campaigner_resign(ngx_etcd_campaigner_t *campaigner,
    void (*done)(void *data), void *data);


#endif /* _NGX_ETCD_CAMPAIGNER_H_INCLUDED_ */
