
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_service.h>


static ngx_int_t ngx_etcd_service_seed(ngx_etcd_service_conf_t *conf,
    ngx_etcd_zone_t *zone, ngx_etcd_set_t *set);
static ngx_int_t ngx_etcd_service_open(ngx_etcd_service_t *service);
static void ngx_etcd_service_reopen(ngx_etcd_service_t *service);
static void ngx_etcd_service_params(ngx_etcd_service_t *service);
static void ngx_etcd_service_statics(ngx_etcd_service_t *service);

static void ngx_etcd_service_list(ngx_etcd_watch_t *watch);
static ngx_int_t ngx_etcd_service_keys(ngx_etcd_watch_t *watch,
    Etcd__KeyValue **kvs, size_t n);
static void ngx_etcd_service_listed(ngx_etcd_watch_t *watch,
    int64_t revision);
static void ngx_etcd_service_events(ngx_etcd_watch_t *watch,
    Etcd__Event **events, size_t n, int64_t revision);
static void ngx_etcd_service_failed(ngx_etcd_watch_t *watch,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);

static void ngx_etcd_service_put(ngx_etcd_service_t *service,
    Etcd__KeyValue *kv, ngx_pool_t *pool);
static void ngx_etcd_service_delete(ngx_etcd_service_t *service,
    Etcd__KeyValue *kv);
static void ngx_etcd_service_invalid(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key, Etcd__KeyValue *kv, ngx_str_t *reason);
static void ngx_etcd_service_valid(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key);
static ngx_int_t ngx_etcd_service_members(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key, Etcd__KeyValue *kv, ngx_array_t *members);
static ngx_int_t ngx_etcd_service_member(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key, Etcd__KeyValue *kv, ngx_etcd_member_t *member);
static ngx_etcd_reg_t *ngx_etcd_service_reg(ngx_etcd_reg_t *regs,
    ngx_etcd_member_t *member);
static ngx_int_t ngx_etcd_service_slot(ngx_etcd_service_t *service,
    ngx_etcd_member_t *member, uint32_t *slot);
static ngx_etcd_entry_t *ngx_etcd_service_entry(ngx_etcd_service_t *service,
    ngx_str_t *key, u_char *payload, size_t len, ngx_int_t *rc);
static ngx_int_t ngx_etcd_service_room(ngx_etcd_service_t *service,
    ngx_int_t rc);
static void ngx_etcd_service_gone(ngx_etcd_service_t *service);
static void ngx_etcd_service_remove(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key);
static ngx_etcd_op_t *ngx_etcd_service_op(ngx_etcd_service_t *service,
    ngx_etcd_op_e op, uint32_t slot, ngx_etcd_entry_t *old,
    uint64_t revision);

static void ngx_etcd_service_publish(ngx_event_t *ev);
static void ngx_etcd_service_published(ngx_etcd_service_t *service,
    ngx_uint_t changed);
static void ngx_etcd_service_retry(ngx_event_t *ev);
static ngx_int_t ngx_etcd_service_batch(ngx_etcd_service_t *service);


