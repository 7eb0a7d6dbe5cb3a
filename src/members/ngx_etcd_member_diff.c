
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_alloc.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_decode.h>
#include <ngx_etcd_drain.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_member_diff.h>


void
ngx_etcd_member_diff_batch(ngx_etcd_member_diff_t *diff)
{
    ngx_etcd_member_diff_batch_t  *batch;

    batch = &diff->batch;

    if (batch->ops.elts != NULL) {
        ngx_free(batch->ops.elts);
    }

    ngx_memzero(&batch->ops, sizeof(ngx_array_t));

    batch->done = 0;
    batch->changed = 0;
}


static ngx_int_t
ngx_etcd_member_diff_begin(ngx_etcd_member_diff_t *diff, ngx_uint_t distrust)
{
    ngx_etcd_key_report_t  *report;

    ngx_etcd_member_diff_batch(diff);

    diff->hosts.adopt = NULL;
    diff->batch.revision = 0;
    diff->indexed = 1;
    diff->opening = 1;

    if (ngx_etcd_index_create(&diff->index, diff->set, diff->mirror, diff->log)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    diff->index.distrust = distrust;

    report = &diff->report;

    report->name = diff->name;
    report->prefix = diff->prefix;
    report->zone = diff->zone;
    report->set = diff->set;
    report->log = diff->log;
    report->strict = diff->strict;
    report->unowned = diff->unowned;

    ngx_etcd_key_report_close(report);

    /* the log has lines of former agents */

    if (ngx_etcd_zone_lock_owned(diff->zone, diff->unowned) == NGX_OK) {

        if (diff->set->remarks != NULL) {
            ngx_memcpy(report->unused.told, diff->set->remarks->told,
                       sizeof(report->unused.told));
        }

        ngx_etcd_zone_unlock(diff->zone);
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_member_diff_open(ngx_etcd_member_diff_t *diff, ngx_uint_t distrust,
    uint64_t until)
{
    ngx_int_t  rc;

    rc = diff->opening ? NGX_OK : ngx_etcd_member_diff_begin(diff, distrust);

    if (rc == NGX_OK && !diff->unowned) {
        rc = ngx_etcd_commit_recover(diff->zone, diff->set, until);
    }

    if (rc == NGX_OK) {
        rc = ngx_etcd_index_read(&diff->index, diff->zone, diff->unowned,
                                 until);
    }

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    if (rc != NGX_OK) {
        ngx_etcd_member_diff_close(diff);
        return NGX_ERROR;
    }

    diff->opening = 0;

    return NGX_OK;
}


void
ngx_etcd_member_diff_close(ngx_etcd_member_diff_t *diff)
{
    if (diff->indexed) {
        ngx_etcd_key_report_close(&diff->report);
        ngx_etcd_index_destroy(&diff->index);
        diff->indexed = 0;
        diff->opening = 0;
    }
}


void
ngx_etcd_member_diff_destroy(ngx_etcd_member_diff_t *diff)
{
    ngx_etcd_member_diff_close(diff);
    ngx_etcd_member_diff_batch(diff);
}


void
ngx_etcd_member_diff_reason(ngx_etcd_member_diff_t *diff, ngx_etcd_key_t *key,
    ngx_etcd_reason_t *reason, int64_t revision, ngx_uint_t partly)
{
    if (ngx_etcd_key_report(&diff->report, key, reason, revision, partly)
        != NGX_OK)
    {
        diff->broken = 1;
    }
}


void
ngx_etcd_member_diff_put(ngx_etcd_member_diff_t *diff, ngx_etcd_key_t *key,
    ngx_str_t *value, json_t *object, Etcd__KeyValue *kv)
{
    ngx_int_t          rc;
    ngx_pool_t        *pool;
    ngx_array_t        members;
    ngx_etcd_decode_t  d;
    ngx_etcd_reason_t  reason;

    pool = ngx_create_pool(4096, diff->log);

    if (pool == NULL
        || ngx_array_init(&members, pool, 1, sizeof(ngx_etcd_member_t))
           != NGX_OK)
    {
        diff->broken = 1;
        goto done;
    }

    ngx_etcd_decode_init(&d, diff->member, &key->entry.key, pool, &members,
                         &reason.text);
    d.object = object;

    if (object == NULL) {
        d.value = *value;
    }

    rc = ngx_etcd_decode_members(&d, &reason);

    if (ngx_etcd_decode_unleased(diff->member, kv->lease, &members, &reason)) {
        rc = NGX_DECLINED;
    }

    ngx_etcd_member_diff_reason(diff, key, &reason, kv->mod_revision,
                                rc != NGX_ERROR);

    if (rc != NGX_ERROR) {
        (void) ngx_etcd_member_diff_members(diff, key, kv, &members);
    }

done:

    if (pool != NULL) {
        ngx_destroy_pool(pool);
    }
}


ngx_etcd_key_t *
ngx_etcd_member_diff_key(ngx_etcd_member_diff_t *diff, ngx_str_t *name)
{
    ngx_etcd_key_t  *key;

    key = ngx_etcd_index_key(&diff->index, name);

    if (key == NULL) {
        diff->broken = 1;
        return NULL;
    }

    key->mark = diff->mark;
    ngx_etcd_index_present(&diff->index, key);

    return key;
}


void
ngx_etcd_member_diff_use(ngx_etcd_member_diff_t *diff, Etcd__KeyValue *kv,
    ngx_array_t *members, ngx_etcd_reason_t *reason)
{
    ngx_str_t        name;
    ngx_etcd_key_t  *key;

    name = ngx_etcd_bytes_str(&kv->key);

    key = ngx_etcd_member_diff_key(diff, &name);
    if (key == NULL) {
        return;
    }

    (void) ngx_etcd_decode_unleased(diff->member, kv->lease, members, reason);

    ngx_etcd_member_diff_reason(diff, key, reason, kv->mod_revision,
                                members->nelts != 0);

    (void) ngx_etcd_member_diff_members(diff, key, kv, members);
}


void
ngx_etcd_member_diff_select(ngx_etcd_member_diff_t *diff)
{
    diff->mark++;
}


ngx_int_t
ngx_etcd_member_diff_sweep(ngx_etcd_member_diff_t *diff, uint64_t until)
{
    return ngx_etcd_index_sweep(&diff->index, diff->mark, until);
}


static ngx_etcd_op_t *
ngx_etcd_member_diff_op(ngx_etcd_member_diff_t *diff, ngx_etcd_op_e op,
    uint32_t slot, uint32_t old, uint64_t revision)
{
    void           *elts;
    ngx_uint_t      n;
    ngx_array_t    *ops;
    ngx_etcd_op_t  *o;

    ops = &diff->batch.ops;

    if (ops->nelts == ops->nalloc) {
        n = ops->nalloc ? 2 * ops->nalloc : 4;

        elts = ngx_etcd_alloc_grow(ops->elts,
                                   ops->nelts * sizeof(ngx_etcd_op_t),
                                   n * sizeof(ngx_etcd_op_t), diff->log);
        if (elts == NULL) {
            diff->broken = 1;
            return NULL;
        }

        ops->elts = elts;
        ops->nalloc = n;
    }

    o = (ngx_etcd_op_t *) ops->elts + ops->nelts++;

    o->op = op;
    o->slot = slot;
    o->entry = 0;
    o->old = old;
    o->shown = 0;
    o->revision = revision;

    return o;
}


/* Removes the registration of a key, or the static server (NULL), at *link. */

static ngx_int_t
ngx_etcd_member_diff_drop(ngx_etcd_member_diff_t *diff, ngx_etcd_key_t *key,
    ngx_etcd_reg_t **link, uint64_t revision)
{
    ngx_etcd_op_t  *op;

    op = ngx_etcd_member_diff_op(diff, NGX_ETCD_OP_REMOVE, (*link)->slot,
                                 (*link)->entry, revision);
    if (op == NULL) {
        return NGX_ERROR;
    }

    op->shown = ngx_etcd_index_remove(&diff->index, key, link);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_member_diff_members(ngx_etcd_member_diff_t *diff, ngx_etcd_key_t *key,
    Etcd__KeyValue *kv, ngx_array_t *members)
{
    ngx_int_t           rc;
    ngx_uint_t          i;
    ngx_etcd_reg_t     *reg, **link;
    ngx_etcd_member_t  *member;

    for (reg = key->regs; reg != NULL; reg = reg->next) {
        reg->seen = 0;
    }

    ngx_etcd_member_host_mark(key->hosts);

    member = members->elts;

    for (i = 0; i < members->nelts; i++) {

        rc = (member[i].host.len != 0)
             ? diff->hosts.member(diff, key, kv, &member[i])
             : ngx_etcd_member_diff_member(diff, key, kv, &member[i]);

        /* a member without room does not keep those that have left */

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    ngx_etcd_member_host_sweep(&key->hosts);

    link = &key->regs;

    while (*link != NULL) {

        if ((*link)->seen) {
            link = &(*link)->next;
            continue;
        }

        if (ngx_etcd_member_diff_drop(diff, key, link, kv->mod_revision)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_member_diff_member(ngx_etcd_member_diff_t *diff, ngx_etcd_key_t *key,
    Etcd__KeyValue *kv, ngx_etcd_member_t *member)
{
    ngx_etcd_reg_t  *reg;

    reg = ngx_etcd_index_reg(&diff->index, key,
                             (u_char *) &member->sockaddr, member->socklen);

    return ngx_etcd_member_diff_register(diff, key, reg, kv, member);
}


static void
ngx_etcd_member_diff_shown(ngx_etcd_op_t *op, ngx_etcd_reg_t *reg)
{
    op->shown = ngx_etcd_slot_index_newest(reg->address)->entry;
}


/* Updates the revision and the lease of an unchanged member. */

static ngx_int_t
ngx_etcd_member_diff_touch(ngx_etcd_member_diff_t *diff, ngx_etcd_key_t *key,
    ngx_etcd_reg_t *reg, ngx_etcd_entry_data_t *data)
{
    ngx_etcd_op_t  *op;

    op = ngx_etcd_member_diff_op(diff, NGX_ETCD_OP_TOUCH, reg->slot, reg->entry,
                                 data->mod_revision);
    if (op == NULL) {
        return NGX_ERROR;
    }

    op->lease = data->lease;

    ngx_etcd_index_renew(&diff->index, key, reg, data->mod_revision);
    ngx_etcd_member_diff_shown(op, reg);

    return NGX_OK;
}


/*
 * If the zone is full, the other members are published, and this one is read
 * again later.  After another error the batch is useless.
 */

static ngx_int_t
ngx_etcd_member_diff_room(ngx_etcd_member_diff_t *diff, ngx_int_t rc)
{
    if (rc == NGX_AGAIN) {
        diff->broken = 1;
        return NGX_ERROR;
    }

    diff->skipped++;

    return NGX_DECLINED;
}


/* Makes the entry of a registration, in place of a former one. */

static ngx_int_t
ngx_etcd_member_diff_entry(ngx_etcd_member_diff_t *diff, ngx_etcd_key_t *key,
    ngx_etcd_reg_t *reg, ngx_etcd_entry_data_t *data,
    ngx_etcd_slot_entry_t *known, uint32_t slot)
{
    ngx_int_t       rc;
    ngx_etcd_op_t  *op;

    rc = ngx_etcd_entry_create(diff->zone, diff->set, data, diff->unowned,
                               &known->entry);
    if (rc != NGX_OK) {
        return ngx_etcd_member_diff_room(diff, rc);
    }

    op = ngx_etcd_member_diff_op(diff, NGX_ETCD_OP_PUT, slot,
                                 reg ? reg->entry : 0, known->revision);
    if (op == NULL) {
        return NGX_ERROR;
    }

    op->entry = known->entry;

    if (reg != NULL) {
        reg->entry = known->entry;
        reg->hash = known->hash;
        ngx_etcd_index_renew(&diff->index, key, reg, known->revision);

    } else {
        reg = ngx_etcd_index_add(&diff->index, key, known, slot);
        if (reg == NULL) {
            diff->broken = 1;
            return NGX_ERROR;
        }

        reg->seen = 1;
    }

    ngx_etcd_member_diff_shown(op, reg);

    return NGX_OK;
}


/* Returns 1 if a key drains the member. */

static ngx_uint_t
ngx_etcd_member_diff_drained(ngx_etcd_member_diff_t *diff,
    ngx_etcd_member_t *member)
{
    ngx_str_t  address;

    if (diff->mirrored == NULL || (diff->drains == 0 && !diff->index.drains)) {
        return 0;
    }

    address.data = member->name;
    address.len = member->name_len;

    return ngx_etcd_drain_find(diff->mirrored, diff->prefix, &address, 0)
           != NULL;
}


ngx_int_t
ngx_etcd_member_diff_register(ngx_etcd_member_diff_t *diff,
    ngx_etcd_key_t *key, ngx_etcd_reg_t *reg, Etcd__KeyValue *kv,
    ngx_etcd_member_t *member)
{
    u_char                  payload[NGX_ETCD_MEMBER_PACK_MAX];
    uint32_t                slot;
    ngx_int_t               rc;
    ngx_uint_t              n;
    ngx_etcd_entry_data_t   data;
    ngx_etcd_slot_entry_t   known;

    ngx_memzero(&data, sizeof(ngx_etcd_entry_data_t));

    ngx_str_set(&data.key, "");

    data.payload = payload;
    data.len = ngx_etcd_member_pack(payload, member);

    if (key != NULL) {
        if (ngx_etcd_member_diff_drained(diff, member)) {
            (void) ngx_etcd_member_pack_drain(payload, 1);
        }

        data.key = key->entry.key;
        data.create_revision = kv->create_revision;
        data.mod_revision = kv->mod_revision;
        data.lease = kv->lease;

        key->entry.create_revision = kv->create_revision;
        key->entry.lease = kv->lease;
    }

    known.revision = data.mod_revision;
    known.hash = ngx_etcd_slot_index_hash(payload, data.len,
                                          data.create_revision);
    known.sockaddr = (u_char *) &member->sockaddr;
    known.socklen = member->socklen;

    if (reg != NULL) {
        reg->seen = 1;
        slot = reg->slot;

        if (reg->hash == known.hash) {

            if (reg->revision == known.revision && !reg->gone) {
                return NGX_OK;
            }

            return ngx_etcd_member_diff_touch(diff, key, reg, &data);
        }

    } else {
        rc = ngx_etcd_slot_index_slot(&diff->index.slots, diff->zone,
                                      diff->unowned, known.sockaddr,
                                      known.socklen, &slot);
        if (rc != NGX_OK) {
            return ngx_etcd_member_diff_room(diff, rc);
        }
    }

    n = diff->index.slots.addresses.n;

    rc = ngx_etcd_member_diff_entry(diff, key, reg, &data, &known, slot);

    /* the newest one of an address hides the others */

    if (rc == NGX_OK
        && reg == NULL
        && key != NULL
        && n == diff->index.slots.addresses.n)
    {
        ngx_etcd_key_report_hidden(&diff->report, key, member);
    }

    return rc;
}


void
ngx_etcd_member_diff_replace(ngx_etcd_member_diff_t *diff,
    ngx_etcd_reg_t *reg, u_char *payload, size_t len, uint64_t revision)
{
    uint32_t                entry;
    ngx_int_t               rc;
    ngx_etcd_op_t          *op;
    ngx_etcd_key_t         *key;
    ngx_etcd_entry_data_t   data;

    key = reg->key;

    data.key = key->entry.key;
    data.payload = payload;
    data.len = len;
    data.create_revision = key->entry.create_revision;
    data.mod_revision = reg->revision;
    data.lease = key->entry.lease;
    data.gone = reg->gone;

    rc = ngx_etcd_entry_create(diff->zone, diff->set, &data, diff->unowned,
                               &entry);
    if (rc != NGX_OK) {
        (void) ngx_etcd_member_diff_room(diff, rc);
        return;
    }

    op = ngx_etcd_member_diff_op(diff, NGX_ETCD_OP_PUT, reg->slot, reg->entry,
                                 revision);
    if (op == NULL) {
        return;
    }

    op->entry = entry;
    reg->entry = entry;
    reg->hash = ngx_etcd_slot_index_hash(payload, len, data.create_revision);

    ngx_etcd_member_diff_shown(op, reg);
}


void
ngx_etcd_member_diff_statics(ngx_etcd_member_diff_t *diff)
{
    ngx_uint_t          i;
    ngx_etcd_reg_t    **link;
    ngx_etcd_member_t  *member;

    member = diff->statics->elts;

    for (i = 0; i < diff->statics->nelts; i++) {
        if (ngx_etcd_member_diff_member(diff, NULL, NULL, &member[i])
            != NGX_OK)
        {
            break;
        }
    }

    link = &diff->index.statics;

    while (*link != NULL) {

        if ((*link)->seen) {
            (*link)->seen = 0;

        } else if (ngx_etcd_member_diff_drop(diff, NULL, link, 0) == NGX_OK) {
            continue;
        }

        link = &(*link)->next;
    }
}


static void
ngx_etcd_member_diff_remove(ngx_etcd_member_diff_t *diff, ngx_etcd_key_t *key)
{
    ngx_etcd_reason_t  none;

    ngx_memzero(&none, sizeof(ngx_etcd_reason_t));

    if (ngx_etcd_key_report(&diff->report, key, &none, 0, 0) != NGX_OK) {
        diff->broken = 1;
    }

    while (key->regs != NULL) {
        if (ngx_etcd_member_diff_drop(diff, key, &key->regs,
                                      diff->batch.revision)
            != NGX_OK)
        {
            return;
        }
    }

    ngx_etcd_index_forget(&diff->index, key);
}


/*
 * The members of a key that is gone stay, and are marked as held or kept.  A
 * held member is older than any registration of its address: one in another
 * history has a lower revision than the former ones, and is shown.
 */

static void
ngx_etcd_member_diff_stay(ngx_etcd_member_diff_t *diff, ngx_etcd_key_t *key,
    ngx_uint_t held)
{
    ngx_uint_t         mark;
    ngx_queue_t       *queue;
    ngx_etcd_op_t     *op;
    ngx_etcd_reg_t    *reg;
    ngx_etcd_index_t  *index;

    index = &diff->index;
    mark = held ? NGX_ETCD_ENTRY_HELD : NGX_ETCD_ENTRY_KEPT;
    queue = held ? &index->held : &index->kept;

    for (reg = key->regs; reg != NULL; reg = reg->next) {

        if (reg->gone == mark) {
            continue;
        }

        op = ngx_etcd_member_diff_op(diff, held ? NGX_ETCD_OP_HOLD
                                                : NGX_ETCD_OP_KEEP,
                                     reg->slot, reg->entry, 0);
        if (op == NULL) {
            return;
        }

        if (held) {
            ngx_etcd_index_renew(index, key, reg, 0);
        }

        ngx_etcd_member_diff_shown(op, reg);

        reg->gone = mark;
    }

    if (held && !key->held) {
        key->held = 1;
        index->nheld++;
    }

    ngx_queue_remove(&key->entry.queue);
    ngx_queue_insert_tail(queue, &key->entry.queue);
}


ngx_int_t
ngx_etcd_member_diff_gone(ngx_etcd_member_diff_t *diff, uint64_t until)
{
    ngx_uint_t         keep;
    ngx_etcd_key_t    *key;
    ngx_etcd_index_t  *index;

    index = &diff->index;
    keep = (diff->keep && index->live == 0);

    if (!keep) {
        diff->kept = 0;
        ngx_etcd_index_unkeep(index);
    }

    while (!ngx_queue_empty(&index->gone) && !diff->broken) {
        key = ngx_etcd_index_key_at(ngx_queue_head(&index->gone));

        if (key->regs == NULL) {
            ngx_etcd_member_diff_remove(diff, key);

        } else if (diff->guard != NULL
                   && ngx_etcd_guard_holds(diff->guard, key))
        {
            ngx_etcd_member_diff_stay(diff, key, 1);

        } else if (keep) {
            ngx_etcd_member_diff_stay(diff, key, 0);

            if (!diff->kept) {
                diff->kept = 1;

                ngx_log_error(NGX_LOG_WARN, diff->log, 0,
                              "etcd: upstream \"%V\": prefix \"%V\" is empty, "
                              "its last members are kept", diff->name,
                              diff->prefix);
            }

        } else {
            ngx_etcd_member_diff_remove(diff, key);
        }

        if (ngx_etcd_time_budget_now() >= until
            && !ngx_queue_empty(&index->gone))
        {
            return NGX_AGAIN;
        }
    }

    return NGX_OK;
}
