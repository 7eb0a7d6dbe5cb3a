
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The REST API of Patroni's members: its address, and the role in its answers.
 */


#ifndef _NGX_ETCD_PATRONI_API_H_INCLUDED_
#define _NGX_ETCD_PATRONI_API_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_patroni_member.h>
#include <ngx_etcd_probe.h>


/* paths that Patroni answers with 200 if the member leads such a cluster */

#define NGX_ETCD_PATRONI_PRIMARY         "/primary"
#define NGX_ETCD_PATRONI_STANDBY_LEADER  "/standby-leader"


/*
 * While the leader is selected: "api_url" in the value of a key.  NGX_ERROR:
 * there is none, which is reported.
 */
ngx_int_t ngx_etcd_patroni_api_read(ngx_etcd_patroni_hosts_t *hosts,
    ngx_etcd_mirror_entry_t *key, ngx_str_t *url);

/*
 * While the leader is selected: the target of a URL that the value of a key
 * has.  NGX_AGAIN: the host name is being resolved; NGX_ERROR: there is none,
 * which is reported if "report" is set.
 */
ngx_int_t ngx_etcd_patroni_api_target(ngx_etcd_patroni_hosts_t *hosts,
    ngx_etcd_mirror_entry_t *key, ngx_str_t *url, ngx_uint_t report,
    ngx_etcd_probe_target_t *target);

/*
 * Reads the body of an answer of 200: returns 1 unless the body names another
 * role.  Patroni answers 200 as soon as the member has the leader's key; the
 * role tells whether PostgreSQL is promoted.
 */
ngx_uint_t ngx_etcd_patroni_api_primary(ngx_str_t *body);
ngx_uint_t ngx_etcd_patroni_api_standby_leader(ngx_str_t *body);

/* Returns 1 only if the body names the role of the primary. */
ngx_uint_t ngx_etcd_patroni_api_says_primary(ngx_str_t *body);


#endif /* _NGX_ETCD_PATRONI_API_H_INCLUDED_ */
