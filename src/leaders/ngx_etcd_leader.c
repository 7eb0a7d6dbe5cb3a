
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_decode.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_leader.h>
#include <ngx_etcd_str.h>


/* bytes of a value, and of a whole reason */

#define NGX_ETCD_LEADER_SHOWN   64
#define NGX_ETCD_LEADER_REASON  512


ngx_uint_t
ngx_etcd_leader_below(ngx_str_t *key, ngx_str_t *prefix)
{
    return key->len > prefix->len
           && ngx_memcmp(key->data, prefix->data, prefix->len) == 0;
}


/* Members may be below the prefix of candidates, and the other way round. */

static ngx_uint_t
ngx_etcd_leader_below_key(ngx_etcd_leader_conf_t *conf, ngx_str_t *key)
{
    return ngx_etcd_leader_below(key, &conf->key)
           && (conf->members.len <= conf->key.len
               || !ngx_etcd_leader_below(key, &conf->members));
}


/*
 * The revision that orders candidates is also the fencing token.  A candidate
 * of Vitess that writes its key again becomes the last one, and may keep its
 * create_revision.
 */

static int64_t
ngx_etcd_leader_term(ngx_etcd_leader_t *leader, ngx_etcd_mirror_entry_t *key)
{
    return leader->source->modified ? key->mod_revision
                                    : key->create_revision;
}


static void
ngx_etcd_leader_kv(ngx_etcd_leader_t *leader, Etcd__KeyValue *kv,
    ngx_etcd_mirror_entry_t *candidate, ngx_etcd_mirror_entry_t *term)
{
    etcd__key_value__init(kv);

    kv->key = ngx_etcd_bytes(&candidate->key);
    kv->create_revision = ngx_etcd_leader_term(leader, term);
    kv->mod_revision = ngx_max(candidate->mod_revision, term->mod_revision);
    kv->lease = term->lease ? candidate->lease : 0;
}


static void
ngx_etcd_leader_without(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *candidate, ngx_etcd_reason_t *reason)
{
    ngx_array_t      none;
    Etcd__KeyValue   kv;

    ngx_memzero(&none, sizeof(ngx_array_t));

    ngx_etcd_leader_kv(leader, &kv, candidate, candidate);
    ngx_etcd_member_diff_use(&leader->service->diff, &kv, &none, reason);
}


void
ngx_etcd_leader_report(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *candidate, ngx_str_t *reason)
{
    ngx_etcd_reason_t  said;

    ngx_memzero(&said, sizeof(ngx_etcd_reason_t));
    said.text = *reason;

    ngx_etcd_leader_without(leader, candidate, &said);
}


void
ngx_etcd_leader_refuse(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *candidate, ngx_str_t *value, char *what)
{
    u_char     *p, *last;
    ngx_str_t  *reason;

    reason = ngx_palloc(leader->pool, sizeof(ngx_str_t));
    p = ngx_pnalloc(leader->pool, NGX_ETCD_LEADER_REASON);

    if (reason == NULL || p == NULL) {
        leader->service->diff.broken = 1;
        return;
    }

    reason->data = p;
    last = p + NGX_ETCD_LEADER_REASON;

    if (value != NULL) {
        p = ngx_cpymem(p, "value \"", sizeof("value \"") - 1);
        p = ngx_etcd_escape(p, value, NGX_ETCD_LEADER_SHOWN);
        p = ngx_cpymem(p, "\" ", 2);
    }

    reason->len = ngx_slprintf(p, last, "%s", what) - reason->data;

    ngx_etcd_leader_report(leader, candidate, reason);
}


/* Reads the name of a member; NGX_ERROR: there is none, which is reported. */

static ngx_int_t
ngx_etcd_leader_name(ngx_etcd_leader_t *leader, ngx_etcd_mirror_entry_t *term,
    ngx_str_t *name)
{
    ngx_int_t         rc;
    ngx_str_t        *path;
    ngx_etcd_json_t   json;

    path = &leader->conf->name;

    *name = term->value;
    ngx_etcd_decode_trim(name);

    if (path->len == 0) {
        return NGX_OK;
    }

    rc = ngx_etcd_json_read(&json, name, 0);

    if (rc == NGX_OK) {
        rc = ngx_etcd_json_string(ngx_etcd_json_pointer_get(json.root, path),
                                  name);
    }

    if (rc == NGX_OK) {
        name->data = ngx_pstrdup(leader->pool, name);

        if (name->data == NULL) {
            leader->service->diff.broken = 1;
            rc = NGX_ERROR;
        }

    } else {
        ngx_etcd_leader_refuse(leader, term, &term->value,
                               "has no name of a member where \"name=\" is");
    }

    ngx_etcd_json_done(&json);

    return (rc == NGX_OK) ? NGX_OK : NGX_ERROR;
}


