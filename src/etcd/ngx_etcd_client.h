
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A client of an etcd cluster: creates the cluster with its endpoints, its
 * authentication, and two channels.  Long-lived streams and bulk reads use
 * separate channels, because large responses delay the events of watches.
 */


#ifndef _NGX_ETCD_CLIENT_H_INCLUDED_
#define _NGX_ETCD_CLIENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cluster.h>


/*
 * Returns a client that connects when a channel is first used, or NULL if there
 * is no memory.  The configuration must stay.  See ngx_etcd_cluster_t for
 * changed().
 */
ngx_etcd_cluster_t *ngx_etcd_client_create(ngx_etcd_cluster_conf_t *conf,
    void (*changed)(void *data), void *data, ngx_log_t *log);

/*
 * Closes the connections.  Open calls end with UNAVAILABLE; waiters are not
 * called.  Must not be called from the handler of a call.
 */
void ngx_etcd_client_destroy(ngx_etcd_cluster_t *cluster);

/*
 * In a worker process that shuts down: keeps connections open, and allows new
 * ones, for requests that are still to be sent.
 */
void ngx_etcd_client_linger(ngx_etcd_cluster_t *cluster);

/*
 * For a process that is about to exit and has left its event loop: waits up to
 * "time" ms, until *done is set, for answers on the connection of the reads
 * channel.  Returns at once if there is none.
 */
void ngx_etcd_client_wait(ngx_etcd_cluster_t *cluster, ngx_uint_t *done,
    ngx_msec_t time);

/*
 * Sets cluster->urgent, which the owner clears, and shortens the pauses of the
 * channels: a request waits for the cluster.
 */
void ngx_etcd_client_hasten(ngx_etcd_cluster_t *cluster);


#endif /* _NGX_ETCD_CLIENT_H_INCLUDED_ */
