
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_value_object.h>
#include <sys/mman.h>


static void ngx_etcd_value_object_clear(void *object);


static const ngx_etcd_object_type_t  ngx_etcd_value_object_type = {
    NGX_ETCD_ZONE_VALUE_MAPS, sizeof(ngx_etcd_value_map_t),
    ngx_etcd_value_object_clear
};


/* The whole literal part: namespaces differ.  ngx_free() the name's data. */

static ngx_str_t *
ngx_etcd_value_object_name(ngx_etcd_value_map_conf_t *conf, ngx_str_t *ns,
    ngx_str_t *name)
{
    u_char  *p;

    name->len = ns->len + conf->literal.len;
    name->data = ngx_alloc(ngx_max(name->len, 1), ngx_cycle->log);

    if (name->data == NULL) {
        return NULL;
    }

    p = name->data;

    if (ns->len != 0) {
        p = ngx_cpymem(p, ns->data, ns->len);
    }

    ngx_memcpy(p, conf->literal.data, conf->literal.len);

    return name;
}


/* The mutex of the new zone, which no other process uses, is not needed. */

static void
ngx_etcd_value_object_take(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_map_t *from)
{
    ngx_uint_t               i;
    ngx_etcd_value_node_t   *node;
    ngx_etcd_shared_node_t  *next;
    ngx_etcd_value_change_t  change;

    ngx_memzero(&change, sizeof(ngx_etcd_value_change_t));

    for (i = 0; i < from->map.nchains; i++) {
        for (next = from->map.chains[i]; next != NULL; next = next->next) {
            node = (ngx_etcd_value_node_t *) next;

            change.op = NGX_ETCD_VALUE_PUT;
            change.revision = node->modified;
            change.source = node->source;
            change.key.data = node->data;
            change.key.len = node->key_len;
            change.value.data = node->data + node->key_len;
            change.value.len = node->len;
            change.table.data = change.value.data + node->len;
            change.table.len = node->table_len;

            if (node->modified != 0) {
                ngx_etcd_value_object_restore(conf, &change);
            }

            if (node->refused != 0) {
                change.op = NGX_ETCD_VALUE_REFUSE;
                change.revision = node->refused;

                ngx_etcd_value_object_restore(conf, &change);
            }
        }
    }

    conf->map->revision = from->revision;
    conf->map->state = from->state;
    conf->map->over = from->over;
}


static ngx_int_t
ngx_etcd_value_object_inherit(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_zone_t *old)
{
    ngx_etcd_value_map_t  *from;

    if (ngx_etcd_zone_lock_patient(old) != NGX_OK) {
        return NGX_ERROR;
    }

    from = ngx_etcd_object_find(old, &ngx_etcd_value_object_type,
                                &conf->map->object);
    if (from != NULL) {
        ngx_etcd_value_object_take(conf, from);
    }

    ngx_etcd_zone_unlock(old);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_value_object_declare(ngx_etcd_value_map_conf_t *conf, ngx_str_t *ns,
    ngx_etcd_zone_t *zone, ngx_etcd_zone_t *old)
{
    ngx_int_t             rc;
    ngx_etcd_object_id_t  id;

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));

    /* workers have the key of hashes from their master */

    if (ngx_etcd_siphash_init(ngx_cycle->log) != NGX_OK
        || ngx_etcd_value_object_name(conf, ns, &id.name) == NULL)
    {
        return NGX_ERROR;
    }

    id.variant = conf->exact << 1 | conf->secret;

    conf->zone = zone;
    conf->map = ngx_etcd_object_declare(zone, &ngx_etcd_value_object_type, &id);

    ngx_free(id.name.data);

    if (conf->map == NULL || ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return NGX_ERROR;
    }

    conf->id = conf->map->object.id;

    rc = ngx_etcd_shared_map_size(zone->shpool, &conf->map->map, conf->limit);

    ngx_etcd_zone_unlock(zone);

    if (conf->secret) {
        zone->sh->secret = 1;
        ngx_etcd_value_object_hide(zone);
    }

    return (rc == NGX_OK && old != NULL)
           ? ngx_etcd_value_object_inherit(conf, old) : rc;
}


/* The number of the seqlock goes on, so that readers notice. */

static void
ngx_etcd_value_object_clear(void *object)
{
    ngx_etcd_value_map_t *map = object;

    map->map.chains = NULL;
    map->map.nchains = 0;
    map->map.n = 0;
    map->map.refused = 0;

    map->revision = 0;
    map->state = NGX_ETCD_VALUE_LOADING;
    map->changes = 0;
    map->over = 0;
}


void
ngx_etcd_value_object_hide(ngx_etcd_zone_t *zone)
{
    size_t  size;

    if (!zone->sh->secret || zone->hidden) {
        return;
    }

    zone->hidden = 1;
    size = zone->shpool->end - (u_char *) zone->shpool;

    /* fails on a kernel without core dumps */

    (void) madvise(zone->shpool, size, MADV_DONTDUMP);
}


void
ngx_etcd_value_object_restore(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change)
{
    ngx_etcd_value_change_t  *changes;

    if (ngx_max(change->value.len, change->table.len) > conf->max_size) {
        return;
    }

    changes = change;

    (void) ngx_etcd_value_change(conf, &changes, 1);
}


/* Removes a batch of nodes. */

static void
ngx_etcd_value_object_empty(ngx_etcd_zone_t *zone, ngx_etcd_shared_map_t *map)
{
    ngx_uint_t               i, n;
    ngx_etcd_batch_t        *batch;
    ngx_etcd_shared_node_t  *node;

    batch = &zone->sh->batch;
    n = 0;

    ngx_etcd_batch_begin(batch, map);

    for (i = 0; i < map->nchains; i++) {
        for (node = map->chains[i];
             node != NULL && n < NGX_ETCD_BATCH_STEPS;
             node = node->next)
        {
            ngx_memzero(&batch->steps[n], sizeof(ngx_etcd_step_t));
            batch->steps[n++].old = (ngx_etcd_value_node_t *) node;
        }
    }

    ngx_etcd_batch_make(batch, zone->shpool, n);
}


static ngx_uint_t
ngx_etcd_value_object_retire_piece(ngx_etcd_zone_t *zone, void *data)
{
    ngx_queue_t           *q, *next, *list;
    ngx_etcd_value_map_t  *map;

    list = &zone->sh->objects[NGX_ETCD_ZONE_VALUE_MAPS];

    for (q = ngx_queue_head(list); q != ngx_queue_sentinel(list); q = next) {
        next = ngx_queue_next(q);
        map = ngx_queue_data(q, ngx_etcd_value_map_t, object.queue);

        if (!ngx_etcd_object_old(zone, &map->object)) {
            continue;
        }

        if (map->map.n != 0) {
            ngx_etcd_value_object_empty(zone, &map->map);
            return 1;
        }

        ngx_etcd_shared_map_done(zone->shpool, &map->map,
                                 &zone->sh->batch.redo);
        ngx_etcd_object_retire(zone, &ngx_etcd_value_object_type, &map->object);
    }

    return 0;
}


ngx_int_t
ngx_etcd_value_object_retire_old(ngx_etcd_zone_t *zone, uint64_t until)
{
    return ngx_etcd_zone_work(zone, 0, ngx_etcd_value_object_retire_piece,
                              NULL, until);
}
