
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Leaders: the source of services that use only some of the keys that there
 * are.  After every whole revision it selects, from what the mirror has, the
 * members that are registered.  Nothing is selected before a list is complete,
 * and nothing is remembered of former selections: there is no leader until
 * there is one.
 */


#ifndef _NGX_ETCD_LEADER_H_INCLUDED_
#define _NGX_ETCD_LEADER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_source.h>
#include <ngx_etcd_ssl.h>


typedef struct ngx_etcd_leader_s   ngx_etcd_leader_t;
typedef struct ngx_etcd_patroni_s  ngx_etcd_patroni_t;


typedef enum {
    NGX_ETCD_LEADER_ELECTION = 0,    /* the lowest create_revision */
    NGX_ETCD_LEADER_KEY,             /* what one key says, or who it names */
    NGX_ETCD_LEADER_PATRONI,
    NGX_ETCD_LEADER_VITESS           /* what the key with the lowest
                                        mod_revision says, or who it names */
} ngx_etcd_leader_format_e;


typedef enum {
    NGX_ETCD_ROLE_LEADER = 0,
    NGX_ETCD_ROLE_REPLICA,           /* running, and not the leader */
    NGX_ETCD_ROLE_ANY,               /* running */
    NGX_ETCD_ROLE_SYNC,              /* a replica that is a synchronous
                                        standby */
    NGX_ETCD_ROLE_QUORUM,            /* the same, with quorum commit */
    NGX_ETCD_ROLE_ASYNC,             /* a replica that is neither */
    NGX_ETCD_ROLE_STANDBY_LEADER     /* the leader of a standby cluster */
} ngx_etcd_role_e;

/* there is one at most */
#define ngx_etcd_role_sole(role)                                              \
    ((role) == NGX_ETCD_ROLE_LEADER || (role) == NGX_ETCD_ROLE_STANDBY_LEADER)


#define NGX_ETCD_LEADER_ANY_LAG  ((uint64_t) -1)


/* made by configuration, then constant */

typedef struct {
    ngx_etcd_leader_format_e   format;
    ngx_etcd_role_e            role;
    ngx_str_t                  watched;      /* the prefix of all of it */
    ngx_str_t                  key;          /* of the leader; election: none;
                                                Vitess: prefix of candidates */
    ngx_str_t                  members;      /* prefix of the keys that it may
                                                name; empty: it is the value */
    ngx_str_t                  failover;     /* key of an order to hand over;
                                                Patroni's alone */
    ngx_str_t                  sync;         /* Patroni's other keys; empty: */
    ngx_str_t                  config;       /* not needed */
    ngx_str_t                  failsafe;
    uint64_t                   max_lag;      /* bytes, or ANY_LAG */
    ngx_uint_t                 confirm;      /* by the member's own API */
    ngx_etcd_ssl_t            *api_ssl;      /* of that API; NULL: no https */
    ngx_uint_t                 proxy;        /* the address is of proxy_url */
    uint32_t                   kind;         /* of the set: hash of the above,
                                                not 0 */
} ngx_etcd_leader_conf_t;


struct ngx_etcd_leader_s {
    ngx_etcd_service_t        *service;
    ngx_etcd_leader_conf_t    *conf;
    ngx_pool_t                *pool;         /* while it selects */
    ngx_etcd_patroni_t        *patroni;      /* NULL: another format */
    unsigned                   changed:1;    /* since it selected */
};


extern const ngx_etcd_source_t  ngx_etcd_leader_source;


/* selects anew, since something else than keys has changed, and publishes it */
void ngx_etcd_leader_again(ngx_etcd_leader_t *leader);


/* NULL if there is no such key */
ngx_etcd_mirror_entry_t *ngx_etcd_leader_find(ngx_etcd_leader_t *leader,
    ngx_str_t *key);


/*
 * For formats, while it selects.
 */

/*
 * Who the leader's key names.  NULL: nobody, which is reported, or there is no
 * key.
 */
ngx_etcd_mirror_entry_t *ngx_etcd_leader_named(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *term);

/*
 * A candidate is used, by what its value says, in the term that another key,
 * or its own, began.  Drained: it keeps who uses it already.
 */
void ngx_etcd_leader_use(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *candidate, ngx_etcd_mirror_entry_t *term,
    ngx_uint_t drain);

/* a candidate cannot be used: what is wrong with its value, or with itself */
void ngx_etcd_leader_refuse(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *candidate, ngx_str_t *value, char *what);
void ngx_etcd_leader_report(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *candidate, ngx_str_t *reason);


#endif /* _NGX_ETCD_LEADER_H_INCLUDED_ */
