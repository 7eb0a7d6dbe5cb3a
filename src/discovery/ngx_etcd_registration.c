
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_decode.h>
#include <ngx_etcd_escape.h>
#include <ngx_etcd_member_pack.h>
#include <ngx_etcd_registration.h>
#include <ngx_etcd_service_host.h>


static void ngx_etcd_service_decoded(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key, ngx_int_t rc, ngx_array_t *members,
    ngx_str_t *reason, int64_t created, int64_t modified);
static ngx_int_t ngx_etcd_service_scratch(ngx_etcd_service_t *service,
    ngx_array_t *members);
static void ngx_etcd_service_refuse(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key, Etcd__KeyValue *kv, ngx_str_t *reason,
    int64_t revision);
static void ngx_etcd_service_invalid(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key, Etcd__KeyValue *kv, ngx_str_t *reason);
static void ngx_etcd_service_valid(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key);
static ngx_int_t ngx_etcd_service_touch(ngx_etcd_service_t *service,
    ngx_etcd_reg_t *reg, uint64_t modified);
static ngx_int_t ngx_etcd_service_slot(ngx_etcd_service_t *service,
    ngx_etcd_member_t *member, uint32_t *slot);
static ngx_etcd_entry_t *ngx_etcd_service_entry(ngx_etcd_service_t *service,
    ngx_str_t *key, u_char *payload, size_t len, ngx_int_t *rc);
static ngx_int_t ngx_etcd_service_room(ngx_etcd_service_t *service,
    ngx_int_t rc);
static void ngx_etcd_service_remove(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key);
static ngx_int_t ngx_etcd_service_drop(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key, ngx_etcd_reg_t *reg, uint64_t revision);
static ngx_etcd_op_t *ngx_etcd_service_op(ngx_etcd_service_t *service,
    ngx_etcd_op_e op, uint32_t slot, ngx_etcd_entry_t *old,
    uint64_t revision);


void
ngx_etcd_service_put(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    ngx_str_t *value, int64_t created, int64_t modified)
{
    ngx_int_t    rc;
    ngx_str_t    reason;
    ngx_array_t  members;

    if (ngx_etcd_service_scratch(service, &members) != NGX_OK) {
        service->broken = 1;
        return;
    }

    rc = ngx_etcd_decode(&service->conf->member, &key->entry.key, value,
                         service->scratch, &members, &reason);

    ngx_etcd_service_decoded(service, key, rc, &members, &reason, created,
                             modified);
}


void
ngx_etcd_service_put_object(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    json_t *object, int64_t created, int64_t modified)
{
    ngx_int_t    rc;
    ngx_str_t    reason;
    ngx_array_t  members;

    if (ngx_etcd_service_scratch(service, &members) != NGX_OK) {
        service->broken = 1;
        return;
    }

    rc = ngx_etcd_decode_given(&service->conf->member, &key->entry.key,
                               object, service->scratch, &members, &reason);

    ngx_etcd_service_decoded(service, key, rc, &members, &reason, created,
                             modified);
}


/* Registers what was decoded into the scratch pool, and resets the pool. */

static void
ngx_etcd_service_decoded(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    ngx_int_t rc, ngx_array_t *members, ngx_str_t *reason, int64_t created,
    int64_t modified)
{
    Etcd__KeyValue  kv;

    etcd__key_value__init(&kv);

    kv.create_revision = created;
    kv.mod_revision = modified;

    if (rc == NGX_ERROR) {
        ngx_etcd_service_refuse(service, key, &kv, reason, modified);

    } else {
        ngx_etcd_service_valid(service, key);
        (void) ngx_etcd_service_members(service, key, &kv, members);
    }

    ngx_reset_pool(service->scratch);
}


ngx_etcd_key_t *
ngx_etcd_service_key(ngx_etcd_service_t *service, ngx_str_t *name)
{
    ngx_etcd_key_t  *key;

    key = ngx_etcd_index_key(&service->index, name);

    if (key == NULL) {
        service->broken = 1;
        return NULL;
    }

    key->mark = service->mark;
    ngx_etcd_index_present(&service->index, key);

    return key;
}


static ngx_int_t
ngx_etcd_service_scratch(ngx_etcd_service_t *service, ngx_array_t *members)
{
    if (service->scratch == NULL) {
        service->scratch = ngx_create_pool(4096, service->log);
        if (service->scratch == NULL) {
            return NGX_ERROR;
        }
    }

    return ngx_array_init(members, service->scratch, 1,
                          sizeof(ngx_etcd_member_t));
}


