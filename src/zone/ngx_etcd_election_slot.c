
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_election_slot.h>


/* election slots that are released, and what is done with what they hold */

typedef struct {
    ngx_etcd_election_slot_hold_pt  handler;
    void                   *data;
} ngx_etcd_election_slot_vacate_t;


static void
ngx_etcd_election_slot_clear(void *data)
{
    ngx_memzero((u_char *) data + sizeof(ngx_etcd_object_t),
                sizeof(ngx_etcd_election_slot_t) - sizeof(ngx_etcd_object_t));
}


const ngx_etcd_object_type_t  ngx_etcd_election_slot_type = {
    NGX_ETCD_ZONE_ELECTION_SLOTS, sizeof(ngx_etcd_election_slot_t),
    ngx_etcd_election_slot_clear
};


/* A torn read may contain any length: clamp it before copying. */

static void
ngx_etcd_election_slot_copy_view(ngx_etcd_election_slot_view_t *dst,
    ngx_etcd_election_slot_view_t *src)
{
    ngx_memcpy(dst, src, offsetof(ngx_etcd_election_slot_view_t, key));

    dst->key_len = ngx_min(dst->key_len, NGX_ETCD_ELECTION_SLOT_MAX_KEY);
    dst->value_len = ngx_min(dst->value_len, NGX_ETCD_ELECTION_SLOT_MAX_VALUE);

    ngx_memcpy(dst->key, src->key, dst->key_len);
    ngx_memcpy(dst->value, src->value, dst->value_len);
}


static void
ngx_etcd_election_slot_write_view(ngx_etcd_election_slot_t *slot,
    ngx_etcd_election_slot_view_t *view)
{
    ngx_etcd_seqlock_write(&slot->lock);
    ngx_etcd_election_slot_copy_view(&slot->view, view);
    ngx_etcd_seqlock_written(&slot->lock);
}


static void
ngx_etcd_election_slot_take(void *data, void *former)
{
    ngx_etcd_election_slot_t *slot = data;
    ngx_etcd_election_slot_t *old = former;

    slot->hold = old->hold;
    slot->until = old->until;
    slot->verified = old->verified;
    ngx_etcd_election_slot_write_view(slot, &old->view);
}


ngx_etcd_election_slot_t *
ngx_etcd_election_slot_declare(ngx_etcd_zone_t *zone,
    ngx_etcd_election_slot_kind_e kind, ngx_str_t *key, ngx_etcd_zone_t *old)
{
    ngx_etcd_object_id_t       id;
    ngx_etcd_election_slot_t  *slot;

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));
    id.variant = kind;
    id.name = *key;

    slot = ngx_etcd_object_declare(zone, &ngx_etcd_election_slot_type, &id);

    if (slot != NULL && old != NULL
        && ngx_etcd_object_inherit(slot, &ngx_etcd_election_slot_type, old,
                                   ngx_etcd_election_slot_take)
           != NGX_OK)
    {
        return NULL;
    }

    return slot;
}


static void
ngx_etcd_election_slot_vacate(void *data, void *object)
{
    ngx_etcd_election_slot_t *slot = object;
    ngx_etcd_election_slot_vacate_t *vacate = data;

    __atomic_store_n(&slot->until, 0, __ATOMIC_RELEASE);

    if (slot->hold.lease != 0) {
        vacate->handler(vacate->data, &slot->hold);
    }
}


ngx_int_t
ngx_etcd_election_slot_vacate_old(ngx_etcd_zone_t *zone,
    ngx_etcd_election_slot_hold_pt handler,
    void *data)
{
    ngx_etcd_election_slot_vacate_t  vacate;

    vacate.handler = handler;
    vacate.data = data;

    return ngx_etcd_object_retire_old(zone, &ngx_etcd_election_slot_type,
                                      ngx_etcd_election_slot_vacate, &vacate);
}


ngx_int_t
ngx_etcd_election_slot_store(ngx_etcd_zone_t *zone,
    ngx_etcd_election_slot_t *slot,
    ngx_etcd_election_slot_hold_t *hold)
{
    ngx_int_t        rc;
    ngx_etcd_redo_t  redo;

    rc = ngx_etcd_zone_lock_owned(zone, 0);

    if (rc == NGX_OK) {
        redo.n = 0;

        ngx_etcd_redo_set(&redo, &slot->hold.lease, hold->lease);
        ngx_etcd_redo_set(&redo, &slot->hold.ttl, hold->ttl);
        ngx_etcd_redo_set(&redo, &slot->hold.deadline, hold->deadline);
        ngx_etcd_redo_set(&redo, &slot->hold.created, hold->created);

        ngx_etcd_redo_write(&zone->sh->batch.redo, &redo);
        ngx_etcd_zone_unlock(zone);
    }

    return rc;
}


ngx_int_t
ngx_etcd_election_slot_show(ngx_etcd_zone_t *zone,
    ngx_etcd_election_slot_t *slot,
    ngx_etcd_election_slot_view_t *view)
{
    ngx_int_t        rc;
    ngx_etcd_redo_t  redo;

    rc = ngx_etcd_zone_lock_owned(zone, 0);

    if (rc == NGX_OK) {

        if (view->created > slot->term) {
            redo.n = 0;

            ngx_etcd_redo_set(&redo, &slot->term, view->created);
            ngx_etcd_redo_set(&redo, &slot->leaders, slot->leaders + 1);

            ngx_etcd_redo_write(&zone->sh->batch.redo, &redo);
        }

        ngx_etcd_election_slot_write_view(slot, view);
        ngx_etcd_zone_unlock(zone);
    }

    return rc;
}


ngx_int_t
ngx_etcd_election_slot_extend(ngx_etcd_zone_t *zone,
    ngx_etcd_election_slot_t *slot, uint64_t *known, uint64_t until)
{
    ngx_int_t   rc;
    ngx_uint_t  first;

    first = (*known == 0);

    if (first) {
        rc = ngx_etcd_zone_lock_owned(zone, 0);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    rc = __atomic_compare_exchange_n(&slot->until, known, until, 0,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
         ? NGX_OK : NGX_DECLINED;

    if (first) {
        ngx_etcd_zone_unlock(zone);
    }

    return rc;
}


uint64_t
ngx_etcd_election_slot_until(ngx_etcd_election_slot_t *slot, ngx_uint_t id)
{
    uint64_t  until;

    until = __atomic_load_n(&slot->until, __ATOMIC_ACQUIRE);

    return (__atomic_load_n(&slot->object.id, __ATOMIC_ACQUIRE) == id)
           ? until : 0;
}


ngx_int_t
ngx_etcd_election_slot_view(ngx_etcd_election_slot_t *slot, ngx_uint_t id,
    ngx_etcd_election_slot_view_t *view)
{
    ngx_etcd_seqlock_reader_t  reader;

    ngx_etcd_seqlock_read(&reader, &slot->lock, 0);

    while (ngx_etcd_seqlock_try(&reader)) {

        ngx_etcd_election_slot_copy_view(view, &slot->view);

        if (ngx_etcd_seqlock_valid(&reader)) {
            return (__atomic_load_n(&slot->object.id, __ATOMIC_ACQUIRE) == id)
                   ? NGX_OK : NGX_DECLINED;
        }
    }

    return NGX_DECLINED;
}
