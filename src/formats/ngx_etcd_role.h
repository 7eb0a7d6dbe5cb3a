
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Leaders as the configuration describes them: who writes the keys, which
 * keys are read, and which role a member must have.
 */


#ifndef _NGX_ETCD_ROLE_H_INCLUDED_
#define _NGX_ETCD_ROLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_ssl.h>


typedef enum {
    NGX_ETCD_LEADER_ELECTION = 0,    /* the lowest create_revision */
    NGX_ETCD_LEADER_KEY,             /* the value of one key, or the
                                        member that it names */
    NGX_ETCD_LEADER_PATRONI,
    NGX_ETCD_LEADER_VITESS           /* the value of the key with the lowest
                                        mod_revision, or the member that it
                                        names */
} ngx_etcd_leader_format_e;


typedef enum {
    NGX_ETCD_ROLE_LEADER = 0,
    NGX_ETCD_ROLE_REPLICA,           /* running, and a replica by its own
                                        role */
    NGX_ETCD_ROLE_ANY,               /* the leader, and replicas */
    NGX_ETCD_ROLE_SYNC,              /* a replica that is a synchronous
                                        standby */
    NGX_ETCD_ROLE_QUORUM,            /* a synchronous standby, quorum commit */
    NGX_ETCD_ROLE_ASYNC,             /* a replica that is neither */
    NGX_ETCD_ROLE_STANDBY_LEADER     /* the leader of a standby cluster */
} ngx_etcd_role_e;

/* Returns 1 if at most one member has the role. */
#define ngx_etcd_role_sole(role)                                              \
    ((role) == NGX_ETCD_ROLE_LEADER || (role) == NGX_ETCD_ROLE_STANDBY_LEADER)


#define NGX_ETCD_LEADER_ANY_LAG  ((uint64_t) -1)


/*
 * Made by configuration, constant afterwards.  A key that is not needed has no
 * data; one of a prefix with variables is relative, and may be empty
 * (ngx_etcd_leader_keys.h).
 */

typedef struct {
    ngx_etcd_leader_format_e   format;
    ngx_uint_t                 role;         /* ngx_etcd_role_e */
    ngx_str_t                  watched;      /* prefix of all keys below */
    ngx_str_t                  key;          /* of the leader; election,
                                                Vitess: prefix of candidates */
    ngx_str_t                  members;      /* prefix of the members' keys,
                                                one of which the leader's value
                                                names; none: the value is the
                                                member */
    ngx_str_t                  name;         /* JSON pointer to that name in
                                                the leader's value; empty: the
                                                value is the name */
    ngx_str_t                  failover;     /* key of an order to hand over;
                                                Patroni's alone */
    ngx_str_t                  sync;         /* Patroni's other keys */
    ngx_str_t                  config;
    ngx_str_t                  failsafe;
    uint64_t                   max_lag;      /* bytes, or ANY_LAG */
    ngx_str_t                  replication_state;
                                             /* of a replica; empty: any */
    ngx_uint_t                 confirm;      /* by the member's own API */
    ngx_str_t                  api_trusted;  /* files of api_ssl */
    ngx_str_t                  api_certificate;
    ngx_str_t                  api_key;
    ngx_uint_t                 api_verify;   /* UNSET: not said */
    ngx_etcd_ssl_t            *api_ssl;      /* of that API; NULL: no https */
    ngx_uint_t                 proxy;        /* the address is of proxy_url */
} ngx_etcd_leader_conf_t;


#endif /* _NGX_ETCD_ROLE_H_INCLUDED_ */
