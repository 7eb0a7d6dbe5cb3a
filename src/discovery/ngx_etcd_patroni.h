
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What Patroni writes: "leader" holds the name of a member, "members/NAME" is
 * JSON about one, "failover" is JSON about who is to hand over, "sync" is JSON
 * that names the synchronous standbys, "config" is JSON with their mode, and
 * "failsafe" is JSON with the API of each member: NAME -> URL.  The other keys
 * below its prefix (initialize, history, status) are not read.
 */


#ifndef _NGX_ETCD_PATRONI_H_INCLUDED_
#define _NGX_ETCD_PATRONI_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_confirm.h>
#include <ngx_etcd_failsafe.h>
#include <ngx_etcd_leader.h>
#include <ngx_etcd_names.h>
#include <ngx_etcd_patroni_url.h>


#define NGX_ETCD_PATRONI_LEADER    "leader"
#define NGX_ETCD_PATRONI_MEMBERS   "members/"
#define NGX_ETCD_PATRONI_FAILOVER  "failover"
#define NGX_ETCD_PATRONI_SYNC      "sync"
#define NGX_ETCD_PATRONI_CONFIG    "config"
#define NGX_ETCD_PATRONI_FAILSAFE  "failsafe"


struct ngx_etcd_patroni_s {
    ngx_etcd_leader_t         *leader;
    ngx_etcd_names_t           names;

    /* who is asked to confirm that it leads */

    ngx_etcd_confirm_t         confirm;
    ngx_str_t                  asked;         /* key; own memory */
    uint64_t                   term;          /* create_revision */
    ngx_uint_t                 wanted;        /* by the present selection */

    ngx_etcd_failsafe_t       *failsafe;      /* or NULL */
};


/* of an agent's service; memory is of the pool.  NULL: no memory */
ngx_etcd_patroni_t *ngx_etcd_patroni_create(ngx_etcd_leader_t *leader,
    ngx_pool_t *pool);
void ngx_etcd_patroni_destroy(ngx_etcd_patroni_t *patroni);

/* selects the members of the role that is wanted */
void ngx_etcd_patroni_select(ngx_etcd_patroni_t *patroni);

/*
 * While it selects: the key as it would be if its URL had an address where it
 * has a host name.  Other faults are found when the value is decoded.
 * NGX_AGAIN, or NGX_ERROR, which is reported if it is to be: there is no
 * address.
 */
ngx_int_t ngx_etcd_patroni_resolve(ngx_etcd_patroni_t *patroni,
    ngx_etcd_leader_key_t *key, const ngx_etcd_patroni_url_t *url,
    ngx_uint_t report, ngx_etcd_leader_key_t *resolved);


#endif /* _NGX_ETCD_PATRONI_H_INCLUDED_ */
