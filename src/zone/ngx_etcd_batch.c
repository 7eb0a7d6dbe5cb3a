
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
        if (node != NULL) {
            ngx_etcd_shared_map_replace(map, &old->node, &node->node, &redo);

        } else {
            ngx_etcd_shared_map_remove(map, &old->node, &redo);
        }

        ngx_etcd_redo_set(&redo, &old->node.next, batch->dead);
        ngx_etcd_redo_set(&redo, &batch->dead, &old->node);
    }

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
    ngx_etcd_redo_finish(&batch->redo);

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
