
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Leaders: the sources of services that use only some of their keys.  After
 * every whole revision the source selects the members that are registered from
 * the entries of the mirror.  It selects nothing before a list is complete,
 * and remembers no former selection: a leader that etcd does not have is not
 * used.
 */


#ifndef _NGX_ETCD_LEADER_H_INCLUDED_
#define _NGX_ETCD_LEADER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_decode.h>
#include <ngx_etcd_leader_keys.h>
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
    void                             *ctx;       /* of the source */
    ngx_pool_t                       *pool;      /* during a selection */
    unsigned                          changed:1; /* since the last selection */
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
    .join = ngx_etcd_leader_keys_join,                                        \
    .wake = ngx_etcd_leader_wake,                                             \
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
ngx_uint_t ngx_etcd_leader_wants(ngx_etcd_service_conf_t *service,
    ngx_str_t *key);
void ngx_etcd_leader_changed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry);
void ngx_etcd_leader_complete(ngx_etcd_service_t *service);

/* Returns 1 if the key is below the prefix. */

ngx_uint_t ngx_etcd_leader_below(ngx_str_t *key, ngx_str_t *prefix);

/* Candidate handler: the key of the leader that the configuration names. */
ngx_uint_t ngx_etcd_leader_own_key(ngx_etcd_leader_conf_t *conf,
    ngx_str_t *key);


/* Selects again after something other than keys has changed, and publishes. */
void ngx_etcd_leader_again(ngx_etcd_leader_t *leader);
void ngx_etcd_leader_wake(ngx_etcd_service_t *service);


/* Returns NULL if there is no such key. */
ngx_etcd_mirror_entry_t *ngx_etcd_leader_find(ngx_etcd_leader_t *leader,
    ngx_str_t *key);


/* The following functions are for formats, within select(). */

/*
 * Returns the member that the leader's key names.  NULL: there is no leader's
 * key, or no such member, which is reported.
 */
ngx_etcd_mirror_entry_t *ngx_etcd_leader_named(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *term);

/*
 * Registers the members in the value of a candidate, for the term that a key
 * (its own or the leader's) began.  "drain": only sessions that use the member
 * already stay.
 */
void ngx_etcd_leader_use(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *candidate, ngx_etcd_mirror_entry_t *term,
    ngx_uint_t drain);

/*
 * Reports that a candidate cannot be used: a fault of the text "value", if
 * any, or another reason.
 */
void ngx_etcd_leader_refuse(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *candidate, ngx_str_t *value, char *what);
void ngx_etcd_leader_report(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *candidate, ngx_str_t *reason);

/* Counts a candidate that is not used though it is valid; the note says why. */
void ngx_etcd_leader_unused(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *candidate, ngx_etcd_unused_e unused,
    ngx_str_t *note);


#endif /* _NGX_ETCD_LEADER_H_INCLUDED_ */
