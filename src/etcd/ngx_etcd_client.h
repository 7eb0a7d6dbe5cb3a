
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A client of an etcd cluster: creates the cluster with its endpoints, its
 * authentication, and two channels.  Long-lived streams and bulk reads use
 * separate channels, because large responses delay the events of watches.
 * With "auto_sync" it keeps the endpoints as the members advertise them, and
 * ngx_etcd_learn.h as SRV records name them.
 */


#ifndef _NGX_ETCD_CLIENT_H_INCLUDED_
#define _NGX_ETCD_CLIENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_learn.h>
#include <ngx_etcd_proto.pb-c.h>
#include <ngx_etcd_unary.h>


/*
 * Adds the client URLs that the members of a cluster advertise (MemberList of
 * etcd's v3 API, Cluster) to the endpoints, at intervals of about the
 * "auto_sync" directive.
 *
 * The configured endpoints always stay: members advertise the URLs that they
 * were told to, which may not be reachable from here.  Learners, members that
 * have not started, and unusable URLs are left out; each unusable URL is logged
 * once.
 */

#define NGX_ETCD_AUTO_SYNC_FIRST    1000    /* ms: the first request comes
                                               within */
#define NGX_ETCD_AUTO_SYNC_URLS     64      /* of one answer, the rest is
                                               ignored */


struct ngx_etcd_auto_sync_s {
    ngx_etcd_cluster_t                 *cluster;
    ngx_etcd_unary_t                    unary;
    Etcd__MemberListRequest             request;
    ngx_event_t                         timer;
    ngx_etcd_learn_t                    learn;
};


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