void
ngx_etcd_service_use(ngx_etcd_service_t *service, Etcd__KeyValue *kv,
    ngx_array_t *members, ngx_str_t *reason)
{
    ngx_str_t        name;
    ngx_etcd_key_t  *key;

    name.data = kv->key.data;
    name.len = kv->key.len;

    key = ngx_etcd_service_key(service, &name);
    if (key == NULL) {
        return;
    }

    if (reason == NULL) {
        ngx_etcd_service_valid(service, key);

    } else {
        ngx_etcd_service_refuse(service, key, kv, reason, 0);
        members->nelts = 0;
    }

    (void) ngx_etcd_service_members(service, key, kv, members);
}


ngx_uint_t
ngx_etcd_service_uses(ngx_etcd_service_t *service, ngx_str_t *name,
    uint64_t create_revision)
{
    ngx_etcd_key_t  *key;

    key = ngx_etcd_index_find(&service->index, name);

    return key != NULL
           && !key->gone
           && key->regs != NULL
           && key->regs->entry->create_revision == create_revision;
}


void
ngx_etcd_service_select(ngx_etcd_service_t *service)
{
    service->mark++;
}


void
ngx_etcd_service_sweep(ngx_etcd_service_t *service)
{
    ngx_etcd_key_t    *key, *next;
    ngx_etcd_index_t  *index;

    index = &service->index;

    for (key = ngx_etcd_index_first(index); key != NULL; key = next) {
        next = ngx_etcd_index_next(index, key);

        if (key->mark != service->mark) {
            (void) ngx_etcd_index_gone(index, key);
        }
    }
}


/* the same reason, for the same revision if that counts, is reported once */

static void
ngx_etcd_service_refuse(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    Etcd__KeyValue *kv, ngx_str_t *reason, int64_t revision)
{
    uint32_t  hash;

    hash = ngx_crc32_long(reason->data, reason->len) ^ (uint32_t) revision;

    if (!key->invalid || key->reason != hash) {
        ngx_etcd_service_invalid(service, key, kv, reason);
        key->reason = hash;
    }
}


/*
 * The last valid member of the key, if any, stays, unless it has to lead.  The
 * key may hold any bytes: in the log it cannot pass for more than a part of
 * this line.
 */

