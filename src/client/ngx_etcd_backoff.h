
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
#include <ngx_etcd_grpc.h>


/* ms; a pause is at most _URGENT if somebody waits for the cluster */

#define NGX_ETCD_BACKOFF_BASE    50
#define NGX_ETCD_BACKOFF_MAX     3000
#define NGX_ETCD_BACKOFF_URGENT  500


/* a random time from 1 to min(BASE * 2^failures, MAX or URGENT) */
ngx_msec_t ngx_etcd_backoff(ngx_etcd_cluster_t *cluster, ngx_uint_t failures);

/* A pause that is longer than URGENT becomes one of up to URGENT. */
void ngx_etcd_backoff_hasten(ngx_event_t *timer);

/* 1 if a status says that another endpoint, or a later time, may do better */
ngx_uint_t ngx_etcd_backoff_retriable(ngx_etcd_grpc_status_e status);


#endif /* _NGX_ETCD_BACKOFF_H_INCLUDED_ */
