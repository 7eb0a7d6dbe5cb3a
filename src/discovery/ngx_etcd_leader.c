
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_escape.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_leader.h>
#include <ngx_etcd_patroni.h>
#include <ngx_etcd_registration.h>


/* bytes of a text that a reason shows */

#define NGX_ETCD_LEADER_SHOWN   64
#define NGX_ETCD_LEADER_REASON  512


static ngx_uint_t ngx_etcd_leader_is(ngx_str_t *key, ngx_str_t *other);
static ngx_uint_t ngx_etcd_leader_below(ngx_str_t *key, ngx_str_t *prefix);
static ngx_etcd_leader_key_t *ngx_etcd_candidate_create(
    ngx_etcd_leader_t *leader, ngx_str_t *key);
static ngx_int_t ngx_etcd_candidate_value(ngx_etcd_leader_t *leader,
    ngx_etcd_leader_key_t *candidate, ProtobufCBinaryData *value);
static void ngx_etcd_candidate_destroy(ngx_etcd_leader_t *leader,
    ngx_etcd_leader_key_t *candidate);
static void ngx_etcd_leader_election(ngx_etcd_leader_t *leader);
static ngx_uint_t ngx_etcd_leader_candidate(ngx_etcd_leader_t *leader,
    ngx_etcd_leader_key_t *key);
static uint64_t ngx_etcd_leader_term(ngx_etcd_leader_t *leader,
    ngx_etcd_leader_key_t *key);
static void ngx_etcd_leader_key(ngx_etcd_leader_t *leader,
    ngx_etcd_leader_key_t *key);
static void ngx_etcd_leader_kv(ngx_etcd_leader_t *leader, Etcd__KeyValue *kv,
    ngx_etcd_leader_key_t *candidate, ngx_etcd_leader_key_t *term);
static ngx_str_t *ngx_etcd_leader_reason(ngx_etcd_leader_t *leader,
    ngx_str_t *value, char *what);