ngx_int_t
ngx_etcd_service_declare(ngx_etcd_service_conf_t *conf, ngx_etcd_zone_t *zone,
    ngx_etcd_zone_t *old)
{
    ngx_etcd_set_t  *set;

    set = ngx_etcd_set_declare(zone, conf->stream, &conf->name,
                               &conf->prefix);
    if (set == NULL) {
        return NGX_ERROR;
    }

    conf->zone = zone;
    conf->set = set;

    /* of a set that was there the agent takes care: it may have an owner */

    if (set->generation != 0 || set->nslots != 0) {
        return NGX_OK;
    }

    if (old != NULL
        && ngx_etcd_set_inherit(zone, set, old) == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    if (set->nslots != 0) {
        return NGX_OK;
    }

    return ngx_etcd_service_seed(conf, zone, set);
}


/* static servers are members without a key: usable before etcd is asked */

static ngx_int_t
ngx_etcd_service_seed(ngx_etcd_service_conf_t *conf, ngx_etcd_zone_t *zone,
    ngx_etcd_set_t *set)
{
    size_t              len;
    u_char              payload[NGX_ETCD_RECORD_MAX];
    ngx_int_t           rc;
    ngx_str_t           key;
    ngx_uint_t          i, changed;
    ngx_array_t         ops;
    ngx_etcd_op_t       op;
    ngx_etcd_member_t  *member;

    ngx_str_null(&key);
    ngx_memzero(&op, sizeof(ngx_etcd_op_t));

    op.op = NGX_ETCD_OP_PUT;
    ops.elts = &op;
    ops.nelts = 1;

    member = conf->statics.elts;

    for (i = 0; i < conf->statics.nelts; i++) {

        if (i == set->nslots && ngx_etcd_set_grow(zone, set) != NGX_OK) {
            return NGX_ERROR;
        }

        len = ngx_etcd_record_pack(payload, &member[i]);

        op.slot = i;
        op.entry = ngx_etcd_entry_create(zone, set, &key, payload, len, &rc);

        if (op.entry == NULL
            || ngx_etcd_set_commit(zone, set, &ops, 0, 1, &changed) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_etcd_service_t *
ngx_etcd_service_create(ngx_etcd_service_conf_t *conf,
    ngx_etcd_watcher_t *watcher, ngx_pool_t *pool,
    void (*published)(void *data), void (*lost)(void *data), void *data,
    ngx_log_t *log)
{
    ngx_etcd_service_t  *service;

    service = ngx_pcalloc(pool, sizeof(ngx_etcd_service_t));
    if (service == NULL) {
        return NULL;
    }

    service->conf = conf;
    service->zone = conf->zone;
    service->set = conf->set;
    service->log = log;
    service->published = published;
    service->lost = lost;
    service->data = data;

    service->publish.handler = ngx_etcd_service_publish;
    service->publish.data = service;
    service->publish.log = log;

    service->retry.handler = ngx_etcd_service_retry;
    service->retry.data = service;
    service->retry.log = log;
    service->retry.cancelable = 1;

    service->watch.prefix = conf->prefix;
    service->watch.list = ngx_etcd_service_list;
    service->watch.keys = ngx_etcd_service_keys;
    service->watch.listed = ngx_etcd_service_listed;
    service->watch.events = ngx_etcd_service_events;
    service->watch.failed = ngx_etcd_service_failed;
    service->watch.data = service;

    if (ngx_etcd_service_open(service) != NGX_OK) {

        /* the mutex is held, or there is no memory: both may pass */

        service->broken = 1;
        ngx_add_timer(&service->retry, NGX_ETCD_SERVICE_BUSY);
    }

    service->watch.revision = service->broken ? 0 : service->set->revision;

    if (ngx_etcd_watch_add(watcher, &service->watch) != NGX_OK) {
        ngx_etcd_service_destroy(service);
        return NULL;
    }

    return service;
}


void
ngx_etcd_service_destroy(ngx_etcd_service_t *service)
{
    if (service->publish.posted) {
        ngx_delete_posted_event(&service->publish);
    }

    if (service->retry.timer_set) {
        ngx_del_timer(&service->retry);
    }

    if (service->indexed) {
        ngx_etcd_index_destroy(&service->index);
        service->indexed = 0;
    }

    if (service->pool != NULL) {
        ngx_destroy_pool(service->pool);
        service->pool = NULL;
    }
}


/* makes the index from the set as it is, and an empty batch */

static ngx_int_t
ngx_etcd_service_open(ngx_etcd_service_t *service)
{
    if (ngx_etcd_service_batch(service) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_etcd_set_recover(service->zone, service->set) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_etcd_index_create(&service->index, service->set, service->log)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    service->indexed = 1;

    ngx_etcd_service_params(service);
    ngx_etcd_service_statics(service);

    ngx_post_event(&service->publish, &ngx_posted_events);

    return NGX_OK;
}


/* a reload may read the same prefix in another way: every value again */

static void
ngx_etcd_service_params(ngx_etcd_service_t *service)
{
    ngx_queue_t     *q;
    ngx_etcd_key_t  *key;

    if (service->set->params == service->conf->params) {
        return;
    }

    for (q = ngx_queue_head(&service->index.present);
         q != ngx_queue_sentinel(&service->index.present);
         q = ngx_queue_next(q))
    {
        key = ngx_queue_data(q, ngx_etcd_key_t, queue);
        key->revision = 0;
    }

    service->set->params = service->conf->params;
    service->set->revision = 0;
}


/* static servers as this configuration has them */

static void
ngx_etcd_service_statics(ngx_etcd_service_t *service)
{
    ngx_uint_t          i;
    ngx_etcd_reg_t     *reg, *next;
    ngx_etcd_member_t  *member;

    member = service->conf->statics.elts;

    for (i = 0; i < service->conf->statics.nelts; i++) {
        if (ngx_etcd_service_member(service, NULL, NULL, &member[i])
            != NGX_OK)
        {
            break;
        }
    }

    for (reg = service->index.statics; reg != NULL; reg = next) {
        next = reg->next;

        if (reg->seen) {
            reg->seen = 0;
            continue;
        }

        if (ngx_etcd_service_op(service, NGX_ETCD_OP_REMOVE, reg->slot,
                                reg->entry, 0)
            != NULL)
        {
            ngx_etcd_index_remove(&service->index, NULL, reg);
        }
    }
}


/*
 * Index and set may differ, or the set could not take all: everything is read
 * again from the set, and listed.
 */

static void
ngx_etcd_service_reopen(ngx_etcd_service_t *service)
{
    if (service->indexed) {
        ngx_etcd_index_destroy(&service->index);
        service->indexed = 0;
    }

    if (ngx_etcd_service_open(service) != NGX_OK) {
        service->broken = 1;
        ngx_add_timer(&service->retry, NGX_ETCD_SERVICE_BUSY);
        return;
    }

    service->broken = 0;

    ngx_etcd_watch_again(&service->watch, 0);
}


static void
ngx_etcd_service_list(ngx_etcd_watch_t *watch)
{
    ngx_etcd_service_t  *service;

    service = watch->data;

    service->mark++;
    service->skipped = 0;
}


static ngx_int_t
ngx_etcd_service_keys(ngx_etcd_watch_t *watch, Etcd__KeyValue **kvs, size_t n)
{
    size_t               i;
    ngx_pool_t          *pool;
    ngx_etcd_service_t  *service;

    service = watch->data;

    pool = ngx_create_pool(4096, service->log);
    if (pool == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < n && !service->broken; i++) {
        ngx_etcd_service_put(service, kvs[i], pool);
        ngx_reset_pool(pool);
    }

    ngx_destroy_pool(pool);

    return service->broken ? NGX_ERROR : NGX_OK;
}


static void
ngx_etcd_service_listed(ngx_etcd_watch_t *watch, int64_t revision)
{
    ngx_queue_t         *q, *next;
    ngx_etcd_key_t      *key;
    ngx_etcd_service_t  *service;

    service = watch->data;

    if (service->broken) {
        return;
    }

    for (q = ngx_queue_head(&service->index.present);
         q != ngx_queue_sentinel(&service->index.present);
         q = next)
    {
        next = ngx_queue_next(q);
        key = ngx_queue_data(q, ngx_etcd_key_t, queue);

        if (key->mark != service->mark) {
            ngx_etcd_index_gone(&service->index, key);
        }
    }

    service->revision = revision;
    service->refused = NGX_ETCD_GRPC_OK;

    ngx_post_event(&service->publish, &ngx_posted_events);
}


static void
ngx_etcd_service_events(ngx_etcd_watch_t *watch, Etcd__Event **events,
    size_t n, int64_t revision)
{
    size_t               i;
    ngx_pool_t          *pool;
    ngx_etcd_service_t  *service;

    service = watch->data;

    if (service->broken) {
        return;
    }

    pool = ngx_create_pool(4096, service->log);
    if (pool == NULL) {
        service->broken = 1;
    }

    for (i = 0; i < n && !service->broken; i++) {

        if (events[i]->type == ETCD__EVENT__EVENT_TYPE__DELETE) {
            ngx_etcd_service_delete(service, events[i]->kv);

        } else {
            ngx_etcd_service_put(service, events[i]->kv, pool);
            ngx_reset_pool(pool);
        }
    }

    if (pool != NULL) {
        ngx_destroy_pool(pool);
    }

    service->revision = revision;

    ngx_post_event(&service->publish, &ngx_posted_events);
}


static void
ngx_etcd_service_failed(ngx_etcd_watch_t *watch, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_uint_t           level;
    ngx_etcd_service_t  *service;

    service = watch->data;

    level = (service->refused == status) ? NGX_LOG_INFO : NGX_LOG_ERR;
    service->refused = status;

    ngx_log_error(level, service->log, 0,
                  "etcd: upstream \"%V\": prefix \"%V\" cannot be read: "
                  "%s: %V", &service->conf->name, &service->conf->prefix,
                  ngx_etcd_grpc_status_name(status), text);

    if (status == NGX_ETCD_GRPC_PERMISSION_DENIED) {
        service->set->state = NGX_ETCD_SET_DENIED;
    }
}


static void
ngx_etcd_service_put(ngx_etcd_service_t *service, Etcd__KeyValue *kv,
    ngx_pool_t *pool)
{
    ngx_int_t        rc;
    ngx_str_t        name, value, reason;
    ngx_array_t      members;
    ngx_etcd_key_t  *key;

    name.data = kv->key.data;
    name.len = kv->key.len;

    value.data = kv->value.data;
    value.len = kv->value.len;

    key = ngx_etcd_index_key(&service->index, &name);

    if (key == NULL
        || ngx_array_init(&members, pool, 1, sizeof(ngx_etcd_member_t))
           != NGX_OK)
    {
        service->broken = 1;
        return;
    }

    key->mark = service->mark;
    ngx_etcd_index_present(&service->index, key);

    if (key->revision == (uint64_t) kv->mod_revision) {
        return;
    }

    rc = ngx_etcd_member_decode(&service->conf->member, &name, &value, pool,
                                &members, &reason);

    if (rc == NGX_ERROR) {
        ngx_etcd_service_invalid(service, key, kv, &reason);
        key->revision = kv->mod_revision;
        return;
    }

    ngx_etcd_service_valid(service, key);

    if (ngx_etcd_service_members(service, key, kv, &members) == NGX_OK) {
        key->revision = kv->mod_revision;
    }
}


static void
ngx_etcd_service_delete(ngx_etcd_service_t *service, Etcd__KeyValue *kv)
{
    ngx_str_t        name;
    ngx_etcd_key_t  *key;

    name.data = kv->key.data;
    name.len = kv->key.len;

    key = ngx_etcd_index_find(&service->index, &name);

    if (key != NULL) {
        ngx_etcd_index_gone(&service->index, key);
    }
}


/* the last valid member of the key, if any, stays */

static void
ngx_etcd_service_invalid(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    Etcd__KeyValue *kv, ngx_str_t *reason)
{
    ngx_log_error(NGX_LOG_ERR, service->log, 0,
                  "etcd: upstream \"%V\": key \"%V\" at revision %L is "
                  "invalid: %V%s",
                  &service->conf->name, &key->sn.str, kv->mod_revision, reason,
                  key->regs ? ", its last valid member stays" : "");

    key->invalid = 1;

    if (ngx_etcd_set_invalid(service->zone, service->set, &key->sn.str, reason,
                             kv->mod_revision)
        == NGX_AGAIN)
    {
        service->broken = 1;
    }
}


static void
ngx_etcd_service_valid(ngx_etcd_service_t *service, ngx_etcd_key_t *key)
{
    if (!key->invalid) {
        return;
    }

    key->invalid = 0;

    if (ngx_etcd_set_invalid(service->zone, service->set, &key->sn.str, NULL,
                             0)
        == NGX_AGAIN)
    {
        service->broken = 1;
    }
}


/*
 * The members that the key registers, instead of those that it did.  NGX_OK:
 * the batch holds all of it.
 */

static ngx_int_t
ngx_etcd_service_members(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    Etcd__KeyValue *kv, ngx_array_t *members)
{
    ngx_uint_t          i;
    ngx_etcd_reg_t     *reg, *next;
    ngx_etcd_member_t  *member;

    for (reg = key->regs; reg != NULL; reg = reg->next) {
        reg->seen = 0;
    }

    member = members->elts;

    for (i = 0; i < members->nelts; i++) {
        if (ngx_etcd_service_member(service, key, kv, &member[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    for (reg = key->regs; reg != NULL; reg = next) {
        next = reg->next;

        if (reg->seen) {
            continue;
        }

        if (ngx_etcd_service_op(service, NGX_ETCD_OP_REMOVE, reg->slot,
                                reg->entry, kv->mod_revision)
            == NULL)
        {
            return NGX_ERROR;
        }

        ngx_etcd_index_remove(&service->index, key, reg);
    }

    return NGX_OK;
}


/* one member of a key, or a static server (no key): found, changed or new */

static ngx_int_t
ngx_etcd_service_member(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    Etcd__KeyValue *kv, ngx_etcd_member_t *member)
{
    size_t             len;
    u_char             payload[NGX_ETCD_RECORD_MAX];
    uint32_t           slot;
    uint64_t           created, modified;
    ngx_int_t          rc;
    ngx_str_t          none;
    ngx_etcd_op_t     *op;
    ngx_etcd_reg_t    *reg;
    ngx_etcd_entry_t  *entry, *old;

    ngx_str_null(&none);
    len = ngx_etcd_record_pack(payload, member);

    created = (kv != NULL) ? kv->create_revision : 0;
    modified = (kv != NULL) ? kv->mod_revision : 0;

    reg = ngx_etcd_service_reg(key ? key->regs : service->index.statics,
                               member);

    if (reg != NULL) {
        reg->seen = 1;
        old = reg->entry;
        slot = reg->slot;

        if (old->len == len
            && ngx_memcmp(ngx_etcd_entry_payload(old), payload, len) == 0
            && old->create_revision == created)
        {
            if (old->mod_revision == modified && !old->gone) {
                return NGX_OK;
            }

            return (ngx_etcd_service_op(service, NGX_ETCD_OP_TOUCH, slot, old,
                                        modified)
                    != NULL)
                   ? NGX_OK : NGX_ERROR;
        }

    } else {
        old = NULL;

        rc = ngx_etcd_service_slot(service, member, &slot);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    entry = ngx_etcd_service_entry(service, key ? &key->sn.str : &none,
                                   payload, len, &rc);
    if (entry == NULL) {
        return rc;
    }

    entry->create_revision = created;
    entry->mod_revision = modified;

    op = ngx_etcd_service_op(service, NGX_ETCD_OP_PUT, slot, old, modified);
    if (op == NULL) {
        return NGX_ERROR;
    }

    op->entry = entry;

    if (reg != NULL) {
        reg->entry = entry;
        return NGX_OK;
    }

    reg = ngx_etcd_index_add(&service->index, key, entry, slot);
    if (reg == NULL) {
        service->broken = 1;
        return NGX_ERROR;
    }

    reg->seen = 1;

    return NGX_OK;
}


static ngx_etcd_reg_t *
ngx_etcd_service_reg(ngx_etcd_reg_t *regs, ngx_etcd_member_t *member)
{
    ngx_etcd_reg_t     *reg;
    ngx_etcd_record_t   record;

    for (reg = regs; reg != NULL; reg = reg->next) {
        ngx_etcd_record_unpack(&record, ngx_etcd_entry_payload(reg->entry));

        if (record.socklen == member->socklen
            && ngx_memcmp(record.sockaddr, &member->sockaddr, record.socklen)
               == 0)
        {
            return reg;
        }
    }

    return NULL;
}


static ngx_int_t
ngx_etcd_service_slot(ngx_etcd_service_t *service, ngx_etcd_member_t *member,
    uint32_t *slot)
{
    ngx_int_t  rc;

    *slot = ngx_etcd_index_slot(&service->index, (u_char *) &member->sockaddr,
                                member->socklen);

    if (*slot != NGX_ETCD_SET_NO_SLOT) {
        return NGX_OK;
    }

    rc = ngx_etcd_set_grow(service->zone, service->set);
    if (rc != NGX_OK) {
        return ngx_etcd_service_room(service, rc);
    }

    if (ngx_etcd_index_grown(&service->index) != NGX_OK) {
        service->broken = 1;
        return NGX_ERROR;
    }

    *slot = ngx_etcd_index_slot(&service->index, (u_char *) &member->sockaddr,
                                member->socklen);

    return NGX_OK;
}


static ngx_etcd_entry_t *
ngx_etcd_service_entry(ngx_etcd_service_t *service, ngx_str_t *key,
    u_char *payload, size_t len, ngx_int_t *rc)
{
    ngx_etcd_entry_t  *entry;

    entry = ngx_etcd_entry_create(service->zone, service->set, key, payload,
                                  len, rc);

    if (entry == NULL) {
        *rc = ngx_etcd_service_room(service, *rc);
    }

    return entry;
}


/*
 * There was no room for a member: the rest is published, this one is missed
 * until there is room.  Anything else makes the batch useless.
 */

static ngx_int_t
ngx_etcd_service_room(ngx_etcd_service_t *service, ngx_int_t rc)
{
    if (rc == NGX_AGAIN) {
        service->broken = 1;
        return NGX_ERROR;
    }

    service->skipped++;

    return NGX_DECLINED;
}


/* keys that were deleted: their members leave, unless all would */

static void
ngx_etcd_service_gone(ngx_etcd_service_t *service)
{
    ngx_uint_t       keep;
    ngx_queue_t     *q, *next;
    ngx_etcd_key_t  *key;
    ngx_etcd_reg_t  *reg;

    keep = (service->conf->keep && service->index.live == 0);

    for (q = ngx_queue_head(&service->index.gone);
         q != ngx_queue_sentinel(&service->index.gone);
         q = next)
    {
        next = ngx_queue_next(q);
        key = ngx_queue_data(q, ngx_etcd_key_t, queue);

        if (!keep || key->regs == NULL) {
            ngx_etcd_service_remove(service, key);
            continue;
        }

        for (reg = key->regs; reg != NULL; reg = reg->next) {
            if (!reg->entry->gone) {
                (void) ngx_etcd_service_op(service, NGX_ETCD_OP_GONE,
                                           reg->slot, reg->entry, 0);
            }
        }

        if (!service->kept) {
            service->kept = 1;
            ngx_log_error(NGX_LOG_WARN, service->log, 0,
                          "etcd: upstream \"%V\": prefix \"%V\" is empty, "
                          "its last members are kept",
                          &service->conf->name, &service->conf->prefix);
        }
    }

    if (!keep) {
        service->kept = 0;
    }
}


static void
ngx_etcd_service_remove(ngx_etcd_service_t *service, ngx_etcd_key_t *key)
{
    ngx_etcd_reg_t  *reg;

    ngx_etcd_service_valid(service, key);

    for (reg = key->regs; reg != NULL; reg = reg->next) {
        if (ngx_etcd_service_op(service, NGX_ETCD_OP_REMOVE, reg->slot,
                                reg->entry, service->revision)
            == NULL)
        {
            return;
        }
    }

    ngx_etcd_index_forget(&service->index, key);
}


static ngx_etcd_op_t *
ngx_etcd_service_op(ngx_etcd_service_t *service, ngx_etcd_op_e op,
    uint32_t slot, ngx_etcd_entry_t *old, uint64_t revision)
{
    ngx_etcd_op_t  *o;

    o = ngx_array_push(service->ops);

    if (o == NULL) {
        service->broken = 1;
        return NULL;
    }

    o->op = op;
    o->slot = slot;
    o->entry = NULL;
    o->old = old;
    o->revision = revision;

    return o;
}


/* everything that arrived in this round of the event loop, at once */

static void
ngx_etcd_service_publish(ngx_event_t *ev)
{
    ngx_int_t            rc;
    ngx_uint_t           changed;
    ngx_etcd_service_t  *service;

    service = ev->data;

    if (!service->broken) {
        ngx_etcd_service_gone(service);
    }

    if (service->broken) {
        ngx_add_timer(&service->retry, NGX_ETCD_SERVICE_BUSY);
        return;
    }

    rc = ngx_etcd_set_commit(service->zone, service->set, service->ops,
                             service->revision, 0, &changed);

    switch (rc) {

    case NGX_OK:
        ngx_etcd_service_published(service, changed);
        return;

    case NGX_AGAIN:
        ngx_add_timer(&service->retry, NGX_ETCD_SERVICE_BUSY);
        return;

    default: /* NGX_DECLINED */
        service->lost(service->data);
        return;
    }
}


static void
ngx_etcd_service_published(ngx_etcd_service_t *service, ngx_uint_t changed)
{
    if (ngx_etcd_service_batch(service) != NGX_OK) {
        service->broken = 1;
        ngx_add_timer(&service->retry, NGX_ETCD_SERVICE_BUSY);
    }

    if (service->skipped) {

        /* whoever takes over now lists */

        service->set->revision = 0;
        service->set->state = NGX_ETCD_SET_FULL;

        if (!service->full) {
            service->full = 1;
            ngx_log_error(NGX_LOG_ERR, service->log, 0,
                          "etcd: upstream \"%V\": no room for %ui members of "
                          "prefix \"%V\" beside the %ui present: the zone of "
                          "%uz bytes is full, set a larger \"zone\" in "
                          "\"etcd\"",
                          &service->conf->name, service->skipped,
                          &service->conf->prefix, service->set->nmembers,
                          (size_t) (service->zone->shpool->end
                                    - (u_char *) service->zone->shpool));
        }

        if (!service->retry.timer_set) {
            ngx_add_timer(&service->retry, NGX_ETCD_SERVICE_FULL);
        }

    } else if (service->revision != 0) {
        service->full = 0;
        service->set->state = NGX_ETCD_SET_SYNCED;
    }

    if (changed) {
        service->published(service->data);
    }
}


static void
ngx_etcd_service_retry(ngx_event_t *ev)
{
    ngx_etcd_service_t  *service;

    service = ev->data;

    if (service->broken) {
        ngx_etcd_service_reopen(service);
        return;
    }

    if (service->skipped) {
        service->skipped = 0;
        ngx_etcd_watch_again(&service->watch, 0);
        return;
    }

    ngx_post_event(&service->publish, &ngx_posted_events);
}


static ngx_int_t
ngx_etcd_service_batch(ngx_etcd_service_t *service)
{
    ngx_pool_t  *pool;

    pool = ngx_create_pool(1024, service->log);
    if (pool == NULL) {
        return NGX_ERROR;
    }

    service->ops = ngx_array_create(pool, 4, sizeof(ngx_etcd_op_t));
    if (service->ops == NULL) {
        ngx_destroy_pool(pool);
        return NGX_ERROR;
    }

    if (service->pool != NULL) {
        ngx_destroy_pool(service->pool);
    }

    service->pool = pool;

    return NGX_OK;
}
