
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Which of a service's keys are used, where not all are: stands between the
 * watch and the registrations of a service.  It keeps what etcd has below the
 * prefix in the agent's own memory, and says after every whole revision what
 * is selected.  Nothing is selected before a list is complete, and nothing is
 * remembered of former selections: there is no leader until there is one.
 */


#ifndef _NGX_ETCD_LEADER_H_INCLUDED_
#define _NGX_ETCD_LEADER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_proto.pb-c.h>
#include <ngx_etcd_ssl.h>


typedef struct ngx_etcd_service_s    ngx_etcd_service_t;
typedef struct ngx_etcd_leader_s     ngx_etcd_leader_t;
typedef struct ngx_etcd_leader_key_s  ngx_etcd_leader_key_t;
typedef struct ngx_etcd_patroni_s    ngx_etcd_patroni_t;


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


/* one key */

struct ngx_etcd_leader_key_s {
    ngx_str_node_t             sn;           /* first: in a tree, by the key */
    ngx_queue_t                queue;
    uint64_t                   create_revision;
    uint64_t                   mod_revision;
    ngx_str_t                  value;        /* own memory */
    ngx_uint_t                 mark;         /* of the last list */
    ngx_uint_t                 audited;      /* of the last audit */
};


struct ngx_etcd_leader_s {
    ngx_etcd_service_t        *service;
    ngx_etcd_leader_conf_t    *conf;
    ngx_rbtree_t               keys;
    ngx_rbtree_node_t          sentinel;
    ngx_queue_t                candidates;
    ngx_uint_t                 mark;
    ngx_pool_t                *pool;         /* while it selects */
    ngx_etcd_patroni_t        *patroni;      /* NULL: another format */
    unsigned                   complete:1;   /* not within a list */
    unsigned                   changed:1;    /* since it selected */
};


/* of an agent's service; memory is of the pool.  NULL: no memory */
ngx_etcd_leader_t *ngx_etcd_leader_create(ngx_etcd_service_t *service,
    ngx_pool_t *pool);
void ngx_etcd_leader_destroy(ngx_etcd_leader_t *leader);

/* what the watch reports; without memory the service is broken afterwards */

void ngx_etcd_leader_list(ngx_etcd_leader_t *leader);
void ngx_etcd_leader_put(ngx_etcd_leader_t *leader, Etcd__KeyValue *kv);
void ngx_etcd_leader_delete(ngx_etcd_leader_t *leader, Etcd__KeyValue *kv);
void ngx_etcd_leader_listed(ngx_etcd_leader_t *leader);

/*
 * Selects anew, if there is a reason to: into the service's batch, which is
 * published with the next events.
 */
void ngx_etcd_leader_select(ngx_etcd_leader_t *leader);

/* the same, when something else than keys has changed, and publishes it */
void ngx_etcd_leader_again(ngx_etcd_leader_t *leader);


/* 1 if the key may have a part in it */
ngx_uint_t ngx_etcd_leader_wants(ngx_etcd_leader_t *leader, ngx_str_t *key);

/* NULL if there is no such key */
ngx_etcd_leader_key_t *ngx_etcd_leader_find(ngx_etcd_leader_t *leader,
    ngx_str_t *key);


/*
 * For formats, while it selects.
 */

/*
 * Who the leader's key names.  NULL: nobody, which is reported, or there is no
 * key.
 */
ngx_etcd_leader_key_t *ngx_etcd_leader_named(ngx_etcd_leader_t *leader,
    ngx_etcd_leader_key_t *term);

/*
 * A candidate is used, by what its value says, in the term that another key,
 * or its own, began.  Drained: it keeps who uses it already.
 */
void ngx_etcd_leader_use(ngx_etcd_leader_t *leader,
    ngx_etcd_leader_key_t *candidate, ngx_etcd_leader_key_t *term,
    ngx_uint_t drain);

/* a candidate cannot be used: what is wrong with its value, or with itself */
void ngx_etcd_leader_refuse(ngx_etcd_leader_t *leader,
    ngx_etcd_leader_key_t *candidate, ngx_str_t *value, char *what);
void ngx_etcd_leader_report(ngx_etcd_leader_t *leader,
    ngx_etcd_leader_key_t *candidate, ngx_str_t *reason);


#endif /* _NGX_ETCD_LEADER_H_INCLUDED_ */
