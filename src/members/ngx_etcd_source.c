
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_decode.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_source.h>


/*
 * Groups: several keys that make one member, "PREFIX/0/url" and
 * "PREFIX/0/weight".  After every whole revision the source registers the
 * common part of the keys, "PREFIX/0", as a key whose value is an object of
 * their values: {"url":"...","weight":"..."}.
 */

/* all groups of one service */

typedef struct {
    ngx_etcd_hash_table_t        map;          /* of groups, by their path */
    ngx_queue_t                  groups;       /* changed ones first, then those
                                                  of former lists */
    uint32_t                     list;         /* number of lists */
    unsigned                     ready:1;      /* all changes of a revision are
                                                  known, and to be registered */
    unsigned                     sweep:1;      /* then keys that are not in the
                                                  list are gone */
} ngx_etcd_multi_keys_t;


typedef struct {
    ngx_str_t                    path;         /* first */
    ngx_queue_t                  queue;
    ngx_queue_t                  parts;
    int64_t                      revision;     /* of the last change */
    uint32_t                     list;         /* the last one after which the
                                                  group was registered */
    unsigned                     changed:1;
} ngx_etcd_multi_key_t;


/* one key of a group */

typedef struct {
    ngx_etcd_mirror_entry_t      entry;        /* must be the first field */
    ngx_queue_t                  queue;        /* in the group */
    ngx_etcd_multi_key_t        *group;        /* NULL: not yet */
} ngx_etcd_multi_key_part_t;


static ngx_int_t
ngx_etcd_multi_key_start(ngx_etcd_service_t *service, ngx_pool_t *pool)
{
    ngx_etcd_multi_keys_t  *groups;

    groups = ngx_pcalloc(pool, sizeof(ngx_etcd_multi_keys_t));
    if (groups == NULL) {
        return NGX_ERROR;
    }

    ngx_etcd_hash_table_init(&groups->map, service->log);
    ngx_queue_init(&groups->groups);

    service->ctx = groups;

    return NGX_OK;
}


static void
ngx_etcd_multi_key_destroy(ngx_etcd_multi_keys_t *groups,
    ngx_etcd_multi_key_t *group)
{
    ngx_etcd_hash_table_remove(&groups->map, &group->path);
    ngx_queue_remove(&group->queue);
    ngx_free(group);
}


static void
ngx_etcd_multi_key_stop(ngx_etcd_service_t *service)
{
    ngx_queue_t            *q;
    ngx_etcd_multi_keys_t  *groups;
    ngx_etcd_multi_key_t   *group;

    groups = service->ctx;

    while (!ngx_queue_empty(&groups->groups)) {
        q = ngx_queue_head(&groups->groups);
        group = ngx_queue_data(q, ngx_etcd_multi_key_t, queue);
        ngx_etcd_multi_key_destroy(groups, group);
    }

    ngx_etcd_hash_table_done(&groups->map);
}


static void
ngx_etcd_multi_key_split(ngx_str_t *key, ngx_str_t *path, ngx_str_t *name)
{
    u_char  *p, *last;

    last = key->data + key->len;

    for (p = last; p > key->data && p[-1] != '/'; p--) { /* void */ }

    name->data = p;
    name->len = last - p;

    path->data = key->data;
    path->len = (p > key->data) ? p - key->data - 1 : 0;
}


static ngx_uint_t
ngx_etcd_multi_key_wants(ngx_etcd_service_conf_t *conf, ngx_str_t *key)
{
    ngx_str_t  path, name;

    ngx_etcd_multi_key_split(key, &path, &name);

    return path.len != 0 && ngx_etcd_format_part(conf->member.format, &name);
}


/* Adds a new key to its group.  NGX_ERROR: no memory. */

static ngx_int_t
ngx_etcd_multi_key_join(ngx_etcd_multi_keys_t *groups,
    ngx_etcd_multi_key_part_t *part)
{
    ngx_str_t              path, name;
    ngx_etcd_multi_key_t  *group;

    ngx_etcd_multi_key_split(&part->entry.key, &path, &name);

    group = ngx_etcd_hash_table_find(&groups->map, &path);

    if (group == NULL) {
        group = ngx_etcd_hash_table_add(&groups->map, &path,
                                        sizeof(ngx_etcd_multi_key_t));
        if (group == NULL) {
            return NGX_ERROR;
        }

        ngx_queue_init(&group->parts);
        ngx_queue_insert_tail(&groups->groups, &group->queue);
    }

    part->group = group;
    ngx_queue_insert_head(&group->parts, &part->queue);

    return NGX_OK;
}


