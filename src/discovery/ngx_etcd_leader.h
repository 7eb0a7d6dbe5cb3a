
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
#include <ngx_etcd_format.h>
#include <ngx_etcd_decode.h>
#include <ngx_etcd_service.h>


typedef struct ngx_etcd_leader_s  ngx_etcd_leader_t;


/* The source of one format. */

typedef struct {
    ngx_etcd_source_t          source;       /* first */

    /* leader->ctx, or NULL; memory is of the pool.  NGX_ERROR: no memory */
    ngx_int_t                (*create)(ngx_etcd_leader_t *leader,
                                       ngx_pool_t *pool);
    void                     (*destroy)(ngx_etcd_leader_t *leader);

    /* Returns 1 if the key may be the leader's. */
    ngx_uint_t               (*candidate)(ngx_etcd_leader_conf_t *conf,
                                          ngx_str_t *key);
    ngx_uint_t                 modified;     /* candidates are ordered by
                                                mod_revision */

    /* Registers the selected members. */
    void                     (*select)(ngx_etcd_leader_t *leader);
} ngx_etcd_leader_source_t;


struct ngx_etcd_leader_s {
    ngx_etcd_service_t               *service;
    ngx_etcd_leader_conf_t           *conf;
    const ngx_etcd_leader_source_t   *source;
    void                             *ctx;       /* the format's */
    ngx_pool_t                       *pool;      /* while it selects */
    unsigned                          changed:1; /* since it selected */
};


extern const ngx_etcd_leader_source_t  ngx_etcd_leader_election;
extern const ngx_etcd_leader_source_t  ngx_etcd_leader_key;
extern const ngx_etcd_leader_source_t  ngx_etcd_leader_vitess;


/*
 * The "source" of each format.  One byte more than a valid value is kept, so
 * that a longer value can be refused.
 */

#define NGX_ETCD_LEADER_SOURCE {                                              \
    .kind = "leader",                                                         \
    .keep = NGX_ETCD_DECODE_MAX_VALUE + 1,                                    \
    .strict = 1,                                                              \
    .verified = 1,                                                            \
    .create = ngx_etcd_leader_create,                                         \
    .destroy = ngx_etcd_leader_destroy,                                       \
    .wants = ngx_etcd_leader_wants,                                           \
    .changed = ngx_etcd_leader_changed,                                       \
    .removed = ngx_etcd_leader_changed,                                       \
    .complete = ngx_etcd_leader_complete,                                     \
}

ngx_int_t ngx_etcd_leader_create(ngx_etcd_service_t *service,
    ngx_pool_t *pool);
void ngx_etcd_leader_destroy(ngx_etcd_service_t *service);
ngx_uint_t ngx_etcd_leader_wants(ngx_etcd_mirror_t *mirror, ngx_str_t *key);
void ngx_etcd_leader_changed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry);
void ngx_etcd_leader_complete(ngx_etcd_service_t *service);

/* Candidate handler: the key of the leader that the configuration names. */
ngx_uint_t ngx_etcd_leader_own_key(ngx_etcd_leader_conf_t *conf,
    ngx_str_t *key);


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
