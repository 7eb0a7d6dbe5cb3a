
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What the agent does for the elections and registrations of a cluster: it
 * goes on with what the agent before it held, and leaves it to the next one.
 */


#ifndef _NGX_ETCD_CAMPAIGNER_H_INCLUDED_
#define _NGX_ETCD_CAMPAIGNER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_campaign.h>
#include <ngx_etcd_watch.h>


typedef struct ngx_etcd_campaigner_s  ngx_etcd_campaigner_t;


/* 1 if there is something to be done for the cluster */
ngx_uint_t ngx_etcd_campaigner_wanted(ngx_etcd_conf_t *conf);

/*
 * The owner of the zone: campaigns and registers from now on, and resigns
 * from what this configuration does not have any more.  lost() is called when
 * the zone was taken over.  Memory is of the watcher's cluster; NULL: no memory
 * (*rc is NGX_ERROR), or the mutex was held (NGX_BUSY).
 */
ngx_etcd_campaigner_t *ngx_etcd_campaigner_create(ngx_etcd_conf_t *conf,
    ngx_etcd_watcher_t *watcher, void (*lost)(void *data), void *data,
    ngx_log_t *log, ngx_int_t *rc);

/* from time to time: what is asked about leases of others, for the status */
void ngx_etcd_campaigner_tick(ngx_etcd_campaigner_t *campaigner);

/* after the watcher was destroyed; all that is held stays for the next one */
void ngx_etcd_campaigner_destroy(ngx_etcd_campaigner_t *campaigner);

/*
 * For good: gates are closed when this returns, done() is called, maybe
 * before, when etcd has answered.
 */
void ngx_etcd_campaigner_resign(ngx_etcd_campaigner_t *campaigner,
    void (*done)(void *data), void *data);


#endif /* _NGX_ETCD_CAMPAIGNER_H_INCLUDED_ */
