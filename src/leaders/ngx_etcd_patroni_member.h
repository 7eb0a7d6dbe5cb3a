
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The members of Patroni: the role, the state and the address that a value
 * describes, also of a host name, and their REST API.
 */


#ifndef _NGX_ETCD_PATRONI_MEMBER_H_INCLUDED_
#define _NGX_ETCD_PATRONI_MEMBER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_leader.h>
#include <ngx_etcd_member_host.h>
#include <ngx_etcd_probe.h>


typedef struct {
    ngx_etcd_leader_t         *leader;
    ngx_etcd_member_host_t    *list;          /* in use by the selection */
} ngx_etcd_patroni_hosts_t;


typedef enum {
    NGX_ETCD_PATRONI_ROLE_NONE = 0,      /* none is named */
    NGX_ETCD_PATRONI_ROLE_PRIMARY,       /* "primary", "master" */
    NGX_ETCD_PATRONI_ROLE_STANDBY_LEADER,
    NGX_ETCD_PATRONI_ROLE_REPLICA,
    NGX_ETCD_PATRONI_ROLE_DOWN,          /* "demoted", "uninitialized":
                                            PostgreSQL was stopped, or has no
                                            data */
    NGX_ETCD_PATRONI_ROLE_OTHER          /* "promoted", for example */
} ngx_etcd_patroni_role_e;


/* The key of a member says this of the member. */

typedef struct {
    ngx_etcd_patroni_role_e    role;
    uint64_t                   location;      /* in the write-ahead log */
    ngx_etcd_tag_t            *untagged;      /* the tag that excludes it, or
                                                 NULL */
    unsigned                   running:1;
    unsigned                   located:1;
    unsigned                   replicates:1;  /* in the wanted state */
    unsigned                   noloadbalance:1;
} ngx_etcd_patroni_says_t;


/*
 * The following functions are called while the leader is selected.
 */

/*
 * Reads a value as the decoder does: a member whose role and state cannot be
 * read is not used.  NGX_ERROR: *reason says why.
 */
ngx_int_t ngx_etcd_patroni_member_read(ngx_etcd_leader_t *leader,
    ngx_etcd_patroni_says_t *says, ngx_etcd_mirror_entry_t *candidate,
    ngx_str_t *reason);

/*
 * Registers a member as ngx_etcd_leader_use() does, once its host name has an
 * address.
 */
void ngx_etcd_patroni_member_use(ngx_etcd_patroni_hosts_t *hosts,
    ngx_etcd_mirror_entry_t *candidate, ngx_etcd_mirror_entry_t *term,
    ngx_uint_t drain);


/*
 * The REST API of Patroni's members: its address, and the role in its answers.
 */

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

/* Returns the role that the body of an answer names. */
ngx_etcd_patroni_role_e ngx_etcd_patroni_api_role(ngx_str_t *body);

/*
 * Reads the body of an answer of 200: returns 1 unless the body names another
 * role.  Patroni answers 200 as soon as the member has the leader's key; the
 * role tells whether PostgreSQL is promoted.
 */
ngx_uint_t ngx_etcd_patroni_api_primary(ngx_str_t *body);
ngx_uint_t ngx_etcd_patroni_api_standby_leader(ngx_str_t *body);


#endif /* _NGX_ETCD_PATRONI_MEMBER_H_INCLUDED_ */
