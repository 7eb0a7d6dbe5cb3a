
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_batch.h>


void
ngx_etcd_batch_begin(ngx_etcd_batch_t *batch, ngx_etcd_shared_map_t *map)
{
    batch->map = map;
}


ngx_etcd_value_node_t *
ngx_etcd_batch_alloc(ngx_etcd_batch_t *batch, ngx_slab_pool_t *shpool,
    size_t size)
{
    ngx_etcd_value_node_t  *node;

    node = ngx_slab_alloc_locked(shpool, size);

    if (node != NULL) {
        node->key_len = 0;
        node->len = 0;
        node->table_len = 0;
        node->node.next = batch->spare;

        ngx_memory_barrier();

        batch->spare = &node->node;
    }

    return node;
}


static void
ngx_etcd_batch_step(ngx_etcd_batch_t *batch)
{
    ngx_etcd_redo_t         redo;
    ngx_etcd_step_t        *step;
    ngx_etcd_shared_map_t  *map;
    ngx_etcd_value_node_t  *old, *node;

    map = batch->map;
    step = &batch->steps[batch->n - 1];
    old = step->old;
    node = step->node;

    redo.n = 0;

    ngx_etcd_redo_set(&redo, &batch->n, batch->n - 1);
    ngx_etcd_redo_set(&redo, &map->refused,
                      map->refused + (step->refused != 0)
                      - (old != NULL && old->refused != 0));

    if (node != NULL) {
        ngx_etcd_redo_set(&redo, &batch->spare, node->node.next);
    }

    if (old == NULL) {
        ngx_etcd_shared_map_add(map, &node->node, &redo);

    } else if (node == NULL && step->refused != 0) {
        ngx_etcd_redo_set(&redo, &old->refused, step->refused);
        ngx_etcd_redo_set(&redo, &old->source, step->source);

    } else {
        ngx_etcd_shared_map_replace(map, &old->node,
                                    node ? &node->node : NULL, &redo);

        ngx_etcd_redo_set(&redo, &old->node.next, batch->dead);
        ngx_etcd_redo_set(&redo, &batch->dead, &old->node);
    }

    ngx_etcd_redo_write(&batch->redo, &redo);
}


/* A member is counted anew in a slot that was free. */

static void
ngx_etcd_batch_occupy(ngx_etcd_batch_t *batch, ngx_etcd_slot_t *slot,
    ngx_etcd_redo_t *redo)
{
    uint32_t                       uid;
    ngx_etcd_member_set_commit_t  *set;

    set = batch->set;
    uid = (batch->uid + 1 != 0) ? batch->uid + 1 : 1;

    slot->uid = uid;
    slot->conns = (uint64_t) uid << 32;
    slot->fails = (uint64_t) uid << 32;
    slot->verdict = (uint64_t) uid << 32 | batch->verdict;
    slot->accessed = 0;
    slot->checked = 0;
    slot->started = batch->started;

    ngx_etcd_redo_set(redo, &batch->uid, uid);
    ngx_etcd_redo_set(redo, &set->requests, set->requests + slot->requests);
    ngx_etcd_redo_set(redo, &slot->requests, 0);
    ngx_etcd_redo_set(redo, &set->nmembers, set->nmembers + 1);
}


static void
ngx_etcd_batch_put(ngx_etcd_batch_t *batch, ngx_etcd_slot_step_t *step,
    ngx_etcd_redo_t *redo)
{
    ngx_etcd_entry_t              *entry, *old, *at;
    ngx_etcd_member_set_commit_t  *set;

    set = batch->set;
    entry = step->entry;
    old = step->old;
    at = step->slot->entry;

    if (at == NULL) {
        ngx_etcd_batch_occupy(batch, step->slot, redo);
    }

    /* each key creation with a higher revision is another leader */

    if (entry->create_revision > set->term) {
        ngx_etcd_redo_set(redo, &set->term, entry->create_revision);
        ngx_etcd_redo_set(redo, &set->terms, set->terms + 1);
    }

    if (set->pending == entry) {
        ngx_etcd_redo_set(redo, &set->pending,
                          (entry->next != entry) ? entry->next : NULL);
    }

    ngx_etcd_redo_set(redo, &entry->prev->next, entry->next);
    ngx_etcd_redo_set(redo, &entry->next->prev, entry->prev);

    if (at == NULL || (old == at && old->next == old)) {
        ngx_etcd_redo_set(redo, &entry->next, entry);
        ngx_etcd_redo_set(redo, &entry->prev, entry);
        return;
    }

    if (old != NULL) {
        ngx_etcd_redo_set(redo, &entry->next, old->next);
        ngx_etcd_redo_set(redo, &entry->prev, old->prev);
        ngx_etcd_redo_set(redo, &old->prev->next, entry);
        ngx_etcd_redo_set(redo, &old->next->prev, entry);

    } else {
        ngx_etcd_redo_set(redo, &entry->next, at->next);
        ngx_etcd_redo_set(redo, &entry->prev, at);
        ngx_etcd_redo_set(redo, &at->next->prev, entry);
        ngx_etcd_redo_set(redo, &at->next, entry);
    }
}