ngx_etcd_leader_t *
ngx_etcd_leader_create(ngx_etcd_service_t *service, ngx_pool_t *pool)
{
    ngx_etcd_leader_t  *leader;

    leader = ngx_pcalloc(pool, sizeof(ngx_etcd_leader_t));
    if (leader == NULL) {
        return NULL;
    }

    leader->service = service;
    leader->conf = service->conf->leader;

    ngx_rbtree_init(&leader->keys, &leader->sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_queue_init(&leader->candidates);

    if (leader->conf->format == NGX_ETCD_LEADER_PATRONI) {
        leader->patroni = ngx_etcd_patroni_create(leader, pool);
        if (leader->patroni == NULL) {
            return NULL;
        }
    }

    return leader;
}


void
ngx_etcd_leader_destroy(ngx_etcd_leader_t *leader)
{
    ngx_queue_t  *q;

    if (leader->patroni != NULL) {
        ngx_etcd_patroni_destroy(leader->patroni);
    }

    while (!ngx_queue_empty(&leader->candidates)) {
        q = ngx_queue_head(&leader->candidates);
        ngx_etcd_candidate_destroy(leader,
                            ngx_queue_data(q, ngx_etcd_leader_key_t, queue));
    }
}


void
ngx_etcd_leader_list(ngx_etcd_leader_t *leader)
{
    leader->mark++;
    leader->complete = 0;
}


void
ngx_etcd_leader_put(ngx_etcd_leader_t *leader, Etcd__KeyValue *kv)
{
    ngx_str_t               key;
    ngx_etcd_leader_key_t  *candidate;

    key.data = kv->key.data;
    key.len = kv->key.len;

    if (!ngx_etcd_leader_wants(leader, &key)) {
        return;
    }

    candidate = ngx_etcd_leader_find(leader, &key);

    if (candidate == NULL) {
        candidate = ngx_etcd_candidate_create(leader, &key);
    }

    if (candidate == NULL
        || ngx_etcd_candidate_value(leader, candidate, &kv->value) != NGX_OK)
    {
        leader->service->broken = 1;
        return;
    }

    candidate->create_revision = kv->create_revision;
    candidate->mod_revision = kv->mod_revision;
    candidate->mark = leader->mark;

    leader->changed = 1;
}


ngx_uint_t
ngx_etcd_leader_wants(ngx_etcd_leader_t *leader, ngx_str_t *key)
{
    ngx_etcd_leader_conf_t  *conf;

    conf = leader->conf;

    if (conf->format == NGX_ETCD_LEADER_ELECTION) {
        return 1;
    }

    if (ngx_etcd_leader_is(key, &conf->key)
        || ngx_etcd_leader_is(key, &conf->failover)
        || ngx_etcd_leader_is(key, &conf->sync)
        || ngx_etcd_leader_is(key, &conf->config)
        || ngx_etcd_leader_is(key, &conf->failsafe)
        || (conf->format == NGX_ETCD_LEADER_VITESS
            && ngx_etcd_leader_below(key, &conf->key)))
    {
        return 1;
    }

    return conf->members.len != 0
           && ngx_etcd_leader_below(key, &conf->members);
}


static ngx_uint_t
ngx_etcd_leader_is(ngx_str_t *key, ngx_str_t *other)
{
    return key->len == other->len
           && ngx_memcmp(key->data, other->data, key->len) == 0;
}


static ngx_uint_t
ngx_etcd_leader_below(ngx_str_t *key, ngx_str_t *prefix)
{
    return key->len > prefix->len
           && ngx_memcmp(key->data, prefix->data, prefix->len) == 0;
}


void
ngx_etcd_leader_delete(ngx_etcd_leader_t *leader, Etcd__KeyValue *kv)
{
    ngx_str_t               key;
    ngx_etcd_leader_key_t  *candidate;

    key.data = kv->key.data;
    key.len = kv->key.len;

    if (!ngx_etcd_leader_wants(leader, &key)) {
        return;
    }

    ngx_etcd_audit_deleted(&leader->service->audit, &key);

    candidate = ngx_etcd_leader_find(leader, &key);

    if (candidate != NULL) {
        ngx_etcd_candidate_destroy(leader, candidate);
        leader->changed = 1;
    }
}


void
ngx_etcd_leader_listed(ngx_etcd_leader_t *leader)
{
    ngx_queue_t            *q, *next;
    ngx_etcd_leader_key_t  *candidate;

    for (q = ngx_queue_head(&leader->candidates);
         q != ngx_queue_sentinel(&leader->candidates);
         q = next)
    {
        next = ngx_queue_next(q);
        candidate = ngx_queue_data(q, ngx_etcd_leader_key_t, queue);

        if (candidate->mark != leader->mark) {
            ngx_etcd_candidate_destroy(leader, candidate);
        }
    }

    leader->complete = 1;
    leader->changed = 1;

    ngx_etcd_leader_select(leader);
}


static ngx_etcd_leader_key_t *
ngx_etcd_candidate_create(ngx_etcd_leader_t *leader, ngx_str_t *key)
{
    u_char                 *p;
    ngx_etcd_leader_key_t  *candidate;

    p = ngx_calloc(sizeof(ngx_etcd_leader_key_t) + key->len,
                   leader->service->log);
    if (p == NULL) {
        return NULL;
    }

    candidate = (ngx_etcd_leader_key_t *) p;

    candidate->sn.node.key = ngx_murmur_hash2(key->data, key->len);
    candidate->sn.str.len = key->len;
    candidate->sn.str.data = p + sizeof(ngx_etcd_leader_key_t);
    ngx_memcpy(candidate->sn.str.data, key->data, key->len);

    ngx_rbtree_insert(&leader->keys, &candidate->sn.node);
    ngx_queue_insert_tail(&leader->candidates, &candidate->queue);

    return candidate;
}


/* of a value that is too long enough is kept for it to be refused */

static ngx_int_t
ngx_etcd_candidate_value(ngx_etcd_leader_t *leader,
    ngx_etcd_leader_key_t *candidate, ProtobufCBinaryData *value)
{
    size_t   len;
    u_char  *p;

    len = ngx_min(value->len, NGX_ETCD_MEMBER_MAX_VALUE + 1);

    p = ngx_alloc(len + 1, leader->service->log);
    if (p == NULL) {
        return NGX_ERROR;
    }

    if (candidate->value.data != NULL) {
        ngx_free(candidate->value.data);
    }

    if (len != 0) {
        ngx_memcpy(p, value->data, len);
    }

    candidate->value.data = p;
    candidate->value.len = len;

    return NGX_OK;
}


static void
ngx_etcd_candidate_destroy(ngx_etcd_leader_t *leader,
    ngx_etcd_leader_key_t *candidate)
{
    ngx_queue_remove(&candidate->queue);
    ngx_rbtree_delete(&leader->keys, &candidate->sn.node);

    if (candidate->value.data != NULL) {
        ngx_free(candidate->value.data);
    }

    ngx_free(candidate);
}


void
ngx_etcd_leader_select(ngx_etcd_leader_t *leader)
{
    ngx_etcd_service_t  *service;

    service = leader->service;

    if (!leader->complete || !leader->changed || service->broken) {
        return;
    }

    leader->pool = ngx_create_pool(4096, service->log);
    if (leader->pool == NULL) {
        service->broken = 1;
        return;
    }

    leader->changed = 0;
    service->mark++;

    switch (leader->conf->format) {

    case NGX_ETCD_LEADER_ELECTION:
    case NGX_ETCD_LEADER_VITESS:
        ngx_etcd_leader_election(leader);
        break;

    case NGX_ETCD_LEADER_KEY:
        ngx_etcd_leader_key(leader,
                            ngx_etcd_leader_find(leader, &leader->conf->key));
        break;

    case NGX_ETCD_LEADER_PATRONI:
        ngx_etcd_patroni_select(leader->patroni);
        break;
    }

    ngx_etcd_service_sweep(service);

    ngx_destroy_pool(leader->pool);
    leader->pool = NULL;
}


void
ngx_etcd_leader_again(ngx_etcd_leader_t *leader)
{
    leader->changed = 1;

    ngx_etcd_leader_select(leader);

    ngx_post_event(&leader->service->publish, &ngx_posted_events);
}


/*
 * Candidates are few, and each looks at this in the same way: the first one
 * that is still there leads.
 */

static void
ngx_etcd_leader_election(ngx_etcd_leader_t *leader)
{
    uint64_t                term, lowest;
    ngx_uint_t              tie;
    ngx_queue_t            *q;
    ngx_etcd_leader_key_t  *candidate, *first;

    first = NULL;
    lowest = 0;
    tie = 0;

    for (q = ngx_queue_head(&leader->candidates);
         q != ngx_queue_sentinel(&leader->candidates);
         q = ngx_queue_next(q))
    {
        candidate = ngx_queue_data(q, ngx_etcd_leader_key_t, queue);

        if (!ngx_etcd_leader_candidate(leader, candidate)) {
            continue;
        }

        term = ngx_etcd_leader_term(leader, candidate);

        if (first == NULL || term < lowest) {
            first = candidate;
            lowest = term;
            tie = 0;

        } else if (term == lowest) {
            tie = 1;
        }
    }

    if (first == NULL) {
        return;
    }

    if (tie) {
        ngx_etcd_leader_refuse(leader, first, NULL,
                               "key was created by the transaction that "
                               "created another candidate: neither is first");
        return;
    }

    ngx_etcd_leader_key(leader, first);
}


/* among the keys there may be those of members */

static ngx_uint_t
ngx_etcd_leader_candidate(ngx_etcd_leader_t *leader,
    ngx_etcd_leader_key_t *key)
{
    return leader->conf->format != NGX_ETCD_LEADER_VITESS
           || ngx_etcd_leader_below(&key->sn.str, &leader->conf->key);
}


/*
 * What orders candidates is the token, too: of Vitess's, one that was written
 * anew is the last of all, so that its create_revision may be a former one.
 */

static uint64_t
ngx_etcd_leader_term(ngx_etcd_leader_t *leader, ngx_etcd_leader_key_t *key)
{
    return (leader->conf->format == NGX_ETCD_LEADER_VITESS)
           ? key->mod_revision : key->create_revision;
}


/* the leader's key, if there is one: it has the address, or a member's name */

static void
ngx_etcd_leader_key(ngx_etcd_leader_t *leader, ngx_etcd_leader_key_t *key)
{
    ngx_etcd_leader_key_t  *member;

    member = key;

    if (leader->conf->members.len != 0) {
        member = ngx_etcd_leader_named(leader, key);
    }

    if (member != NULL) {
        ngx_etcd_leader_use(leader, member, key, 0);
    }
}


ngx_etcd_leader_key_t *
ngx_etcd_leader_find(ngx_etcd_leader_t *leader, ngx_str_t *key)
{
    return (ngx_etcd_leader_key_t *)
               ngx_str_rbtree_lookup(&leader->keys, key,
                                     ngx_murmur_hash2(key->data, key->len));
}


ngx_etcd_leader_key_t *
ngx_etcd_leader_named(ngx_etcd_leader_t *leader, ngx_etcd_leader_key_t *term)
{
    ngx_str_t               name, key, *members;
    ngx_etcd_leader_key_t  *member;

    if (term == NULL) {
        return NULL;
    }

    name = term->value;
    ngx_etcd_value_trim(&name);

    members = &leader->conf->members;

    key.len = members->len + name.len;
    key.data = ngx_pnalloc(leader->pool, key.len);

    if (key.data == NULL) {
        leader->service->broken = 1;
        return NULL;
    }

    ngx_memcpy(ngx_cpymem(key.data, members->data, members->len),
               name.data, name.len);

    member = ngx_etcd_leader_find(leader, &key);

    /* the key itself may stand below the prefix of members */

    if (member == NULL || member == term) {
        ngx_etcd_leader_refuse(leader, term, &name, "has no key of a member");
        return NULL;
    }

    return member;
}


void
ngx_etcd_leader_use(ngx_etcd_leader_t *leader, ngx_etcd_leader_key_t *candidate,
    ngx_etcd_leader_key_t *term, ngx_uint_t drain)
{
    ngx_int_t            rc;
    ngx_str_t            reason;
    ngx_array_t          members;
    Etcd__KeyValue       kv;
    ngx_etcd_member_t   *member;
    ngx_etcd_service_t  *service;

    service = leader->service;

    if (ngx_array_init(&members, leader->pool, 1, sizeof(ngx_etcd_member_t))
        != NGX_OK)
    {
        service->broken = 1;
        return;
    }

    rc = ngx_etcd_member_decode(&service->conf->member, &candidate->sn.str,
                                &candidate->value, leader->pool, &members,
                                &reason);

    if (rc == NGX_OK
        && members.nelts > 1
        && ngx_etcd_role_sole(leader->conf->role))
    {
        rc = NGX_ERROR;
        ngx_str_set(&reason, "value has several addresses");
    }

    if (rc == NGX_OK && drain) {
        member = members.elts;
        member->attr.drain = 1;
    }

    ngx_etcd_leader_kv(leader, &kv, candidate, term);

    ngx_etcd_service_use(service, &kv, &members,
                         (rc == NGX_ERROR) ? &reason : NULL);
}


void
ngx_etcd_leader_refuse(ngx_etcd_leader_t *leader,
    ngx_etcd_leader_key_t *candidate, ngx_str_t *value, char *what)
{
    ngx_str_t  *reason;

    reason = ngx_etcd_leader_reason(leader, value, what);
    if (reason == NULL) {
        leader->service->broken = 1;
        return;
    }

    ngx_etcd_leader_report(leader, candidate, reason);
}


void
ngx_etcd_leader_report(ngx_etcd_leader_t *leader,
    ngx_etcd_leader_key_t *candidate, ngx_str_t *reason)
{
    ngx_array_t      none;
    Etcd__KeyValue   kv;

    ngx_memzero(&none, sizeof(ngx_array_t));

    ngx_etcd_leader_kv(leader, &kv, candidate, candidate);
    ngx_etcd_service_use(leader->service, &kv, &none, reason);
}


static void
ngx_etcd_leader_kv(ngx_etcd_leader_t *leader, Etcd__KeyValue *kv,
    ngx_etcd_leader_key_t *candidate, ngx_etcd_leader_key_t *term)
{
    etcd__key_value__init(kv);

    kv->key.data = candidate->sn.str.data;
    kv->key.len = candidate->sn.str.len;
    kv->create_revision = ngx_etcd_leader_term(leader, term);
    kv->mod_revision = ngx_max(candidate->mod_revision, term->mod_revision);
}


static ngx_str_t *
ngx_etcd_leader_reason(ngx_etcd_leader_t *leader, ngx_str_t *value, char *what)
{
    u_char     *p, *last;
    ngx_str_t  *reason;

    reason = ngx_palloc(leader->pool, sizeof(ngx_str_t));
    p = ngx_pnalloc(leader->pool, NGX_ETCD_LEADER_REASON);

    if (reason == NULL || p == NULL) {
        return NULL;
    }

    reason->data = p;
    last = p + NGX_ETCD_LEADER_REASON;

    if (value != NULL) {
        p = ngx_cpymem(p, "value \"", sizeof("value \"") - 1);
        p = ngx_etcd_escape(p, value, NGX_ETCD_LEADER_SHOWN);
        p = ngx_cpymem(p, "\" ", 2);
    }

    reason->len = ngx_slprintf(p, last, "%s", what) - reason->data;

    return reason;
}
