
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Random pauses between attempts: exponential backoff with full jitter
 * (Brooker, "Exponential Backoff And Jitter", 2015).
 */


#ifndef _NGX_ETCD_BACKOFF_H_INCLUDED_
#define _NGX_ETCD_BACKOFF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cluster.h>


/* ms; a pause is at most _URGENT while cluster->urgent is set */

#define NGX_ETCD_BACKOFF_BASE    50
#define NGX_ETCD_BACKOFF_MAX     3000
#define NGX_ETCD_BACKOFF_URGENT  500


/* Returns a random time from 1 to min(BASE * 2^failures, MAX or URGENT) ms. */
ngx_msec_t ngx_etcd_backoff(ngx_etcd_cluster_t *cluster, ngx_uint_t failures);

/* Returns a random time, in ms, from half of the mean to one and a half. */
ngx_msec_t ngx_etcd_backoff_around(ngx_msec_t mean);

/* a pause that would end later ends within URGENT ms */
void ngx_etcd_backoff_hasten(ngx_event_t *timer);

/*
 * Returns 1 if a call that failed with this status may succeed at another
 * endpoint, or later.
 */
ngx_uint_t ngx_etcd_backoff_retriable(ngx_etcd_grpc_status_e status);


#endif /* _NGX_ETCD_BACKOFF_H_INCLUDED_ */
