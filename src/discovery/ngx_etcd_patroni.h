
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
#include <ngx_etcd_patroni_url.h>


#define NGX_ETCD_PATRONI_LEADER    "leader"
#define NGX_ETCD_PATRONI_MEMBERS   "members/"
#define NGX_ETCD_PATRONI_FAILOVER  "failover"
#define NGX_ETCD_PATRONI_SYNC      "sync"
#define NGX_ETCD_PATRONI_CONFIG    "config"
#define NGX_ETCD_PATRONI_FAILSAFE  "failsafe"


typedef struct {
    ngx_etcd_leader_t         *leader;
    ngx_etcd_member_host_t    *hosts;         /* that it asks for */

    /* who is asked to confirm that it leads */

    ngx_etcd_confirm_t         confirm;
    ngx_str_t                  asked;         /* key; own memory */
    int64_t                    term;          /* create_revision */
    ngx_uint_t                 wanted;        /* by the present selection */

    ngx_etcd_failsafe_t       *failsafe;      /* or NULL */
} ngx_etcd_patroni_t;


extern const ngx_etcd_leader_source_t  ngx_etcd_patroni_source;


/*
 * While it selects: the address of a member, which may be one that is known of
 * its host name.
 *
 *     NGX_OK        it has an address,
 *     NGX_AGAIN     its host name is being resolved for the first time,
 *     NGX_DECLINED  its host name has no address: *reason says why.
 */
ngx_int_t ngx_etcd_patroni_resolve(ngx_etcd_patroni_t *patroni,
    ngx_str_t *key, ngx_etcd_member_t *member, ngx_str_t *reason);


#endif /* _NGX_ETCD_PATRONI_H_INCLUDED_ */
