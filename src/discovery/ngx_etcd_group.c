
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <jansson.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_group.h>
#include <ngx_etcd_registration.h>


typedef struct ngx_etcd_group_s  ngx_etcd_group_t;

struct ngx_etcd_group_s {
    ngx_str_node_t             sn;           /* first: in a tree */
    ngx_queue_t                queue;
    ngx_etcd_part_t           *parts;
    uint64_t                   revision;     /* of the last change */
    ngx_uint_t                 changed;
};


static ngx_uint_t ngx_etcd_group_split(ngx_etcd_groups_t *groups,
    ngx_str_t *key, ngx_str_t *path, ngx_str_t *name);
static ngx_etcd_group_t *ngx_etcd_group_find(ngx_etcd_groups_t *groups,
    ngx_str_t *path);
static ngx_etcd_group_t *ngx_etcd_group_create(ngx_etcd_groups_t *groups,
    ngx_str_t *path);
static void ngx_etcd_group_destroy(ngx_etcd_groups_t *groups,
    ngx_etcd_group_t *group);
static void ngx_etcd_group_changed(ngx_etcd_groups_t *groups,
    ngx_etcd_group_t *group, uint64_t revision);
static void ngx_etcd_group_register(ngx_etcd_groups_t *groups,
    ngx_etcd_group_t *group);
static char *ngx_etcd_group_value(ngx_etcd_group_t *group);
static ngx_etcd_part_t *ngx_etcd_part_create(ngx_etcd_groups_t *groups,
    ngx_str_t *name, Etcd__KeyValue *kv);
static void ngx_etcd_part_remove(ngx_etcd_group_t *group, ngx_str_t *name);


