
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_address.h>
#include <ngx_etcd_catalog.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_member_diff.h>
#include <ngx_etcd_restore.h>
#include <ngx_etcd_split.h>
#include <ngx_etcd_state.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_value_change.h>
#include <ngx_etcd_value_conf.h>


#define NGX_ETCD_RESTORE_REASON  1024


/* the members of one set */

typedef struct {
    ngx_etcd_service_conf_t    *service;
    uint32_t                    params;
    uint64_t                    revision;
    uint64_t                    held_until;  /* ngx_etcd_clock(); 0: none */
    ngx_etcd_member_diff_t      diff;
} ngx_etcd_restore_set_t;


/*
 * A value of a map.  Such values are collected while the file is read, and
 * enter the maps when the whole file is valid.
 */

typedef struct {
    ngx_etcd_value_map_conf_t  *map;
    ngx_etcd_value_change_t     change;
} ngx_etcd_restore_change_t;


static ngx_int_t
ngx_etcd_restore_refuse(ngx_etcd_restore_t *restore, char *fmt, ...)
{
    u_char   *p;
    u_char    buf[NGX_ETCD_RESTORE_REASON];
    va_list   args;

    va_start(args, fmt);
    p = ngx_vslprintf(buf, buf + sizeof(buf), fmt, args);
    va_end(args);

    restore->reason.len = p - buf;
    restore->reason.data = ngx_pnalloc(restore->pool, restore->reason.len);

    if (restore->reason.data == NULL) {
        ngx_str_set(&restore->reason, "no memory");

    } else {
        ngx_memcpy(restore->reason.data, buf, restore->reason.len);
    }

    return NGX_ERROR;
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
ngx_etcd_restore_origin(ngx_etcd_restore_t *restore,
    ngx_etcd_state_record_t *record)
{
    restore->cluster_id = record->created;
    restore->revision = record->modified;

    if (ngx_etcd_restore_same(restore, "cluster", &record->key,
                              &restore->conf->name)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_etcd_restore_same(restore, "namespace", &record->data,
                                 &restore->conf->client.key_namespace);
}


/* Returns 1 for the set of an upstream with the name of the service. */

static ngx_uint_t
ngx_etcd_restore_matches(ngx_etcd_service_conf_t *service,
    ngx_etcd_state_record_t *record, ngx_str_t *name)
{
    return service->source->restorable
           && (service->stream != 0)
              == ((record->flags & NGX_ETCD_STATE_STREAM) != 0)
           && ngx_etcd_str_equal(&service->line.upstream, name);
}


/*
 * The service with the name and the prefix of the set; NULL: there is none, or
 * it has its set.
 */

static ngx_etcd_service_conf_t *
ngx_etcd_restore_service(ngx_etcd_restore_t *restore,
    ngx_etcd_state_record_t *record, ngx_str_t *name)
{
    ngx_uint_t                 i, k;
    ngx_etcd_restore_set_t   **sets;
    ngx_etcd_service_conf_t  **services;

    sets = restore->sets.elts;
    services = restore->conf->services.elts;

    for (i = 0; i < restore->conf->services.nelts; i++) {

        if (!ngx_etcd_restore_matches(services[i], record, name)
            || !ngx_etcd_str_equal(&services[i]->prefix, &record->key))
        {
            continue;
        }

        for (k = 0; k < restore->sets.nelts; k++) {
            if (sets[k]->service == services[i]) {
                return NULL;
            }
        }

        return services[i];
    }

    return NULL;
}


/*
 * Makes the set with that prefix, and the configuration of its service.
 * NGX_DECLINED: the catalog has no such set, already has the set, or has as
 * many as its limit allows; NGX_ERROR: no memory, or the zone is too small.
 */

static ngx_int_t
ngx_etcd_restore_catalog_set(ngx_etcd_catalog_conf_t *catalog,
    ngx_str_t *prefix, ngx_pool_t *pool, ngx_etcd_service_conf_t **conf)
{
    ngx_int_t                 rc;
    ngx_str_t                 key;
    ngx_etcd_zone_t          *zone;
    ngx_etcd_set_found_t      found;
    ngx_etcd_service_conf_t  *service;

    zone = catalog->service.zone;

    /* a key of that set */

    key.len = prefix->len + catalog->pattern.below;
    key.data = ngx_pnalloc(pool, prefix->len + 1);

    service = ngx_palloc(pool, sizeof(ngx_etcd_service_conf_t));

    if (key.data == NULL || service == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(key.data, prefix->data, prefix->len);
    key.data[prefix->len] = 'x';

    if (prefix->len == 0
        || ngx_etcd_pattern_match(&catalog->pattern, &key) != prefix->len
        || ngx_etcd_set_map_find(zone, catalog->map, prefix, &found)
           != NGX_DECLINED)
    {
        return NGX_DECLINED;
    }

    rc = ngx_etcd_set_map_add(zone, catalog->map, prefix,
                              ngx_etcd_catalog_conf_waits(catalog), 1, &found);

    if (rc != NGX_OK) {
        return (rc == NGX_DECLINED) ? NGX_DECLINED : NGX_ERROR;
    }

    *service = catalog->service;

    service->prefix = *prefix;
    service->set = found.set;
    service->set_id = found.set_id;

    *conf = service;

    return NGX_OK;
}


/*
 * Any set of the text with the name of the catalog may be one of its sets.  The
 * sets are all there are if they are of the same prefix with variables; the
 * lowest revision is that of the text.  NGX_DECLINED: it is the set of none.
 */

static ngx_int_t
ngx_etcd_restore_catalog(ngx_etcd_restore_t *restore,
    ngx_etcd_state_record_t *record, ngx_str_t *name, ngx_str_t *pattern,
    ngx_etcd_service_conf_t **service)
{
    ngx_int_t                  rc;
    ngx_uint_t                 i;
    ngx_etcd_catalog_conf_t  **catalogs;

    catalogs = restore->conf->catalogs.elts;
    rc = NGX_DECLINED;

    for (i = 0; i < restore->conf->catalogs.nelts && rc == NGX_DECLINED; i++) {

        if (!ngx_etcd_restore_matches(&catalogs[i]->service, record, name)) {
            continue;
        }

        rc = ngx_etcd_restore_catalog_set(catalogs[i], &record->key,
                                          restore->pool, service);

        restore->revisions[i] = (rc == NGX_OK
                                 && ngx_etcd_str_equal(pattern,
                                                   &catalogs[i]->pattern.text))
                                ? ngx_min(restore->revisions[i],
                                          record->modified)
                                : 0;
    }

    return rc;
}


static void
ngx_etcd_restore_close(ngx_etcd_restore_t *restore)
{
    ngx_etcd_restore_set_t  **sets;

    if (restore->open) {
        sets = restore->sets.elts;
        restore->open = 0;

        ngx_etcd_member_diff_close(&sets[restore->sets.nelts - 1]->diff);
    }
}


/* The service has the members that follow. */

static ngx_int_t
ngx_etcd_restore_open(ngx_etcd_restore_t *restore,
    ngx_etcd_service_conf_t *service, ngx_etcd_state_record_t *record)
{
    int64_t                  left;
    ngx_etcd_restore_set_t  *set, **slot;

    set = ngx_pcalloc(restore->pool, sizeof(ngx_etcd_restore_set_t));
    slot = ngx_array_push(&restore->sets);

    if (set == NULL || slot == NULL) {
        return ngx_etcd_restore_refuse(restore, "no memory");
    }

    *slot = set;

    set->service = service;
    set->params = (uint32_t) record->lease;
    set->revision = record->modified;

    if (record->created != 0) {
        left = (int64_t) (record->created - ngx_time());
        left = ngx_min(ngx_max(left, 0), NGX_ETCD_GUARD_LONGEST / 1000);

        set->held_until = ngx_etcd_clock() + left * 1000;
    }

    set->diff.zone = &restore->conf->zone;
    set->diff.set = service->set;
    set->diff.log = ngx_cycle->log;
    set->diff.unowned = 1;

    if (ngx_etcd_member_diff_open(&set->diff, 0, 0) != NGX_OK) {
        return ngx_etcd_restore_refuse(restore, "no memory");
    }

    restore->open = 1;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_restore_set(ngx_etcd_restore_t *restore,
    ngx_etcd_state_record_t *record)
{
    u_char                   *p, *last;
    ngx_int_t                 rc;
    ngx_str_t                 name, pattern;
    ngx_etcd_service_conf_t  *service;

    ngx_etcd_restore_close(restore);

    name = record->data;
    ngx_str_null(&pattern);

    last = name.data + name.len;
    p = ngx_strlchr(name.data, last, '\0');

    if (p != NULL) {
        name.len = p - name.data;
        pattern.data = p + 1;
        pattern.len = last - pattern.data;
    }

    service = ngx_etcd_restore_service(restore, record, &name);

    if (service == NULL) {
        rc = ngx_etcd_restore_catalog(restore, record, &name, &pattern,
                                      &service);
        if (rc == NGX_DECLINED) {
            return NGX_OK;
        }

        if (rc != NGX_OK) {
            return ngx_etcd_restore_refuse(restore, "the \"zone\" is too "
                                           "small for its sets");
        }
    }

    return ngx_etcd_restore_open(restore, service, record);
}


/*
 * Reads what a value of etcd is decoded to: limits and etcd_allow apply.  A
 * host name has one of its addresses, or none.
 */

static ngx_int_t
ngx_etcd_restore_decode(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    ngx_str_t *data)
{
    char       *fault;
    ngx_str_t   address;

    fault = ngx_etcd_state_member_read(data, member, &address);

    if (fault != NULL) {
        return ngx_etcd_decode_invalid(d, fault, NULL,
                                       "is not what a member has");
    }

    if (member->host.len != 0 && address.len == 0) {
        ngx_etcd_address_unresolved(member);
        return NGX_OK;
    }

    if (ngx_etcd_address_set(d, member, "address", &address, 0) != NGX_OK) {
        return NGX_ERROR;
    }

    return (member->sockaddr.sockaddr.sa_family != AF_UNSPEC)
           ? NGX_OK : ngx_etcd_decode_invalid(d, "address", &address,
                                              "is a host name");
}


/*
 * The members of a key may be scattered over the file, so each is registered
 * without a search.  A key that has an address twice is read again by the
 * agent.
 */

static ngx_int_t
ngx_etcd_restore_register(ngx_etcd_restore_t *restore,
    ngx_etcd_member_diff_t *diff, ngx_etcd_state_record_t *record,
    ngx_etcd_member_t *member)
{
    ngx_int_t          rc;
    ngx_etcd_key_t    *key;
    Etcd__KeyValue     kv;
    ngx_etcd_entry_t  *entry;

    etcd__key_value__init(&kv);

    kv.create_revision = record->created;
    kv.mod_revision = record->modified;
    kv.lease = record->lease;

    key = ngx_etcd_member_diff_key(diff, &record->key);

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

    if (record->flags & NGX_ETCD_STATE_GONE) {
        entry = ngx_etcd_zone_at(diff->zone, key->regs->entry);
        entry->gone = (record->flags & NGX_ETCD_STATE_HELD)
                      ? NGX_ETCD_ENTRY_HELD : NGX_ETCD_ENTRY_KEPT;
    }

    restore->nmembers++;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_restore_member(ngx_etcd_restore_t *restore,
    ngx_etcd_state_record_t *record)
{
    ngx_str_t                 reason;
    ngx_etcd_decode_t         d;
    ngx_etcd_member_t         member;
    ngx_etcd_restore_set_t  **sets, *set;

    if (!restore->open) {
        return NGX_OK;
    }

    if (record->key.len == 0 || record->key.len > NGX_ETCD_DECODE_MAX_KEY) {
        return ngx_etcd_restore_refuse(restore, "a key has %uz bytes",
                                       record->key.len);
    }

    sets = restore->sets.elts;
    set = sets[restore->sets.nelts - 1];

    ngx_etcd_decode_init(&d, &set->service->member, &record->key,
                         restore->pool, NULL, &reason);

    /* members are compared as bytes, padding included */

    ngx_memzero(&member, sizeof(ngx_etcd_member_t));

    if (ngx_etcd_restore_decode(&d, &member, &record->data) != NGX_OK) {
        return ngx_etcd_restore_refuse(restore,
                                       "upstream \"%V\": key \"%V\": %V",
                                       &set->service->name,
                                       ngx_etcd_shown(&record->key), &reason);
    }

    return ngx_etcd_restore_register(restore, &set->diff, record, &member);
}


/* A value that a map may not have any more is dropped. */

static ngx_int_t
ngx_etcd_restore_map(ngx_etcd_restore_t *restore,
    ngx_etcd_value_map_conf_t *conf, ngx_str_t *key, ngx_str_t *value,
    uint64_t modified)
{
    u_char                      buf[NGX_ETCD_VALUE_REASON], *table;
    ngx_str_t                   reason;
    ngx_etcd_restore_change_t  *change;

    if (modified == 0
        || conf->type == NGX_ETCD_VALUE_PEM
        || ngx_etcd_value_map_wants(conf, key) == NULL
        || ngx_etcd_value_conf_refuse(conf, key, value, NULL, buf, &reason)
           != NULL)
    {
        return NGX_OK;
    }

    change = ngx_array_push(&restore->changes);
    table = ngx_pnalloc(restore->pool, conf->split
                                       ? NGX_ETCD_SPLIT_ROOM(value->len) : 1);

    if (change == NULL || table == NULL) {
        return ngx_etcd_restore_refuse(restore, "no memory");
    }

    ngx_memzero(change, sizeof(ngx_etcd_restore_change_t));

    change->map = conf;
    change->change.op = NGX_ETCD_VALUE_PUT;
    change->change.revision = modified;
    change->change.source = ngx_etcd_value_conf_source(conf, key, value);
    change->change.value = *value;

    (void) ngx_etcd_value_conf_table(conf, key, value, table,
                                     &change->change.table);

    change->change.key.data = key->data + conf->literal.len;
    change->change.key.len = key->len - conf->literal.len;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_restore_value(ngx_etcd_restore_t *restore,
    ngx_etcd_state_record_t *record)
{
    u_char                       buf[NGX_ETCD_VALUE_REASON];
    ngx_str_t                    reason;
    ngx_uint_t                   i;
    ngx_etcd_value_map_conf_t  **maps;

    if (ngx_etcd_value_refuse(&record->data, NGX_ETCD_VALUE_MAP_MAX_SIZE,
                              NGX_ETCD_VALUE_ANY, buf, &reason)
        != NULL)
    {
        return ngx_etcd_restore_refuse(restore, "a %V", &reason);
    }

    maps = restore->conf->value_maps.elts;

    for (i = 0; i < restore->conf->value_maps.nelts; i++) {
        if (ngx_etcd_restore_map(restore, maps[i], &record->key, &record->data,
                                 record->modified)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_restore_end(ngx_etcd_restore_t *restore,
    ngx_etcd_state_record_t *record)
{
    ngx_etcd_restore_close(restore);

    return NGX_DONE;
}


/* The kinds of records, and those that each may follow; 0: it is the first. */

#define ngx_etcd_restore_kind(kind)  (1 << (kind))

static const struct {
    ngx_uint_t                  after;
    ngx_int_t                 (*handler)(ngx_etcd_restore_t *restore,
                                         ngx_etcd_state_record_t *record);
} ngx_etcd_restore_kinds[] = {

    { 0, NULL },

    { ngx_etcd_restore_kind(0), ngx_etcd_restore_origin },

    { ngx_etcd_restore_kind(NGX_ETCD_STATE_ORIGIN)
      | ngx_etcd_restore_kind(NGX_ETCD_STATE_SET)
      | ngx_etcd_restore_kind(NGX_ETCD_STATE_MEMBER),
      ngx_etcd_restore_set },

    { ngx_etcd_restore_kind(NGX_ETCD_STATE_SET)
      | ngx_etcd_restore_kind(NGX_ETCD_STATE_MEMBER),
      ngx_etcd_restore_member },

    { ~ngx_etcd_restore_kind(0), ngx_etcd_restore_value },

    { ~ngx_etcd_restore_kind(0), ngx_etcd_restore_end }
};


static ngx_int_t
ngx_etcd_restore_records(ngx_etcd_restore_t *restore, ngx_str_t *text)
{
    char                     *fault;
    u_char                   *at;
    ngx_int_t                 rc;
    ngx_str_t                 rest;
    ngx_uint_t                before;
    ngx_etcd_state_record_t   record;

    rest = *text;

    if (ngx_etcd_state_open(&rest) != NGX_OK) {
        return ngx_etcd_restore_refuse(restore, "its checksum is wrong");
    }

    record.kind = 0;

    do {
        at = rest.data;
        before = record.kind;
        fault = ngx_etcd_state_get(&rest, &record);

        if (fault != NULL) {
            return ngx_etcd_restore_refuse(restore, "%s at byte %uz", fault,
                                           at - text->data);
        }

        if (record.kind > NGX_ETCD_STATE_END
            || !(ngx_etcd_restore_kinds[record.kind].after & 1 << before))
        {
            return ngx_etcd_restore_refuse(restore, "a record of kind %ui at "
                                           "byte %uz is out of place",
                                           record.kind, at - text->data);
        }

        rc = ngx_etcd_restore_kinds[record.kind].handler(restore, &record);

    } while (rc == NGX_OK);

    if (rc == NGX_DONE && rest.len != 0) {
        return ngx_etcd_restore_refuse(restore, "there is more after its end");
    }

    return (rc == NGX_DONE) ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_etcd_restore_commit(ngx_etcd_restore_t *restore)
{
    ngx_uint_t                i;
    ngx_etcd_commit_t         commit;
    ngx_etcd_member_set_t    *set;
    ngx_etcd_restore_set_t  **sets;

    sets = restore->sets.elts;

    for (i = 0; i < restore->sets.nelts; i++) {
        set = sets[i]->service->set;

        ngx_memzero(&commit, sizeof(ngx_etcd_commit_t));

        commit.ops = &sets[i]->diff.batch.ops;
        commit.revision = sets[i]->revision;
        commit.force = 1;

        if (ngx_etcd_commit(&restore->conf->zone, set, &commit) != NGX_OK) {
            return ngx_etcd_restore_refuse(restore, "the zone is locked");
        }

        set->params = sets[i]->params;
        set->held_until = sets[i]->held_until;

        if (sets[i]->revision != 0) {
            set->state = NGX_ETCD_MEMBER_SET_SYNCED;
        }
    }

    return NGX_OK;
}


/* Catalogs are complete up to a revision, or are to be listed. */

static void
ngx_etcd_restore_finish(ngx_etcd_restore_t *restore)
{
    ngx_uint_t                  i;
    ngx_etcd_set_map_t         *map;
    ngx_etcd_catalog_conf_t   **catalogs;
    ngx_etcd_restore_change_t  *changes;

    catalogs = restore->conf->catalogs.elts;

    for (i = 0; i < restore->conf->catalogs.nelts; i++) {

        if (restore->revisions[i] != 0
            && restore->revisions[i] != UINT64_MAX)
        {
            map = catalogs[i]->map;
            map->revision = restore->revisions[i];
            map->state = NGX_ETCD_MEMBER_SET_SYNCED;
        }
    }

    changes = restore->changes.elts;

    for (i = 0; i < restore->changes.nelts; i++) {
        ngx_etcd_value_object_restore(changes[i].map, &changes[i].change);
    }
}


/*
 * All entries are created before the first set is changed.  If that fails, the
 * entries stay pending until the first owner of the zone frees them.
 */

ngx_int_t
ngx_etcd_restore(ngx_etcd_restore_t *restore, ngx_str_t *text)
{
    size_t                     size;
    ngx_int_t                  rc;
    ngx_uint_t                 i, version;
    ngx_etcd_restore_set_t   **sets;
    ngx_etcd_catalog_conf_t  **catalogs;

    version = ngx_etcd_state_version(text);

    if (version == 0) {
        return ngx_etcd_restore_refuse(restore, "it is no state file");
    }

    if (version != NGX_ETCD_STATE_VERSION) {
        return ngx_etcd_restore_refuse(restore, "its version is %ui, not %d",
                                       version, NGX_ETCD_STATE_VERSION);
    }

    size = (1 + restore->conf->catalogs.nelts) * sizeof(uint64_t);

    restore->revisions = ngx_palloc(restore->pool, size);

    if (restore->revisions == NULL
        || ngx_array_init(&restore->sets, restore->pool, 16,
                          sizeof(ngx_etcd_restore_set_t *))
           != NGX_OK
        || ngx_array_init(&restore->changes, restore->pool, 16,
                          sizeof(ngx_etcd_restore_change_t))
           != NGX_OK)
    {
        return ngx_etcd_restore_refuse(restore, "no memory");
    }

    /* UINT64_MAX: no set yet */

    ngx_memset(restore->revisions, 0xff, size);

    rc = ngx_etcd_restore_records(restore, text);

    if (rc == NGX_OK) {
        rc = ngx_etcd_restore_commit(restore);
    }

    sets = restore->sets.elts;

    for (i = 0; i < restore->sets.nelts; i++) {
        ngx_etcd_member_diff_destroy(&sets[i]->diff);
    }

    if (rc == NGX_OK) {
        ngx_etcd_restore_finish(restore);
        return NGX_OK;
    }

    catalogs = restore->conf->catalogs.elts;

    for (i = 0; i < restore->conf->catalogs.nelts; i++) {
        ngx_etcd_set_map_drop(&restore->conf->zone, catalogs[i]->map);
    }

    return NGX_ERROR;
}
