
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A client of an etcd cluster: creates the cluster with its endpoints, its
 * authentication, and two channels.  Long-lived streams and bulk reads go over
 * separate channels, since big reads starve watches.
 */


#ifndef _NGX_ETCD_CLIENT_H_INCLUDED_
#define _NGX_ETCD_CLIENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cluster.h>


/* connects when a channel is first wanted; NULL: no memory */
ngx_etcd_cluster_t *ngx_etcd_client_create(ngx_etcd_cluster_conf_t *conf,
    void (*changed)(void *data), void *data, ngx_log_t *log);

/*
 * Closes the connections.  Calls still open end with UNAVAILABLE first;
 * waiters are dropped.  Must not be called from a call's handler.
 */
void ngx_etcd_client_destroy(ngx_etcd_cluster_t *cluster);

/*
 * In a worker process that shuts down: connections stay, or are made, for what
 * is still to be said.
 */
void ngx_etcd_client_linger(ngx_etcd_cluster_t *cluster);

/*
 * For a process that is about to exit and has left its event loop: waits up
 * to that time for answers on the connection that there is, until *done.
 */
void ngx_etcd_client_wait(ngx_etcd_cluster_t *cluster, ngx_uint_t *done,
    ngx_msec_t time);

/*
 * Sets cluster->urgent: somebody waits for the cluster from now on, until the
 * owner clears it.  Pauses of the channels that are longer end sooner.
 */
void ngx_etcd_client_hasten(ngx_etcd_cluster_t *cluster);


#endif /* _NGX_ETCD_CLIENT_H_INCLUDED_ */