ngx_etcd_mirror_entry_t *
ngx_etcd_leader_find(ngx_etcd_leader_t *leader, ngx_str_t *key)
{
    return ngx_etcd_mirror_find(&leader->service->mirror, key);
}


ngx_etcd_mirror_entry_t *
ngx_etcd_leader_named(ngx_etcd_leader_t *leader, ngx_etcd_mirror_entry_t *term)
{
    ngx_str_t                 name, key, *members;
    ngx_etcd_mirror_entry_t  *member;

    if (term == NULL || ngx_etcd_leader_name(leader, term, &name) != NGX_OK) {
        return NULL;
    }

    members = &leader->conf->members;

    key.len = members->len + name.len;
    key.data = ngx_pnalloc(leader->pool, key.len);

    if (key.data == NULL) {
        leader->service->diff.broken = 1;
        return NULL;
    }

    ngx_memcpy(ngx_cpymem(key.data, members->data, members->len),
               name.data, name.len);

    member = ngx_etcd_leader_find(leader, &key);

    /* the leader's key may be below the prefix of members */

    if (member == NULL || member == term) {
        ngx_etcd_leader_refuse(leader, term, &name, "does not name a member");
        return NULL;
    }

    return member;
}


void
ngx_etcd_leader_use(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *candidate, ngx_etcd_mirror_entry_t *term,
    ngx_uint_t drain)
{
    ngx_int_t            rc;
    ngx_array_t          members;
    Etcd__KeyValue       kv;
    ngx_etcd_reason_t    reason;
    ngx_etcd_member_t   *member;
    ngx_etcd_service_t  *service;

    service = leader->service;

    if (ngx_array_init(&members, leader->pool, 1, sizeof(ngx_etcd_member_t))
        != NGX_OK)
    {
        service->diff.broken = 1;
        return;
    }

    rc = ngx_etcd_decode(&service->conf->member, &candidate->key,
                         &candidate->value, leader->pool, &members, &reason);

    if (rc == NGX_OK
        && members.nelts + reason.nodes > 1
        && ngx_etcd_role_sole(leader->conf->role))
    {
        rc = NGX_ERROR;
        members.nelts = 0;
        ngx_str_set(&reason.text, "value has several addresses");
    }

    if (rc == NGX_OK && drain) {
        member = members.elts;
        member->attr.drain = 1;
    }

    ngx_etcd_leader_kv(leader, &kv, candidate, term);

    ngx_etcd_member_diff_use(&service->diff, &kv, &members, &reason);
}


/* Uses the leader's key, which holds the address or names a member. */

static void
ngx_etcd_leader_lead(ngx_etcd_leader_t *leader, ngx_etcd_mirror_entry_t *key)
{
    ngx_etcd_mirror_entry_t  *member;

    member = key;

    if (leader->conf->members.len != 0) {
        member = ngx_etcd_leader_named(leader, key);
    }

    if (member != NULL) {
        ngx_etcd_leader_use(leader, member, key, 0);
    }
}


/*
 * Selects the candidate with the lowest revision, as the candidates do
 * themselves.  Candidates are few: a search is enough.
 */

