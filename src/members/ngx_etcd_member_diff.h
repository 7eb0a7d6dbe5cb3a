
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The difference between the members that keys register and the members of a
 * set.  Compares what a key registers with the index of the set, and adds the
 * operations that make the set equal to a batch.  The discovery's, and the
 * state file's.
 */


#ifndef _NGX_ETCD_MEMBER_DIFF_H_INCLUDED_
#define _NGX_ETCD_MEMBER_DIFF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <jansson.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_guard.h>
#include <ngx_etcd_index.h>
#include <ngx_etcd_key_report.h>


typedef struct ngx_etcd_member_diff_s  ngx_etcd_member_diff_t;


/* The operations that make the set equal to what is known. */

typedef struct {
    ngx_array_t                  ops;           /* of ngx_etcd_op_t; without a
                                                   pool, elts may be NULL */
    ngx_uint_t                   done;          /* of ops, published */
    ngx_uint_t                   changed;       /* by the published ones */
    uint64_t                     revision;      /* 0: not known */
} ngx_etcd_member_diff_batch_t;


/* Members by host name, see ngx_etcd_member_resolve_create(). */

typedef struct {
    ngx_etcd_resolver_t         *resolver;      /* NULL: no host names */

    /* registers a member by host name */
    ngx_int_t                  (*member)(ngx_etcd_member_diff_t *diff,
                                         ngx_etcd_key_t *key,
                                         Etcd__KeyValue *kv,
                                         ngx_etcd_member_t *member);

    ngx_etcd_key_t              *adopt;         /* the next one whose host names
                                                   are adopted; NULL: the first
                                                   one */

    /*
     * Set by the owner: called after addresses of a host name have changed the
     * batch.
     */
    void                       (*resolved)(void *data);
    void                        *data;
} ngx_etcd_member_diff_hosts_t;


struct ngx_etcd_member_diff_s {
    /* set by the caller, the rest zeroed */

    ngx_str_t                   *name;          /* of the upstream */
    ngx_str_t                   *prefix;
    ngx_etcd_member_conf_t      *member;
    ngx_array_t                 *statics;       /* of ngx_etcd_member_t */
    ngx_etcd_zone_t             *zone;
    ngx_etcd_member_set_t       *set;
    ngx_etcd_mirror_t           *mirror;        /* of the index; NULL: the
                                                   index has own keys */
    ngx_log_t                   *log;
    ngx_etcd_mirror_t           *mirrored;      /* has the keys that drain
                                                   members; NULL: there are
                                                   none */
    ngx_etcd_guard_t            *guard;         /* NULL: none */
    unsigned                     keep:1;        /* on_empty=keep */
    unsigned                     strict:1;      /* an invalid key has no
                                                   members */
    unsigned                     sole:1;        /* a host has one address */
    unsigned                     unowned:1;     /* the master's, in a set that
                                                   no owner knows */

    ngx_etcd_member_diff_hosts_t
                                 hosts;         /* "resolved" may be set */
    ngx_etcd_index_t             index;
    ngx_etcd_key_report_t        report;
    ngx_etcd_member_diff_batch_t
                                 batch;

    unsigned                     mark:24;       /* of the last selection */
    ngx_uint_t                   skipped;       /* members without room */
    ngx_uint_t                   drains;        /* keys that drain members,
                                                   counted by the owner */
    unsigned                     indexed:1;
    unsigned                     opening:1;     /* only a part is indexed */
    unsigned                     kept:1;        /* was logged */
    unsigned                     broken:1;      /* index and set may differ */
};


/*
 * Makes the index from the set as it is, and an empty batch.  "distrust": every
 * value is to be read again.
 *
 *     NGX_OK     done,
 *     NGX_AGAIN  "until", a time of ngx_etcd_time_budget_now(), was reached (0:
 *                no limit): call again, with no other call in between,
 *     NGX_ERROR  no memory, the mutex was held, or another process owns the
 *                zone; there is no index.
 */
ngx_int_t ngx_etcd_member_diff_open(ngx_etcd_member_diff_t *diff,
    ngx_uint_t distrust, uint64_t until);

/* Frees the index, or what there is of it. */
void ngx_etcd_member_diff_close(ngx_etcd_member_diff_t *diff);