ngx_etcd_groups_t *
ngx_etcd_groups_create(ngx_etcd_service_t *service, ngx_pool_t *pool)
{
    ngx_etcd_groups_t  *groups;

    groups = ngx_pcalloc(pool, sizeof(ngx_etcd_groups_t));
    if (groups == NULL) {
        return NULL;
    }

    groups->service = service;

    ngx_rbtree_init(&groups->tree, &groups->sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_queue_init(&groups->groups);

    return groups;
}


void
ngx_etcd_groups_destroy(ngx_etcd_groups_t *groups)
{
    ngx_queue_t  *q;

    while (!ngx_queue_empty(&groups->groups)) {
        q = ngx_queue_head(&groups->groups);
        ngx_etcd_group_destroy(groups,
                               ngx_queue_data(q, ngx_etcd_group_t, queue));
    }
}


void
ngx_etcd_groups_list(ngx_etcd_groups_t *groups)
{
    groups->mark++;
}


void
ngx_etcd_groups_put(ngx_etcd_groups_t *groups, Etcd__KeyValue *kv)
{
    ngx_str_t          key, path, name;
    ngx_etcd_part_t   *part;
    ngx_etcd_group_t  *group;

    key.data = kv->key.data;
    key.len = kv->key.len;

    if (!ngx_etcd_group_split(groups, &key, &path, &name)) {
        return;
    }

    group = ngx_etcd_group_find(groups, &path);

    if (group == NULL) {
        group = ngx_etcd_group_create(groups, &path);
    }

    part = ngx_etcd_part_create(groups, &name, kv);

    if (group == NULL || part == NULL) {
        if (part != NULL) {
            ngx_free(part);
        }

        groups->service->broken = 1;
        return;
    }

    ngx_etcd_part_remove(group, &name);

    part->next = group->parts;
    group->parts = part;

    ngx_etcd_group_changed(groups, group, kv->mod_revision);
}


void
ngx_etcd_groups_delete(ngx_etcd_groups_t *groups, Etcd__KeyValue *kv)
{
    ngx_str_t          key, path, name;
    ngx_etcd_group_t  *group;

    key.data = kv->key.data;
    key.len = kv->key.len;

    if (!ngx_etcd_group_split(groups, &key, &path, &name)) {
        return;
    }

    ngx_etcd_audit_deleted(&groups->service->audit, &key);

    group = ngx_etcd_group_find(groups, &path);

    if (group != NULL) {
        ngx_etcd_part_remove(group, &name);
        ngx_etcd_group_changed(groups, group, kv->mod_revision);
    }
}


/* all that were listed have changed already, the others lose something */

void
ngx_etcd_groups_sweep(ngx_etcd_groups_t *groups)
{
    ngx_queue_t       *q;
    ngx_etcd_part_t   *part, *next;
    ngx_etcd_group_t  *group;

    for (q = ngx_queue_head(&groups->groups);
         q != ngx_queue_sentinel(&groups->groups);
         q = ngx_queue_next(q))
    {
        group = ngx_queue_data(q, ngx_etcd_group_t, queue);

        for (part = group->parts; part != NULL; part = next) {
            next = part->next;

            if (part->mark != groups->mark) {
                ngx_etcd_part_remove(group, &part->name);
            }
        }

        group->changed = 1;
    }

    ngx_etcd_groups_register(groups);
}


void
ngx_etcd_groups_register(ngx_etcd_groups_t *groups)
{
    ngx_queue_t       *q, *next;
    ngx_etcd_group_t  *group;

    for (q = ngx_queue_head(&groups->groups);
         q != ngx_queue_sentinel(&groups->groups);
         q = next)
    {
        next = ngx_queue_next(q);
        group = ngx_queue_data(q, ngx_etcd_group_t, queue);

        if (!group->changed) {
            break;
        }

        group->changed = 0;
        ngx_etcd_group_register(groups, group);

        ngx_queue_remove(&group->queue);
        ngx_queue_insert_tail(&groups->groups, &group->queue);

        if (group->parts == NULL) {
            ngx_etcd_group_destroy(groups, group);
        }
    }
}


ngx_uint_t
ngx_etcd_groups_wants(ngx_etcd_groups_t *groups, ngx_str_t *key)
{
    ngx_str_t  path, name;

    return ngx_etcd_group_split(groups, key, &path, &name);
}


ngx_etcd_part_t *
ngx_etcd_groups_find(ngx_etcd_groups_t *groups, ngx_str_t *key)
{
    ngx_str_t          path, name;
    ngx_etcd_part_t   *part;
    ngx_etcd_group_t  *group;

    if (!ngx_etcd_group_split(groups, key, &path, &name)) {
        return NULL;
    }

    group = ngx_etcd_group_find(groups, &path);

    if (group == NULL) {
        return NULL;
    }

    for (part = group->parts; part != NULL; part = part->next) {

        if (part->name.len == name.len
            && ngx_memcmp(part->name.data, name.data, name.len) == 0)
        {
            return part;
        }
    }

    return NULL;
}


void
ngx_etcd_groups_missing(ngx_etcd_groups_t *groups, ngx_uint_t audited,
    void (*found)(void *data, ngx_etcd_part_t *part, ngx_str_t *path),
    void *data)
{
    ngx_queue_t       *q;
    ngx_etcd_part_t   *part;
    ngx_etcd_group_t  *group;

    for (q = ngx_queue_head(&groups->groups);
         q != ngx_queue_sentinel(&groups->groups);
         q = ngx_queue_next(q))
    {
        group = ngx_queue_data(q, ngx_etcd_group_t, queue);

        for (part = group->parts; part != NULL; part = part->next) {
            if (part->audited != audited) {
                found(data, part, &group->sn.str);
            }
        }
    }
}


/* 0: the key is no part of any member */

static ngx_uint_t
ngx_etcd_group_split(ngx_etcd_groups_t *groups, ngx_str_t *key,
    ngx_str_t *path, ngx_str_t *name)
{
    u_char  *p, *last;

    last = key->data + key->len;

    for (p = last; p > key->data && p[-1] != '/'; p--) { /* void */ }

    name->data = p;
    name->len = last - p;

    path->data = key->data;
    path->len = (p > key->data) ? p - key->data - 1 : 0;

    return path->len != 0
           && ngx_etcd_format_part(groups->service->conf->member.format, name);
}


static ngx_etcd_group_t *
ngx_etcd_group_find(ngx_etcd_groups_t *groups, ngx_str_t *path)
{
    return (ngx_etcd_group_t *)
           ngx_str_rbtree_lookup(&groups->tree, path,
                                 ngx_murmur_hash2(path->data, path->len));
}


static ngx_etcd_group_t *
ngx_etcd_group_create(ngx_etcd_groups_t *groups, ngx_str_t *path)
{
    ngx_etcd_group_t  *group;

    group = ngx_calloc(sizeof(ngx_etcd_group_t) + path->len,
                       groups->service->log);
    if (group == NULL) {
        return NULL;
    }

    group->sn.node.key = ngx_murmur_hash2(path->data, path->len);
    group->sn.str.len = path->len;
    group->sn.str.data = (u_char *) group + sizeof(ngx_etcd_group_t);
    ngx_memcpy(group->sn.str.data, path->data, path->len);

    ngx_rbtree_insert(&groups->tree, &group->sn.node);
    ngx_queue_insert_tail(&groups->groups, &group->queue);

    return group;
}


static void
ngx_etcd_group_destroy(ngx_etcd_groups_t *groups, ngx_etcd_group_t *group)
{
    while (group->parts != NULL) {
        ngx_etcd_part_remove(group, &group->parts->name);
    }

    ngx_rbtree_delete(&groups->tree, &group->sn.node);
    ngx_queue_remove(&group->queue);
    ngx_free(group);
}


static void
ngx_etcd_group_changed(ngx_etcd_groups_t *groups, ngx_etcd_group_t *group,
    uint64_t revision)
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
ngx_etcd_group_register(ngx_etcd_groups_t *groups, ngx_etcd_group_t *group)
{
    char             *value;
    ngx_pool_t       *pool;
    Etcd__KeyValue    kv;
    ngx_etcd_key_t   *key;
    ngx_etcd_part_t  *part;

    etcd__key_value__init(&kv);

    kv.key.data = group->sn.str.data;
    kv.key.len = group->sn.str.len;
    kv.mod_revision = group->revision;

    for (part = group->parts; part != NULL; part = part->next) {

        if (kv.create_revision == 0
            || kv.create_revision > (int64_t) part->create_revision)
        {
            kv.create_revision = part->create_revision;
        }
    }

    if (group->parts == NULL) {
        ngx_etcd_service_delete(groups->service, &kv);
        return;
    }

    value = ngx_etcd_group_value(group);
    pool = ngx_create_pool(4096, groups->service->log);

    if (value == NULL || pool == NULL) {
        groups->service->broken = 1;

    } else {
        kv.value.data = (u_char *) value;
        kv.value.len = ngx_strlen(value);

        /* parts may have gone unseen: the revision of the rest says nothing */

        key = ngx_etcd_index_find(&groups->service->index, &group->sn.str);

        if (key != NULL) {
            key->revision = 0;
        }

        ngx_etcd_service_put(groups->service, &kv, pool);
    }

    if (pool != NULL) {
        ngx_destroy_pool(pool);
    }

    free(value);
}


/* to be freed; NULL: no memory.  Of a value that is no UTF-8 null is left */

static char *
ngx_etcd_group_value(ngx_etcd_group_t *group)
{
    char             *text;
    json_t           *object, *value;
    ngx_etcd_part_t  *part;

    object = json_object();

    for (part = group->parts; part != NULL; part = part->next) {

        value = json_stringn((char *) part->value.data, part->value.len);

        if (value == NULL) {
            value = json_null();
        }

        /* the names are among those of the format */

        (void) json_object_set_new(object, (char *) part->name.data, value);
    }

    text = json_dumps(object, JSON_COMPACT);

    json_decref(object);

    return text;
}


static ngx_etcd_part_t *
ngx_etcd_part_create(ngx_etcd_groups_t *groups, ngx_str_t *name,
    Etcd__KeyValue *kv)
{
    u_char           *p;
    size_t            len;
    ngx_etcd_part_t  *part;

    len = ngx_min(kv->value.len, NGX_ETCD_MEMBER_MAX_VALUE);

    part = ngx_alloc(sizeof(ngx_etcd_part_t) + name->len + 1 + len,
                     groups->service->log);
    if (part == NULL) {
        return NULL;
    }

    p = (u_char *) part + sizeof(ngx_etcd_part_t);

    part->name.data = p;
    part->name.len = name->len;
    p = ngx_cpymem(p, name->data, name->len);
    *p++ = '\0';

    part->value.data = p;
    part->value.len = len;
    ngx_memcpy(p, kv->value.data, len);

    part->create_revision = kv->create_revision;
    part->mod_revision = kv->mod_revision;
    part->audited = 0;
    part->mark = groups->mark;

    return part;
}


static void
ngx_etcd_part_remove(ngx_etcd_group_t *group, ngx_str_t *name)
{
    ngx_etcd_part_t  *part, **p;

    for (p = &group->parts; *p != NULL; p = &part->next) {
        part = *p;

        if (part->name.len == name->len
            && ngx_memcmp(part->name.data, name->data, name->len) == 0)
        {
            *p = part->next;
            ngx_free(part);
            return;
        }
    }
}
