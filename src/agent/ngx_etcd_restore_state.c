
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_address.h>
#include <ngx_etcd_attribute.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_member_diff.h>
#include <ngx_etcd_restore.h>
#include <ngx_etcd_restore_state.h>
#include <ngx_etcd_str.h>


/* the members of one set */

typedef struct {
    ngx_etcd_service_conf_t  *service;
    json_t                   *members;
    uint32_t                  params;
    uint64_t                  revision;
    uint64_t                  held_until;  /* ngx_etcd_clock(); 0: none */
    ngx_etcd_member_diff_t    diff;
} ngx_etcd_restore_set_t;


static ngx_int_t ngx_etcd_restore_catalog(ngx_etcd_restore_t *restore,
    ngx_array_t *sets, json_t *upstreams, ngx_etcd_catalog_conf_t *catalog);


/* The head and the tail must be as ngx_etcd_state_encode() writes them. */

static ngx_int_t
ngx_etcd_restore_check(ngx_etcd_restore_t *restore, ngx_str_t *text,
    json_t *root)
{
    size_t   len, tail;
    u_char   head[NGX_ETCD_STATE_HEAD];
    json_t  *version;

    version = json_object_get(root, "version");

    if (!json_is_integer(version)) {
        return ngx_etcd_restore_refuse(restore, "it has no \"version\"");
    }

    if (json_integer_value(version) != NGX_ETCD_STATE_VERSION) {
        return ngx_etcd_restore_refuse(restore,
                                       "its version is %L, not %d",
                                       (int64_t) json_integer_value(version),
                                       NGX_ETCD_STATE_VERSION);
    }

    len = ngx_etcd_state_head(head, head, 0);
    tail = sizeof(NGX_ETCD_STATE_TAIL) - 1;

    if (text->len > len + tail) {
        len = ngx_etcd_state_head(head, text->data + len,
                                  text->len - len - tail);

        if (ngx_memcmp(text->data, head, len) == 0
            && ngx_memcmp(text->data + text->len - tail,
                          NGX_ETCD_STATE_TAIL, tail)
               == 0)
        {
            return NGX_OK;
        }
    }

    return ngx_etcd_restore_refuse(restore, "its checksum is wrong");
}


static ngx_int_t
ngx_etcd_restore_same(ngx_etcd_restore_t *restore, char *what, ngx_str_t *is,
    ngx_str_t *wanted)
{
    if (ngx_etcd_str_equal(is, wanted)) {
        return NGX_OK;
    }

    return ngx_etcd_restore_refuse(restore, "it is of %s \"%V\", not \"%V\"",
                                   what, ngx_etcd_shown(is), wanted);
}