/* Frees all. */
void ngx_etcd_member_diff_destroy(ngx_etcd_member_diff_t *diff);

/* An empty batch. */
void ngx_etcd_member_diff_batch(ngx_etcd_member_diff_t *diff);


/*
 * Each of the following functions adds to the batch.  Each sets diff->broken
 * if index and set may differ afterwards: no memory, or the mutex was held.
 */

/*
 * Decodes the object, or without one (NULL) the value of a key, and registers
 * its members; kv has the revisions and the lease.
 */
void ngx_etcd_member_diff_put(ngx_etcd_member_diff_t *diff, ngx_etcd_key_t *key,
    ngx_str_t *value, json_t *object, Etcd__KeyValue *kv);

/*
 * Finds or adds one of the index's own keys, and marks it as selected and not
 * gone.  NULL: no memory.
 */
ngx_etcd_key_t *ngx_etcd_member_diff_key(ngx_etcd_member_diff_t *diff,
    ngx_str_t *name);

/*
 * Begin and end a selection of own keys: a key that was neither returned by
 * ngx_etcd_member_diff_key() nor used in between is gone.  NGX_AGAIN: at that
 * ngx_etcd_time_budget_now() (0: no limit) some of these are left.
 */
void ngx_etcd_member_diff_select(ngx_etcd_member_diff_t *diff);
ngx_int_t ngx_etcd_member_diff_sweep(ngx_etcd_member_diff_t *diff,
    uint64_t until);

/*
 * Registers the members of a selected key, with what kv has besides, and
 * reports once the reason why the key has none, or, unless it is empty, what
 * was skipped.  Other members of the key leave.
 */
void ngx_etcd_member_diff_use(ngx_etcd_member_diff_t *diff, Etcd__KeyValue *kv,
    ngx_array_t *members, ngx_etcd_reason_t *reason);

/*
 * Registers the members of a key in place of its former members; kv has the
 * revisions and the lease.  NGX_OK: the batch is complete.
 */
ngx_int_t ngx_etcd_member_diff_members(ngx_etcd_member_diff_t *diff,
    ngx_etcd_key_t *key, Etcd__KeyValue *kv, ngx_array_t *members);

/*
 * Registers one member of a key, or one static server (no key, no kv), whose
 * address is known.  NGX_DECLINED: the zone is full; NGX_ERROR: diff->broken
 * is set.
 */
ngx_int_t ngx_etcd_member_diff_member(ngx_etcd_member_diff_t *diff,
    ngx_etcd_key_t *key, Etcd__KeyValue *kv, ngx_etcd_member_t *member);

/*
 * Registers a member as ngx_etcd_member_diff_member() does, for a caller that
 * knows the key's registration of that address.  NULL: there is none; then the
 * new one is the first of key->regs.
 */
ngx_int_t ngx_etcd_member_diff_register(ngx_etcd_member_diff_t *diff,
    ngx_etcd_key_t *key, ngx_etcd_reg_t *reg, Etcd__KeyValue *kv,
    ngx_etcd_member_t *member);

/*
 * Publishes other bytes for a registration of a key, at the same place: which
 * one of an address is the newest does not change, and one that is held or kept
 * stays so.  "revision": of the change.
 */
void ngx_etcd_member_diff_replace(ngx_etcd_member_diff_t *diff,
    ngx_etcd_reg_t *reg, u_char *payload, size_t len, uint64_t revision);

/* ngx_etcd_key_report() */
void ngx_etcd_member_diff_reason(ngx_etcd_member_diff_t *diff,
    ngx_etcd_key_t *key, ngx_etcd_reason_t *reason, int64_t revision,
    ngx_uint_t partly);

/*
 * Removes the members of keys that are gone, unless the guard holds them, or
 * on_empty=keep and no other members are left.  NGX_AGAIN: at that
 * ngx_etcd_time_budget_now() some keys are left; the batch is not complete.
 */
ngx_int_t ngx_etcd_member_diff_gone(ngx_etcd_member_diff_t *diff,
    uint64_t until);

/* Registers the static servers of this configuration. */
void ngx_etcd_member_diff_statics(ngx_etcd_member_diff_t *diff);


#endif /* _NGX_ETCD_MEMBER_DIFF_H_INCLUDED_ */
