
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The synchronous replicas of Patroni: the key "sync" names them, and
 * "synchronous_mode" in the key "config" tells the mode.
 */


#ifndef _NGX_ETCD_PATRONI_SYNC_H_INCLUDED_
#define _NGX_ETCD_PATRONI_SYNC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_leader.h>


typedef struct {
    ngx_etcd_role_e            role;         /* of a member that is named:
                                                SYNC, QUORUM or ASYNC */
    ngx_str_t                  standbys;     /* separated by commas */
} ngx_etcd_patroni_sync_t;


/* Called within select(); the names are in memory of leader->pool. */
void ngx_etcd_patroni_sync_read(ngx_etcd_leader_t *leader,
    ngx_etcd_patroni_sync_t *sync);

/* Returns the role of a replica: NGX_ETCD_ROLE_SYNC, _QUORUM or _ASYNC. */
ngx_etcd_role_e ngx_etcd_patroni_sync_role(ngx_etcd_patroni_sync_t *sync,
    ngx_str_t *name);


#endif /* _NGX_ETCD_PATRONI_SYNC_H_INCLUDED_ */