static void
ngx_etcd_multi_key_touch(ngx_etcd_multi_keys_t *groups,
    ngx_etcd_multi_key_t *group, int64_t revision)
{
    group->revision = ngx_max(group->revision, revision);

    if (group->changed) {
        return;
    }

    group->changed = 1;

    ngx_queue_remove(&group->queue);
    ngx_queue_insert_head(&groups->groups, &group->queue);
}


static void
ngx_etcd_multi_key_changed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_multi_key_part_t  *part;

    part = (ngx_etcd_multi_key_part_t *) entry;

    if (part->group == NULL
        && ngx_etcd_multi_key_join(service->ctx, part) != NGX_OK)
    {
        service->diff.broken = 1;
        return;
    }

    ngx_etcd_multi_key_touch(service->ctx, part->group, entry->mod_revision);
}


static void
ngx_etcd_multi_key_removed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_multi_key_part_t  *part;

    part = (ngx_etcd_multi_key_part_t *) entry;

    if (ngx_etcd_mirror_known(entry) && part->group != NULL) {
        ngx_etcd_multi_key_touch(service->ctx, part->group,
                                 entry->mod_revision);
        ngx_queue_remove(&part->queue);
    }
}


/* After a list, all groups are registered: keys of other groups are gone. */

static void
ngx_etcd_multi_key_complete(ngx_etcd_service_t *service)
{
    ngx_etcd_multi_keys_t  *groups;

    groups = service->ctx;
    groups->ready = 1;

    if (service->mirror.relisted) {
        groups->list++;
        groups->sweep = 1;
        ngx_etcd_member_diff_select(&service->diff);
    }
}


/* A value that is not UTF-8 becomes an array, which no decoder accepts. */

static ngx_int_t
ngx_etcd_multi_key_part(json_t *object, ngx_etcd_mirror_entry_t *entry)
{
    json_t     *value;
    ngx_str_t   path, name, text;

    text = entry->value;
    ngx_etcd_decode_trim(&text);

    if (text.len == 0) {
        value = json_string("");

    } else if (ngx_etcd_utf8_valid(text.data, text.data + text.len)) {
        value = json_stringn((char *) text.data, text.len);

    } else {
        value = json_array();
    }

    /* the format knows the name */

    ngx_etcd_multi_key_split(&entry->key, &path, &name);

    return json_object_setn_new(object, (char *) name.data, name.len, value)
           ? NGX_ERROR : NGX_OK;
}


/* The caller releases the object.  NULL: no memory. */

static json_t *
ngx_etcd_multi_key_value(ngx_etcd_multi_key_t *group)
{
    json_t                     *object;
    ngx_queue_t                *q;
    ngx_etcd_multi_key_part_t  *part;

    object = json_object();

    for (q = ngx_queue_head(&group->parts);
         q != ngx_queue_sentinel(&group->parts);
         q = ngx_queue_next(q))
    {
        part = ngx_queue_data(q, ngx_etcd_multi_key_part_t, queue);

        if (ngx_etcd_multi_key_part(object, &part->entry) != NGX_OK) {
            json_decref(object);
            return NULL;
        }
    }

    return object;
}


static void
ngx_etcd_multi_key_register(ngx_etcd_service_t *service,
    ngx_etcd_multi_key_t *group)
{
    json_t                     *value;
    ngx_queue_t                *q;
    ngx_etcd_key_t             *key;
    Etcd__KeyValue              kv;
    ngx_etcd_multi_key_part_t  *part;
    ngx_etcd_mirror_entry_t    *entry, *bad;

    if (ngx_queue_empty(&group->parts)) {
        key = ngx_etcd_index_find(&service->diff.index, &group->path);

        if (key != NULL) {
            (void) ngx_etcd_index_gone(&service->diff.index, key);
        }

        return;
    }

    etcd__key_value__init(&kv);

    kv.mod_revision = group->revision;
    bad = NULL;

    for (q = ngx_queue_head(&group->parts);
         q != ngx_queue_sentinel(&group->parts);
         q = ngx_queue_next(q))
    {
        part = ngx_queue_data(q, ngx_etcd_multi_key_part_t, queue);
        entry = &part->entry;

        if (kv.create_revision == 0) {
            kv.create_revision = entry->create_revision;
            kv.lease = entry->lease;
        }

        kv.create_revision = ngx_min(kv.create_revision,
                                     entry->create_revision);

        /* a member that loses one of its keys is none */

        if (entry->lease == 0) {
            kv.lease = 0;
        }

        if (entry->value.len > NGX_ETCD_DECODE_MAX_VALUE) {
            bad = entry;
        }
    }

    key = ngx_etcd_member_diff_key(&service->diff, &group->path);
    value = ngx_etcd_multi_key_value(group);

    if (key == NULL || value == NULL) {
        service->diff.broken = 1;

    } else if (bad != NULL) {

        /* refused as any value of this length is */

        ngx_etcd_member_diff_put(&service->diff, key, &bad->value, NULL, &kv);

    } else {
        ngx_etcd_member_diff_put(&service->diff, key, NULL, value, &kv);
    }

    json_decref(value);
}