void
ngx_etcd_batch_slot(ngx_etcd_batch_t *batch)
{
    ngx_etcd_redo_t        redo;
    ngx_etcd_entry_t      *old;
    ngx_atomic_uint_t      generation;
    ngx_etcd_slot_step_t  *step;

    step = &batch->slots[batch->n - 1];
    old = step->old;

    redo.n = 0;

    switch (step->op) {

    case NGX_ETCD_OP_PUT:
        ngx_etcd_batch_put(batch, step, &redo);
        break;

    case NGX_ETCD_OP_TOUCH:
        old->mod_revision = step->revision;
        old->lease = step->lease;
        old->gone = 0;
        break;

    case NGX_ETCD_OP_KEEP:
        old->gone = NGX_ETCD_ENTRY_KEPT;
        break;

    case NGX_ETCD_OP_HOLD:
        old->mod_revision = 0;
        old->gone = NGX_ETCD_ENTRY_HELD;
        break;

    case NGX_ETCD_OP_REMOVE:
        ngx_etcd_redo_set(&redo, &old->prev->next, old->next);
        ngx_etcd_redo_set(&redo, &old->next->prev, old->prev);

        if (step->shown == NULL) {
            ngx_etcd_redo_set(&redo, &batch->set->nmembers,
                              batch->set->nmembers - 1);
        }

        break;
    }

    if (old != NULL
        && (step->op == NGX_ETCD_OP_PUT || step->op == NGX_ETCD_OP_REMOVE))
    {
        ngx_etcd_redo_set(&redo, &old->next, batch->removed);
        ngx_etcd_redo_set(&redo, &batch->removed, old);
    }

    if (step->slot->entry != step->shown) {
        generation = *batch->generation + 1;

        ngx_etcd_redo_set(&redo, &step->slot->entry, step->shown);
        ngx_etcd_redo_set(&redo, &batch->ring[generation % batch->room],
                          step->n);
        ngx_etcd_redo_set(&redo, batch->generation, generation);
    }

    ngx_etcd_redo_set(&redo, &batch->n, batch->n - 1);

    ngx_etcd_redo_write(&batch->redo, &redo);
}


/* Values may be private keys. */

static void
ngx_etcd_batch_free(ngx_slab_pool_t *shpool, ngx_etcd_shared_node_t **list)
{
    ngx_etcd_value_node_t   *value;
    ngx_etcd_shared_node_t  *node;

    while ((node = *list) != NULL) {
        value = (ngx_etcd_value_node_t *) node;

        ngx_explicit_memzero(value->data, value->key_len + value->len
                                          + value->table_len);

        *list = node->next;

        ngx_slab_free_locked(shpool, node);
    }
}


void
ngx_etcd_batch_make(ngx_etcd_batch_t *batch, ngx_slab_pool_t *shpool,
    ngx_uint_t n)
{
    ngx_etcd_seqlock_write(&batch->map->lock);

    /* from now on all of the steps are made */

    __atomic_store_n(&batch->n, n, __ATOMIC_RELEASE);

    ngx_etcd_batch_finish(batch, shpool);
}


/* The number of the seqlock is odd until then: no reader sees a part. */

void
ngx_etcd_batch_finish(ngx_etcd_batch_t *batch, ngx_slab_pool_t *shpool)
{
    ngx_etcd_entry_t  *entry;

    ngx_etcd_redo_finish(&batch->redo);

    if (batch->set != NULL) {

        while (batch->n != 0) {
            ngx_etcd_batch_slot(batch);
        }

        while ((entry = batch->removed) != NULL) {
            batch->removed = entry->next;

            ngx_slab_free_locked(shpool, entry);
        }

        batch->set = NULL;
    }

    if (batch->map == NULL) {
        return;
    }

    while (batch->n != 0) {
        ngx_etcd_batch_step(batch);
    }

    if (batch->map->lock & 1) {
        ngx_etcd_seqlock_written(&batch->map->lock);
    }

    ngx_etcd_batch_free(shpool, &batch->spare);
    ngx_etcd_batch_free(shpool, &batch->dead);

    batch->map = NULL;
}
