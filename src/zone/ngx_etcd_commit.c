
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_commit.h>


static ngx_uint_t ngx_etcd_set_apply(ngx_etcd_zone_t *zone,
    ngx_etcd_set_t *set, ngx_etcd_op_t *op);
static void ngx_etcd_set_term(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    uint64_t term);
static void ngx_etcd_slot_occupy(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_etcd_slot_t *slot);
static void ngx_etcd_slot_insert(ngx_etcd_slot_t *slot,
    ngx_etcd_entry_t *entry);
static void ngx_etcd_slot_unlink(ngx_etcd_slot_t *slot,
    ngx_etcd_entry_t *entry);
static void ngx_etcd_set_event(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_etcd_op_t *op, ngx_uint_t added, ngx_uint_t removed);


ngx_etcd_entry_t *
ngx_etcd_entry_create(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_str_t *key, u_char *payload, size_t len, ngx_int_t *rc)
{
    ngx_etcd_entry_t  *entry;

    if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        *rc = NGX_AGAIN;
        return NULL;
    }

    entry = ngx_slab_alloc_locked(zone->shpool,
                                  offsetof(ngx_etcd_entry_t, bytes)
                                  + key->len + len);

    if (entry == NULL) {
        ngx_etcd_zone_unlock(zone);
        *rc = NGX_ERROR;
        return NULL;
    }

    ngx_memzero(entry, offsetof(ngx_etcd_entry_t, bytes));

    entry->key_len = key->len;
    entry->len = len;

    ngx_memcpy(ngx_cpymem(entry->bytes, key->data, key->len), payload, len);

    entry->next = set->pending;
    set->pending = entry;

    ngx_etcd_zone_unlock(zone);

    *rc = NGX_OK;

    return entry;
}


ngx_int_t
ngx_etcd_set_commit(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_array_t *ops, uint64_t revision, ngx_uint_t force,
    ngx_uint_t *changed)
{
    ngx_uint_t           i, torn;
    ngx_etcd_op_t       *op;
    ngx_atomic_uint_t    generation;
    ngx_etcd_arrival_t  *arrival;

    *changed = 0;

    if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return NGX_AGAIN;
    }

    if (!force && !ngx_etcd_zone_owned(zone)) {
        ngx_etcd_zone_unlock(zone);
        return NGX_DECLINED;
    }

    /*
     * An owner killed from here on leaves "dirty" to the next one, which lets
     * every worker read all slots when it has listed them.
     */

    torn = set->dirty;
    set->dirty = 1;

    ngx_memory_barrier();

    set->commits++;
    set->pending = NULL;

    op = ops->elts;
    generation = set->generation;

    for (i = 0; i < ops->nelts; i++) {
        if (ngx_etcd_set_apply(zone, set, &op[i])) {
            set->ring[++generation % NGX_ETCD_SET_RING] = op[i].slot;
            *changed = 1;
        }
    }

    if (revision != 0) {
        set->revision = revision;
    }

    if (*changed) {
        arrival = &set->arrivals[set->narrivals++ % NGX_ETCD_SET_ARRIVALS];
        arrival->generation = generation;
        arrival->time = set->arrived;
    }

    set->arrived = 0;

    ngx_memory_barrier();

    if (torn && revision != 0) {
        set->base = ++generation;
        set->torn = 0;
        *changed = 1;
    }

    set->generation = generation;

    ngx_memory_barrier();

    set->dirty = (torn && revision == 0);

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}


static ngx_uint_t
ngx_etcd_set_apply(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_etcd_op_t *op)
{
    ngx_uint_t         added, changed;
    ngx_etcd_slot_t   *slot;
    ngx_etcd_entry_t  *head;

    slot = ngx_etcd_set_slot(set, op->slot);
    head = slot->entry;
    added = 0;

    if (op->old != NULL) {
        ngx_etcd_slot_unlink(slot, op->old);
    }

    switch (op->op) {

    case NGX_ETCD_OP_PUT:

        if (head == NULL) {
            ngx_etcd_slot_occupy(zone, set, slot);
            added = 1;
        }

        /* first: what is there already is not put again */

        ngx_etcd_set_term(zone, set, op->entry->create_revision);
        ngx_etcd_slot_insert(slot, op->entry);
        break;

    case NGX_ETCD_OP_TOUCH:
        op->old->mod_revision = op->revision;
        op->old->gone = 0;
        ngx_etcd_slot_insert(slot, op->old);
        break;

    case NGX_ETCD_OP_GONE:
        op->old->gone = 1;
        ngx_etcd_slot_insert(slot, op->old);
        break;

    case NGX_ETCD_OP_REMOVE:

        if (slot->entry == NULL) {
            set->nmembers--;
        }

        break;
    }

    changed = (slot->entry != head);

    if (changed) {
        ngx_etcd_set_event(zone, set, op, added, slot->entry == NULL);
    }

    if (op->old != NULL
        && (op->op == NGX_ETCD_OP_PUT || op->op == NGX_ETCD_OP_REMOVE))
    {
        ngx_slab_free_locked(zone->shpool, op->old);
    }

    return changed;
}


/* of a set of leaders: another one, as often as it rises */

static void
ngx_etcd_set_term(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set, uint64_t term)
{
    ngx_etcd_redo_t  redo;

    if (term > set->term) {
        redo.n = 0;

        ngx_etcd_redo_set(&redo, &set->term, term);
        ngx_etcd_redo_set(&redo, &set->terms, set->terms + 1);

        ngx_etcd_redo_write(&zone->sh->redo, &redo);
    }
}


