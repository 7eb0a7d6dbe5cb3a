
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The keys of a leader.  If its prefix has variables, the catalog's template
 * has them without the watched prefix, and the leader of a set has them behind
 * the prefix of the set.
 */


#ifndef _NGX_ETCD_LEADER_KEYS_H_INCLUDED_
#define _NGX_ETCD_LEADER_KEYS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_service.h>


/* keys of Patroni, below /SCOPE/ */

#define NGX_ETCD_PATRONI_LEADER    "leader"
#define NGX_ETCD_PATRONI_MEMBERS   "members/"
#define NGX_ETCD_PATRONI_FAILOVER  "failover"
#define NGX_ETCD_PATRONI_SYNC      "sync"
#define NGX_ETCD_PATRONI_CONFIG    "config"
#define NGX_ETCD_PATRONI_FAILSAFE  "failsafe"


/*
 * Called by the configuration: sets the keys and the watched prefix.
 * NGX_ERROR: logged, or no memory.
 */
ngx_int_t ngx_etcd_leader_keys_set(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service);

/*
 * Takes the watched prefix off all keys.  NGX_DECLINED: a key has a variable
 * behind this prefix, and nothing was done.
 */
ngx_int_t ngx_etcd_leader_keys_cut(ngx_etcd_leader_conf_t *leader);

/*
 * Gives the service, which has the template's leader, a leader with keys below
 * its own prefix; memory is of the pool.  NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_leader_keys_join(ngx_etcd_service_conf_t *service,
    ngx_pool_t *pool);


#endif /* _NGX_ETCD_LEADER_KEYS_H_INCLUDED_ */