/* A group that is registered goes to the end of the queue. */

static ngx_int_t
ngx_etcd_multi_key_register_all(ngx_etcd_service_t *service, uint64_t until)
{
    ngx_queue_t            *q;
    ngx_etcd_multi_keys_t  *groups;
    ngx_etcd_multi_key_t   *group;

    groups = service->ctx;

    while (!ngx_queue_empty(&groups->groups)) {

        q = ngx_queue_head(&groups->groups);
        group = ngx_queue_data(q, ngx_etcd_multi_key_t, queue);

        if (!group->changed && group->list == groups->list) {
            break;
        }

        if (ngx_etcd_time_budget_now() >= until) {
            return NGX_AGAIN;
        }

        group->changed = 0;
        group->list = groups->list;
        ngx_etcd_multi_key_register(service, group);

        ngx_queue_remove(q);
        ngx_queue_insert_tail(&groups->groups, q);

        if (ngx_queue_empty(&group->parts)) {
            ngx_etcd_multi_key_destroy(groups, group);
        }
    }

    return groups->sweep ? ngx_etcd_member_diff_sweep(&service->diff, until)
                         : NGX_OK;
}


/* All groups are registered after the next list, if there is to be one. */

static ngx_int_t
ngx_etcd_multi_key_proceed(ngx_etcd_service_t *service, uint64_t until)
{
    ngx_int_t               rc;
    ngx_etcd_multi_keys_t  *groups;

    groups = service->ctx;
    rc = NGX_OK;

    if (groups->ready && service->mirror.synced) {
        rc = ngx_etcd_multi_key_register_all(service, until);
    }

    if (rc == NGX_OK) {
        groups->ready = 0;
        groups->sweep = 0;
    }

    return rc;
}


const ngx_etcd_source_t  ngx_etcd_source_groups = {
    .kind = "members",
    .keep = NGX_ETCD_DECODE_MAX_VALUE + 1,
    .entry_size = sizeof(ngx_etcd_multi_key_part_t),
    .restorable = 1,
    .create = ngx_etcd_multi_key_start,
    .destroy = ngx_etcd_multi_key_stop,
    .wants = ngx_etcd_multi_key_wants,
    .changed = ngx_etcd_multi_key_changed,
    .removed = ngx_etcd_multi_key_removed,
    .complete = ngx_etcd_multi_key_complete,
    .proceed = ngx_etcd_multi_key_proceed,
};


static void
ngx_etcd_source_changed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_key_t  *key;
    Etcd__KeyValue   kv;

    if (service->diff.broken) {
        return;
    }

    key = (ngx_etcd_key_t *) entry;

    ngx_etcd_index_present(&service->diff.index, key);

    etcd__key_value__init(&kv);

    kv.create_revision = entry->create_revision;
    kv.mod_revision = entry->mod_revision;
    kv.lease = entry->lease;

    ngx_etcd_member_diff_put(&service->diff, key, &entry->value, NULL, &kv);
}


/* Called also while the service is broken: the mirror frees the entry. */

static void
ngx_etcd_source_removed(ngx_etcd_service_t *service,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_key_t          *key;
    ngx_etcd_member_diff_t  *diff;

    key = (ngx_etcd_key_t *) entry;
    diff = &service->diff;

    if (!ngx_etcd_mirror_known(entry) || !diff->indexed) {
        return;
    }

    ngx_etcd_key_report_unused(&diff->report, key, NULL, 0);

    if (ngx_etcd_index_gone(&diff->index, key) != NGX_OK) {
        diff->broken = 1;
    }
}


/*
 * The source of services whose keys are members one by one: each key registers
 * the members that its value names.
 */

const ngx_etcd_source_t  ngx_etcd_source_keys = {
    .kind = "members",
    .entry_size = sizeof(ngx_etcd_key_t),
    .indexed = 1,
    .restorable = 1,
    .changed = ngx_etcd_source_changed,
    .removed = ngx_etcd_source_removed,
};


int64_t
ngx_etcd_source_staleness(ngx_etcd_service_conf_t *conf,
    ngx_etcd_member_set_t *set)
{
    return conf->source->verified ? ngx_etcd_member_set_staleness(set)
                                  : ngx_etcd_zone_staleness(conf->zone);
}