static void
ngx_etcd_slot_occupy(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_etcd_slot_t *slot)
{
    uint32_t         uid;
    ngx_etcd_redo_t  redo;

    do {
        uid = ++zone->sh->next_uid;
    } while (uid == 0);

    slot->uid = uid;
    slot->conns = (uint64_t) uid << 32;
    slot->fails = (uint64_t) uid << 32;
    slot->accessed = 0;
    slot->checked = 0;

    redo.n = 0;

    ngx_etcd_redo_set(&redo, &set->requests, set->requests + slot->requests);
    ngx_etcd_redo_set(&redo, &slot->requests, 0);

    ngx_etcd_redo_write(&zone->sh->redo, &redo);

    /* those that were there from the first are no news */

    slot->started = (set->state == NGX_ETCD_SET_LOADING)
                    ? 0 : ngx_etcd_slot_now();

    set->nmembers++;
}


static void
ngx_etcd_slot_insert(ngx_etcd_slot_t *slot, ngx_etcd_entry_t *entry)
{
    ngx_etcd_entry_t  **p;

    /* of two with one revision (one txn) the later inserted is the newer */

    for (p = &slot->entry;
         *p != NULL && (*p)->mod_revision > entry->mod_revision;
         p = &(*p)->next)
    { /* void */ }

    entry->next = *p;
    *p = entry;
}


static void
ngx_etcd_slot_unlink(ngx_etcd_slot_t *slot, ngx_etcd_entry_t *entry)
{
    ngx_etcd_entry_t  **p;

    for (p = &slot->entry; *p != NULL; p = &(*p)->next) {
        if (*p == entry) {
            *p = entry->next;
            return;
        }
    }
}


static void
ngx_etcd_set_event(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_etcd_op_t *op, ngx_uint_t added, ngx_uint_t removed)
{
    ngx_str_t          key;
    ngx_etcd_entry_t  *entry;
    ngx_etcd_change_e  change;

    if (added) {
        change = NGX_ETCD_CHANGE_ADD;

    } else if (removed) {
        change = NGX_ETCD_CHANGE_REMOVE;

    } else {
        change = NGX_ETCD_CHANGE_UPDATE;
    }

    entry = (op->op == NGX_ETCD_OP_PUT) ? op->entry : op->old;

    key.data = ngx_etcd_entry_key(entry);
    key.len = entry->key_len;

    ngx_etcd_zone_event(zone, &set->name, &key, change, op->revision);
}


ngx_int_t
ngx_etcd_set_recover(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set)
{
    ngx_uint_t         n;
    ngx_etcd_entry_t  *entry;

    if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return NGX_AGAIN;
    }

    if (!ngx_etcd_zone_owned(zone)) {
        ngx_etcd_zone_unlock(zone);
        return NGX_DECLINED;
    }

    if (set->dirty) {
        set->nmembers = 0;

        for (n = 0; n < set->nslots; n++) {
            if (ngx_etcd_set_slot(set, n)->entry != NULL) {
                set->nmembers++;
            }
        }

        /*
         * The entries prepared then may be published or not: those that are
         * not are lost to the slab.  What the set says is listed again, and
         * not read before.
         */

        set->pending = NULL;
        set->revision = 0;

        if (set->torn == 0) {
            set->torn = ngx_max(ngx_current_msec, 1);
        }
    }

    while (set->pending != NULL) {
        entry = set->pending;
        set->pending = entry->next;
        ngx_slab_free_locked(zone->shpool, entry);
    }

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_set_invalid(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_str_t *key, ngx_str_t *reason, uint64_t revision)
{
    size_t                len;
    ngx_int_t             rc;
    ngx_etcd_redo_t       redo;
    ngx_etcd_invalid_t   *invalid, **p;

    if (key->len > NGX_ETCD_SET_MAX_KEY
        || (reason == NULL && set->invalid == NULL))
    {
        return NGX_OK;
    }

    if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return NGX_AGAIN;
    }

    for (p = &set->invalid; *p != NULL; p = &(*p)->next) {
        invalid = *p;

        if (invalid->key_len == key->len
            && ngx_memcmp(invalid->bytes, key->data, key->len) == 0)
        {
            redo.n = 0;

            ngx_etcd_redo_set(&redo, p, invalid->next);
            ngx_etcd_redo_set(&redo, &set->ninvalid, set->ninvalid - 1);

            ngx_etcd_redo_write(&zone->sh->redo, &redo);

            ngx_slab_free_locked(zone->shpool, invalid);
            break;
        }
    }

    rc = NGX_OK;

    if (reason != NULL && set->ninvalid < NGX_ETCD_SET_MAX_INVALID) {
        len = offsetof(ngx_etcd_invalid_t, bytes) + key->len + reason->len;
        invalid = ngx_slab_alloc_locked(zone->shpool, len);

        if (invalid != NULL) {
            invalid->mod_revision = revision;
            invalid->key_len = key->len;
            invalid->len = reason->len;

            ngx_memcpy(ngx_cpymem(invalid->bytes, key->data, key->len),
                       reason->data, reason->len);

            invalid->next = set->invalid;

            redo.n = 0;

            ngx_etcd_redo_set(&redo, &set->invalid, invalid);
            ngx_etcd_redo_set(&redo, &set->ninvalid, set->ninvalid + 1);

            ngx_etcd_redo_write(&zone->sh->redo, &redo);

            ngx_etcd_zone_event(zone, &set->name, key,
                                NGX_ETCD_CHANGE_INVALID, revision);

        } else {
            rc = NGX_ERROR;
        }
    }

    ngx_etcd_zone_unlock(zone);

    return rc;
}