static ngx_int_t
ngx_etcd_restore_origin(ngx_etcd_restore_t *restore, json_t *content)
{
    json_t            *json, *id;
    ngx_str_t          cluster, ns;
    ngx_etcd_state_t  *state;

    state = &restore->state;
    json = json_object_get(content, "state");
    id = json_object_get(json, "cluster_id");

    if (ngx_etcd_restore_bytes(restore, json, "cluster", &cluster) != NGX_OK
        || ngx_etcd_restore_bytes(restore, json, "namespace", &ns) != NGX_OK
        || ngx_etcd_restore_number(restore, json, "revision",
                                   &state->revision)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (!json_is_string(id)) {
        return ngx_etcd_restore_refuse(restore, "it has no \"cluster_id\"");
    }

    state->cluster_id = strtoull(json_string_value(id), NULL, 16);

    if (ngx_etcd_restore_same(restore, "cluster", &cluster, &state->cluster)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_etcd_restore_same(restore, "namespace", &ns,
                                 &state->key_namespace);
}


/*
 * Returns NGX_OK, and the prefix, for an upstream of the text with the name of
 * the service; NGX_DECLINED for others.
 */

static ngx_int_t
ngx_etcd_restore_matches(ngx_etcd_restore_t *restore, json_t *json,
    ngx_etcd_service_conf_t *service, ngx_str_t *prefix)
{
    json_t     *head;
    ngx_str_t   name;

    head = json_object_get(json, "upstream");

    if (ngx_etcd_restore_bytes(restore, head, "name", &name) != NGX_OK
        || ngx_etcd_restore_bytes(restore, head, "prefix", prefix) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return (json_is_true(json_object_get(head, "stream"))
                == (service->stream != 0)
            && ngx_etcd_str_equal(&name, &service->name))
           ? NGX_OK : NGX_DECLINED;
}


/* Returns the time of ngx_etcd_clock(); 0: no member is held. */

static uint64_t
ngx_etcd_restore_held(json_t *until)
{
    int64_t  left;

    if (!json_is_integer(until)) {
        return 0;
    }

    left = json_integer_value(until) - ngx_time();
    left = ngx_min(ngx_max(left, 0), NGX_ETCD_GUARD_LONGEST / 1000);

    return ngx_etcd_clock() + left * 1000;
}


/* The service has the members of that upstream of the text. */

static ngx_int_t
ngx_etcd_restore_take(ngx_etcd_restore_t *restore, ngx_array_t *sets,
    ngx_etcd_service_conf_t *service, json_t *json)
{
    json_t                  *head;
    uint64_t                 params;
    ngx_etcd_restore_set_t  *set;

    set = ngx_array_push(sets);
    if (set == NULL) {
        return ngx_etcd_restore_refuse(restore, "no memory");
    }

    ngx_memzero(set, sizeof(ngx_etcd_restore_set_t));

    set->service = service;
    head = json_object_get(json, "upstream");

    if (ngx_etcd_restore_number(restore, head, "params", &params) != NGX_OK
        || ngx_etcd_restore_number(restore, head, "revision", &set->revision)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    set->params = (uint32_t) params;
    set->held_until = ngx_etcd_restore_held(json_object_get(head,
                                                            "held_until"));
    set->members = json_object_get(json, "members");

    if (!json_is_array(set->members)) {
        return ngx_etcd_restore_refuse(restore,
                                       "upstream \"%V\" has no \"members\"",
                                       &service->name);
    }

    return NGX_OK;
}


/* The upstreams of the text that have the name and the prefix of a service. */

static ngx_int_t
ngx_etcd_restore_services(ngx_etcd_restore_t *restore, ngx_array_t *sets,
    json_t *upstreams)
{
    size_t                     n;
    json_t                    *json;
    ngx_int_t                  rc;
    ngx_str_t                  prefix;
    ngx_uint_t                 i;
    ngx_etcd_service_conf_t  **services;

    services = restore->services->elts;

    for (i = 0; i < restore->services->nelts; i++) {

        if (!services[i]->source->restorable) {
            continue;
        }

        json_array_foreach(upstreams, n, json) {
            rc = ngx_etcd_restore_matches(restore, json, services[i], &prefix);

            if (rc == NGX_ERROR) {
                return NGX_ERROR;
            }

            if (rc == NGX_OK
                && ngx_etcd_str_equal(&prefix, &services[i]->prefix))
            {
                if (ngx_etcd_restore_take(restore, sets, services[i], json)
                    != NGX_OK)
                {
                    return NGX_ERROR;
                }

                break;
            }
        }
    }

    return NGX_OK;
}


/* For a member by host name: one of its addresses, or none. */

static ngx_int_t
ngx_etcd_restore_address(ngx_etcd_restore_t *restore, ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, json_t *json, ngx_str_t *address)
{
    uint64_t  port, whole;

    if (json_object_get(json, "host") == NULL) {
        return ngx_etcd_address_set(d, member, "address", address, 0);
    }

    if (ngx_etcd_restore_bytes(restore, json, "host", &member->host) != NGX_OK
        || ngx_etcd_restore_number(restore, json, "port", &port) != NGX_OK
        || ngx_etcd_restore_number(restore, json, "whole_weight", &whole)
           != NGX_OK)
    {
        *d->reason = restore->reason;
        return NGX_ERROR;
    }

    if (member->host.len == 0
        || member->host.len > NGX_ETCD_MEMBER_MAX_HOST
        || port == 0 || port > 65535
        || whole == 0 || whole > NGX_ETCD_MEMBER_MAX_WEIGHT)
    {
        return ngx_etcd_decode_invalid(d, "host", &member->host,
                                       "is not what a member has");
    }

    member->port = (in_port_t) port;
    member->whole = whole;

    if (address->len == 0) {
        ngx_etcd_address_unresolved(member);
        return NGX_OK;
    }

    return ngx_etcd_address_set(d, member, "address", address, 0);
}


/* Decodes a member like a value of etcd: limits and etcd_allow apply. */

static ngx_int_t
ngx_etcd_restore_member(ngx_etcd_restore_t *restore,
    ngx_etcd_restore_set_t *set, json_t *json, ngx_str_t *key,
    ngx_etcd_member_t *member)
{
    ngx_str_t           address, reason;
    ngx_array_t         members;
    ngx_etcd_member_t  *made;
    ngx_etcd_decode_t   d;

    if (ngx_etcd_restore_bytes(restore, json, "key", key) != NGX_OK
        || ngx_etcd_restore_bytes(restore, json, "address", &address)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (key->len == 0 || key->len > NGX_ETCD_DECODE_MAX_KEY) {
        return ngx_etcd_restore_refuse(restore, "a key has %uz bytes",
                                       key->len);
    }

    ngx_etcd_decode_init(&d, &set->service->member, key, restore->pool,
                         &members, &reason);

    members.elts = member;
    members.nelts = 0;
    members.size = sizeof(ngx_etcd_member_t);
    members.nalloc = 1;
    members.pool = restore->pool;

    made = ngx_etcd_decode_add(&d);

    if (made != NULL
        && ngx_etcd_restore_address(restore, &d, made, json, &address)
           == NGX_OK)
    {
        ngx_etcd_attribute_read(&d, made, ngx_etcd_attribute_fields, json);

        made->attr.near = json_is_true(json_object_get(json, "near"));

        if (d.skipped == 0) {
            return NGX_OK;
        }
    }

    return ngx_etcd_restore_refuse(restore, "upstream \"%V\": key \"%V\": %V",
                                   &set->service->name, ngx_etcd_shown(key),
                                   &reason);
}


/*
 * The members of a key may be scattered over the file, so each is registered
 * without a search.  A key that has an address twice is read again by the
 * agent.
 */

static ngx_int_t
ngx_etcd_restore_register(ngx_etcd_restore_t *restore,
    ngx_etcd_member_diff_t *diff, json_t *json, ngx_str_t *name,
    ngx_etcd_member_t *member)
{
    uint64_t           created, modified;
    ngx_int_t          rc;
    ngx_etcd_key_t    *key;
    Etcd__KeyValue     kv;
    ngx_etcd_entry_t  *entry;

    if (ngx_etcd_restore_number(restore, json, "create_revision", &created)
            != NGX_OK
        || ngx_etcd_restore_number(restore, json, "mod_revision", &modified)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    etcd__key_value__init(&kv);

    kv.create_revision = created;
    kv.mod_revision = modified;
    kv.lease = json_integer_value(json_object_get(json, "lease"));

    key = ngx_etcd_member_diff_key(diff, name);

    rc = (key != NULL) ? ngx_etcd_member_diff_register(diff, key, NULL, &kv,
                                                       member)
                       : NGX_ERROR;

    if (rc == NGX_DECLINED) {
        return ngx_etcd_restore_refuse(restore, "the \"zone\" is too small "
                                       "for its members");
    }

    if (rc != NGX_OK) {
        return ngx_etcd_restore_refuse(restore, "no memory");
    }

    if (json_is_true(json_object_get(json, "gone"))) {
        entry = ngx_etcd_zone_at(diff->zone, key->regs->entry);
        entry->gone = json_is_true(json_object_get(json, "held"))
                      ? NGX_ETCD_ENTRY_HELD : NGX_ETCD_ENTRY_KEPT;
    }

    restore->nmembers++;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_restore_members(ngx_etcd_restore_t *restore,
    ngx_etcd_restore_set_t *set)
{
    size_t              i;
    json_t             *json;
    ngx_str_t           key;
    ngx_etcd_member_t   member;

    json_array_foreach(set->members, i, json) {

        if (ngx_etcd_restore_member(restore, set, json, &key, &member)
                != NGX_OK
            || ngx_etcd_restore_register(restore, &set->diff, json, &key,
                                         &member)
               != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_restore_set(ngx_etcd_restore_t *restore, ngx_etcd_restore_set_t *set)
{
    ngx_int_t                rc;
    ngx_etcd_member_diff_t  *diff;

    diff = &set->diff;

    diff->zone = restore->zone;
    diff->set = set->service->set;
    diff->log = ngx_cycle->log;
    diff->unowned = 1;

    if (ngx_etcd_member_diff_open(diff, 0, 0) != NGX_OK) {
        return ngx_etcd_restore_refuse(restore, "no memory");
    }

    rc = ngx_etcd_restore_members(restore, set);

    ngx_etcd_member_diff_close(diff);

    return rc;
}


static ngx_int_t
ngx_etcd_restore_commit(ngx_etcd_restore_t *restore, ngx_array_t *array)
{
    ngx_uint_t               i;
    ngx_etcd_commit_t        commit;
    ngx_etcd_member_set_t   *set;
    ngx_etcd_restore_set_t  *sets;

    sets = array->elts;

    for (i = 0; i < array->nelts; i++) {
        set = sets[i].service->set;

        ngx_memzero(&commit, sizeof(ngx_etcd_commit_t));

        commit.ops = &sets[i].diff.ops;
        commit.revision = sets[i].revision;
        commit.force = 1;

        if (ngx_etcd_commit(restore->zone, set, &commit) != NGX_OK) {
            return ngx_etcd_restore_refuse(restore, "the zone is locked");
        }

        set->params = sets[i].params;
        set->held_until = sets[i].held_until;

        if (sets[i].revision != 0) {
            set->state = NGX_ETCD_MEMBER_SET_SYNCED;
        }
    }

    return NGX_OK;
}


/*
 * Creates all entries before the first set is changed.  If that fails, the
 * entries stay pending until the first owner of the zone frees them.
 */

static ngx_int_t
ngx_etcd_restore_sets(ngx_etcd_restore_t *restore, json_t *content)
{
    json_t                    *upstreams;
    ngx_int_t                  rc;
    ngx_uint_t                 i;
    ngx_array_t                sets;
    ngx_etcd_restore_set_t    *set;
    ngx_etcd_catalog_conf_t  **catalogs;

    upstreams = json_object_get(content, "upstreams");

    if (!json_is_array(upstreams)) {
        return ngx_etcd_restore_refuse(restore, "it has no \"upstreams\"");
    }

    if (ngx_array_init(&sets, restore->pool, 16, sizeof(ngx_etcd_restore_set_t))
        != NGX_OK)
    {
        return ngx_etcd_restore_refuse(restore, "no memory");
    }

    rc = ngx_etcd_restore_services(restore, &sets, upstreams);

    catalogs = restore->catalogs->elts;

    for (i = 0; rc == NGX_OK && i < restore->catalogs->nelts; i++) {
        rc = ngx_etcd_restore_catalog(restore, &sets, upstreams, catalogs[i]);
    }

    set = sets.elts;

    for (i = 0; rc == NGX_OK && i < sets.nelts; i++) {
        rc = ngx_etcd_restore_set(restore, &set[i]);
    }

    if (rc == NGX_OK) {
        rc = ngx_etcd_restore_commit(restore, &sets);
    }

    for (i = 0; i < sets.nelts; i++) {
        ngx_etcd_member_diff_destroy(&set[i].diff);
    }

    for (i = 0; rc != NGX_OK && i < restore->catalogs->nelts; i++) {
        ngx_etcd_set_map_drop(restore->zone, catalogs[i]->map);
        ngx_etcd_restore_catalog_complete(catalogs[i], 0);
    }

    return rc;
}


ngx_int_t
ngx_etcd_restore_state_text(ngx_etcd_restore_t *restore, ngx_str_t *text)
{
    json_t           *content;
    ngx_int_t         rc;
    ngx_etcd_json_t   json;

    rc = ngx_etcd_json_parse(&json, text, 0);

    if (rc == NGX_ERROR) {
        return ngx_etcd_restore_refuse(restore, "no memory");
    }

    if (rc != NGX_OK) {

        /*
         * the text of the error would show a part of the file, which may be
         * any file
         */

        return ngx_etcd_restore_refuse(restore,
                                       "line %d, column %d is no valid JSON",
                                       json.error.line, json.error.column);
    }

    if (ngx_array_init(&restore->changes, restore->pool, 16,
                       sizeof(ngx_etcd_restore_change_t))
        != NGX_OK)
    {
        rc = ngx_etcd_restore_refuse(restore, "no memory");

    } else {
        rc = ngx_etcd_restore_check(restore, text, json.root);
    }

    if (rc == NGX_OK) {
        content = json_object_get(json.root, "content");

        rc = ngx_etcd_restore_origin(restore, content);

        if (rc == NGX_OK) {
            rc = ngx_etcd_restore_value_read(restore, content);
        }

        if (rc == NGX_OK) {
            rc = ngx_etcd_restore_sets(restore, content);
        }
    }

    if (rc == NGX_OK) {
        ngx_etcd_restore_value_fill(restore);
    }

    ngx_etcd_json_done(&json);

    return rc;
}


/*
 * Any upstream of the text with the name of the catalog may be one of its
 * sets.  The sets are all there are if they are of the same prefix with
 * variables; the lowest revision is that of the text.
 */

static ngx_int_t
ngx_etcd_restore_catalog(ngx_etcd_restore_t *restore, ngx_array_t *sets,
    json_t *upstreams, ngx_etcd_catalog_conf_t *catalog)
{
    size_t                    n;
    json_t                   *json, *head;
    uint64_t                  revision;
    ngx_int_t                 rc;
    ngx_str_t                 prefix, pattern;
    ngx_etcd_restore_set_t   *set;
    ngx_etcd_service_conf_t  *service;

    if (!catalog->service.source->restorable) {
        return NGX_OK;
    }

    revision = UINT64_MAX;
    service = NULL;

    json_array_foreach(upstreams, n, json) {
        rc = ngx_etcd_restore_matches(restore, json, &catalog->service,
                                      &prefix);
        if (rc == NGX_OK) {
            rc = ngx_etcd_restore_catalog_set(catalog, &prefix, restore->pool,
                                              &service);
            if (rc == NGX_DECLINED) {
                revision = 0;
            }
        }

        if (rc == NGX_DECLINED) {
            continue;
        }

        if (rc != NGX_OK
            || ngx_etcd_restore_take(restore, sets, service, json) != NGX_OK)
        {
            return (restore->reason.len != 0)
                   ? NGX_ERROR
                   : ngx_etcd_restore_refuse(restore, "the \"zone\" is too "
                                             "small for its sets");
        }

        head = json_object_get(json, "upstream");
        set = sets->elts;
        set += sets->nelts - 1;

        if (json_object_get(head, "pattern") == NULL
            || ngx_etcd_restore_bytes(restore, head, "pattern", &pattern)
               != NGX_OK
            || !ngx_etcd_str_equal(&pattern, &catalog->pattern.text))
        {
            revision = 0;
        }

        revision = ngx_min(revision, set->revision);
    }

    if (revision == UINT64_MAX) {
        revision = 0;
    }

    ngx_etcd_restore_catalog_complete(catalog, revision);

    return NGX_OK;
}