static void
ngx_etcd_leader_first(ngx_etcd_leader_t *leader)
{
    int64_t                   term, lowest;
    ngx_uint_t                tie;
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_mirror_entry_t  *candidate, *first;

    mirror = &leader->service->mirror;

    first = NULL;
    lowest = 0;
    tie = 0;

    for (candidate = ngx_etcd_mirror_first(mirror);
         candidate != NULL;
         candidate = ngx_etcd_mirror_next(mirror, candidate))
    {
        if (candidate->apart
            || !leader->source->candidate(leader->conf, &candidate->key))
        {
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

    ngx_etcd_leader_lead(leader, first);
}


const ngx_etcd_leader_source_t  ngx_etcd_leader_election = {
    .source = NGX_ETCD_LEADER_SOURCE,
    .candidate = ngx_etcd_leader_below_key,
    .select = ngx_etcd_leader_first,
};


static ngx_uint_t
ngx_etcd_leader_is(ngx_str_t *key, ngx_str_t *other)
{
    return other->data != NULL && ngx_etcd_str_equal(key, other);
}


ngx_uint_t
ngx_etcd_leader_own_key(ngx_etcd_leader_conf_t *conf, ngx_str_t *key)
{
    return ngx_etcd_leader_is(key, &conf->key);
}


static void
ngx_etcd_leader_one(ngx_etcd_leader_t *leader)
{
    ngx_etcd_leader_lead(leader,
                         ngx_etcd_leader_find(leader, &leader->conf->key));
}


const ngx_etcd_leader_source_t  ngx_etcd_leader_key = {
    .source = NGX_ETCD_LEADER_SOURCE,
    .candidate = ngx_etcd_leader_own_key,
    .select = ngx_etcd_leader_one,
};


const ngx_etcd_leader_source_t  ngx_etcd_leader_vitess = {
    .source = NGX_ETCD_LEADER_SOURCE,
    .candidate = ngx_etcd_leader_below_key,
    .modified = 1,
    .select = ngx_etcd_leader_first,
};


ngx_int_t
ngx_etcd_leader_create(ngx_etcd_service_t *service, ngx_pool_t *pool)
{
    ngx_etcd_watch_t        *watch;
    ngx_etcd_leader_t       *leader;
    ngx_etcd_leader_conf_t  *conf;

    leader = ngx_pcalloc(pool, sizeof(ngx_etcd_leader_t));
    if (leader == NULL) {
        return NGX_ERROR;
    }

    conf = service->conf->leader;

    leader->service = service;
    leader->conf = conf;
    leader->source = (const ngx_etcd_leader_source_t *) service->source;

    service->ctx = leader;
    service->diff.sole = ngx_etcd_role_sole(conf->role);

    watch = &service->mirror.watch;

    watch->range.prefix = conf->watched;
    watch->verify_interval = ngx_etcd_service_interval(service->conf);

    return (leader->source->create != NULL)
           ? leader->source->create(leader, pool) : NGX_OK;
}


void
ngx_etcd_leader_destroy(ngx_etcd_service_t *service)
{
    ngx_etcd_leader_t *leader = service->ctx;

    if (leader->source->destroy != NULL) {
        leader->source->destroy(leader);
    }
}


ngx_uint_t
ngx_etcd_leader_wants(ngx_etcd_service_conf_t *service, ngx_str_t *key)
{
    ngx_etcd_leader_conf_t          *conf;
    const ngx_etcd_leader_source_t  *source;

    conf = service->leader;
    source = (const ngx_etcd_leader_source_t *) service->source;

    return source->candidate(conf, key)
           || ngx_etcd_leader_is(key, &conf->failover)
           || ngx_etcd_leader_is(key, &conf->sync)
           || ngx_etcd_leader_is(key, &conf->config)
           || ngx_etcd_leader_is(key, &conf->failsafe)
           || (conf->members.data != NULL
               && ngx_etcd_leader_below(key, &conf->members));
}


void
ngx_etcd_leader_changed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_leader_t *leader = service->ctx;

    leader->changed = 1;
}


static void
ngx_etcd_leader_select(ngx_etcd_leader_t *leader)
{
    ngx_etcd_service_t  *service;

    service = leader->service;

    leader->pool = ngx_create_pool(4096, service->log);
    if (leader->pool == NULL) {
        service->diff.broken = 1;
        return;
    }

    leader->changed = 0;

    ngx_etcd_member_diff_select(&service->diff);
    leader->source->select(leader);
    (void) ngx_etcd_member_diff_sweep(&service->diff, 0);

    ngx_destroy_pool(leader->pool);
    leader->pool = NULL;
}


void
ngx_etcd_leader_complete(ngx_etcd_service_t *service)
{
    ngx_etcd_leader_t *leader = service->ctx;

    if (leader->changed || service->mirror.relisted) {
        ngx_etcd_leader_select(leader);
    }
}


void
ngx_etcd_leader_again(ngx_etcd_leader_t *leader)
{
    ngx_etcd_service_t  *service;

    service = leader->service;
    leader->changed = 1;

    if (service->mirror.synced && !service->diff.broken) {
        ngx_etcd_leader_select(leader);
    }

    ngx_etcd_service_post(service);
}


void
ngx_etcd_leader_wake(ngx_etcd_service_t *service)
{
    ngx_etcd_leader_again(service->ctx);
}


void
ngx_etcd_leader_unused(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *candidate, ngx_etcd_unused_e unused,
    ngx_str_t *note)
{
    ngx_etcd_reason_t  said;

    ngx_memzero(&said, sizeof(ngx_etcd_reason_t));
    said.unused = unused;
    said.note = *note;

    ngx_etcd_leader_without(leader, candidate, &said);
}
