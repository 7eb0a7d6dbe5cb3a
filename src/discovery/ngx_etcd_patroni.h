
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What Patroni writes: "leader" holds the name of a member, "members/NAME" is
 * JSON about one, "failover" is JSON about who is to hand over.  What else
 * stands below its prefix (config, initialize, history, status, sync, failsafe)
 * is of no interest.
 */


#ifndef _NGX_ETCD_PATRONI_H_INCLUDED_
#define _NGX_ETCD_PATRONI_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_leader.h>


#define NGX_ETCD_PATRONI_LEADER    "leader"
#define NGX_ETCD_PATRONI_MEMBERS   "members/"
#define NGX_ETCD_PATRONI_FAILOVER  "failover"


/* of an agent's service; memory is of the pool.  NULL: no memory */
ngx_etcd_patroni_t *ngx_etcd_patroni_create(ngx_etcd_leader_t *leader,
    ngx_pool_t *pool);
void ngx_etcd_patroni_destroy(ngx_etcd_patroni_t *patroni);

/* selects the members of the role that is wanted */
void ngx_etcd_patroni_select(ngx_etcd_patroni_t *patroni);


#endif /* _NGX_ETCD_PATRONI_H_INCLUDED_ */
