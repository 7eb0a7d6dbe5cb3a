
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The choice of a cluster when none is known: at the first start, or after the
 * state file was removed.
 *
 * The first endpoint that tells the id of its cluster begins the vote: all
 * others are asked at once, by connections that are closed afterwards.  The
 * cluster of most endpoints wins; if several have as many, that of the endpoint
 * which the configuration names first.  The vote ends when more than half of
 * the endpoints agree, all have answered or failed, or request_timeout has
 * passed.  Connections that have told their id wait for the end.
 */


#ifndef _NGX_ETCD_VOTE_H_INCLUDED_
#define _NGX_ETCD_VOTE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cluster.h>


/* NULL: no memory. */
ngx_etcd_vote_t *ngx_etcd_vote_create(ngx_etcd_cluster_t *cluster);
void ngx_etcd_vote_destroy(ngx_etcd_vote_t *vote);


#endif /* _NGX_ETCD_VOTE_H_INCLUDED_ */