static void
ngx_etcd_service_invalid(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    Etcd__KeyValue *kv, ngx_str_t *reason)
{
    ngx_log_error(NGX_LOG_ERR, service->log, 0,
                  "etcd: upstream \"%V\": key \"%V\" at revision %L is "
                  "invalid: %V%s",
                  &service->conf->name, ngx_etcd_shown(&key->entry.key),
                  kv->mod_revision, reason,
                  service->source->strict ? ", it is not used"
                  : key->regs ? ", its last valid member stays" : "");

    key->invalid = 1;

    if (ngx_etcd_set_invalid(service->zone, service->set, &key->entry.key,
                             reason, kv->mod_revision)
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

    if (ngx_etcd_set_invalid(service->zone, service->set, &key->entry.key, NULL,
                             0)
        == NGX_AGAIN)
    {
        service->broken = 1;
    }
}


ngx_int_t
ngx_etcd_service_members(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    Etcd__KeyValue *kv, ngx_array_t *members)
{
    ngx_int_t           rc;
    ngx_uint_t          i;
    ngx_etcd_reg_t     *reg, *next;
    ngx_etcd_member_t  *member;

    for (reg = key->regs; reg != NULL; reg = reg->next) {
        reg->seen = 0;
    }

    ngx_etcd_member_host_mark(key->hosts);

    member = members->elts;

    for (i = 0; i < members->nelts; i++) {

        rc = (member[i].host.len != 0)
             ? ngx_etcd_service_host_member(service, key, kv, &member[i])
             : ngx_etcd_service_member(service, key, kv, &member[i]);

        if (rc != NGX_OK) {
            return NGX_ERROR;
        }
    }

    ngx_etcd_member_host_sweep(&key->hosts);

    for (reg = key->regs; reg != NULL; reg = next) {
        next = reg->next;

        if (reg->seen) {
            continue;
        }

        if (ngx_etcd_service_drop(service, key, reg, kv->mod_revision)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_service_member(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    Etcd__KeyValue *kv, ngx_etcd_member_t *member)
{
    size_t             len;
    u_char             payload[NGX_ETCD_MEMBER_PACK_MAX];
    uint32_t           slot;
    uint64_t           created, modified;
    ngx_int_t          rc;
    ngx_str_t          none;
    ngx_etcd_op_t     *op;
    ngx_etcd_reg_t    *reg;
    ngx_etcd_entry_t  *entry, *old;

    ngx_str_set(&none, "");
    len = ngx_etcd_member_pack(payload, member);

    created = (kv != NULL) ? kv->create_revision : 0;
    modified = (kv != NULL) ? kv->mod_revision : 0;

    reg = ngx_etcd_index_reg(&service->index, key,
                             (u_char *) &member->sockaddr, member->socklen);

    if (reg != NULL) {
        reg->seen = 1;
        old = reg->entry;
        slot = reg->slot;

        if (old->len == len
            && ngx_memcmp(ngx_etcd_entry_payload(old), payload, len) == 0
            && old->create_revision == created)
        {
            if (reg->node.revision == modified && !reg->gone) {
                return NGX_OK;
            }

            return ngx_etcd_service_touch(service, reg, modified);
        }

    } else {
        old = NULL;

        rc = ngx_etcd_service_slot(service, member, &slot);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    entry = ngx_etcd_service_entry(service, key ? &key->entry.key : &none,
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
        ngx_etcd_slot_index_renew(&service->index.slots, reg, entry, modified);

    } else {
        reg = ngx_etcd_index_add(&service->index, key, entry, slot);
        if (reg == NULL) {
            service->broken = 1;
            return NGX_ERROR;
        }

        reg->seen = 1;
    }

    op->serial = reg->node.serial;
    op->shown = ngx_etcd_slot_index_shown(reg);

    return NGX_OK;
}


/* the same member, by another revision of its key */

static ngx_int_t
ngx_etcd_service_touch(ngx_etcd_service_t *service, ngx_etcd_reg_t *reg,
    uint64_t modified)
{
    ngx_etcd_op_t  *op;

    op = ngx_etcd_service_op(service, NGX_ETCD_OP_TOUCH, reg->slot, reg->entry,
                             modified);
    if (op == NULL) {
        return NGX_ERROR;
    }

    ngx_etcd_slot_index_renew(&service->index.slots, reg, reg->entry, modified);

    op->serial = reg->node.serial;
    op->shown = ngx_etcd_slot_index_shown(reg);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_service_slot(ngx_etcd_service_t *service, ngx_etcd_member_t *member,
    uint32_t *slot)
{
    ngx_int_t  rc;

    rc = ngx_etcd_slot_index_slot(&service->index.slots, service->zone, 0,
                                  (u_char *) &member->sockaddr,
                                  member->socklen, slot);

    return (rc == NGX_OK) ? NGX_OK : ngx_etcd_service_room(service, rc);
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


/* static servers as this configuration has them */

void
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

        (void) ngx_etcd_service_drop(service, NULL, reg, 0);
    }
}


/* keys that were deleted: their members leave, unless all would */

void
ngx_etcd_service_gone(ngx_etcd_service_t *service)
{
    ngx_uint_t       keep;
    ngx_queue_t     *q, *next;
    ngx_etcd_op_t   *op;
    ngx_etcd_key_t  *key;
    ngx_etcd_reg_t  *reg;

    keep = (service->conf->keep && service->index.live == 0);

    for (q = ngx_queue_head(&service->index.gone);
         q != ngx_queue_sentinel(&service->index.gone);
         q = next)
    {
        next = ngx_queue_next(q);
        key = ngx_etcd_index_key_at(q);

        if (!keep || key->regs == NULL) {
            ngx_etcd_service_remove(service, key);
            continue;
        }

        for (reg = key->regs; reg != NULL; reg = reg->next) {
            if (reg->gone) {
                continue;
            }

            op = ngx_etcd_service_op(service, NGX_ETCD_OP_GONE, reg->slot,
                                     reg->entry, 0);
            if (op == NULL) {
                return;
            }

            op->shown = ngx_etcd_slot_index_shown(reg);
            reg->gone = 1;
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
    ngx_etcd_service_valid(service, key);

    while (key->regs != NULL) {
        if (ngx_etcd_service_drop(service, key, key->regs, service->revision)
            != NGX_OK)
        {
            return;
        }
    }

    ngx_etcd_index_forget(&service->index, key);
}


/* a registration of the key, or a static server (no key), leaves */

static ngx_int_t
ngx_etcd_service_drop(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    ngx_etcd_reg_t *reg, uint64_t revision)
{
    ngx_etcd_op_t  *op;

    op = ngx_etcd_service_op(service, NGX_ETCD_OP_REMOVE, reg->slot,
                             reg->entry, revision);
    if (op == NULL) {
        return NGX_ERROR;
    }

    op->shown = ngx_etcd_index_remove(&service->index, key, reg);

    return NGX_OK;
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
    o->serial = 0;
    o->entry = NULL;
    o->old = old;
    o->shown = NULL;
    o->revision = revision;

    return o;
}
