
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <sys/mman.h>
#include <ngx_etcd_pem.h>
#include <ngx_etcd_secret.h>
#include <ngx_etcd_split.h>
#include <ngx_etcd_value_change.h>


ngx_etcd_value_change_t *
ngx_etcd_value_change_copy(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change, ngx_log_t *log)
{
    size_t                    len, size;
    u_char                   *p;
    ngx_etcd_value_change_t  *copy;

    /* a longer value is refused by its length */

    len = (change->value.len <= conf->max_size) ? change->value.len : 0;
    size = sizeof(ngx_etcd_value_change_t) + change->key.len + len;

    if (conf->split) {
        size += NGX_ETCD_SPLIT_ROOM(len);
    }

    copy = (conf->type == NGX_ETCD_VALUE_PEM)
           ? ngx_etcd_secret_alloc(NGX_ETCD_PEM_ROOM(size), log)
           : ngx_alloc(size, log);

    if (copy == NULL) {
        return NULL;
    }

    *copy = *change;

    p = (u_char *) (copy + 1);

    copy->key.data = p;
    p = ngx_cpymem(p, change->key.data, change->key.len);

    copy->value.data = p;

    if (len != 0) {
        p = ngx_cpymem(p, change->value.data, len);
    }

    copy->table.data = p;

    return copy;
}


void
ngx_etcd_value_change_done(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change)
{
    if (conf->type == NGX_ETCD_VALUE_PEM) {
        ngx_etcd_secret_free(change);

    } else {
        ngx_free(change);
    }
}


static ngx_etcd_value_node_t *
ngx_etcd_value_change_node(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change)
{
    u_char                 *p;
    size_t                  len, table;
    ngx_etcd_value_node_t  *node;

    len = 0;
    table = 0;

    if (change->op == NGX_ETCD_VALUE_PUT) {
        len = change->value.len;
        table = change->table.len;
    }

    node = ngx_etcd_batch_alloc(&conf->zone->sh->batch, conf->zone->shpool,
                                offsetof(ngx_etcd_value_node_t, data)
                                + change->key.len + len + table);
    if (node == NULL) {
        return NULL;
    }

    node->node.hash = ngx_etcd_shared_map_hash(&change->key);
    node->modified = change->revision;
    node->refused = 0;
    node->source = change->source;
    node->key_len = change->key.len;
    node->len = len;
    node->table_len = table;

    if (change->op == NGX_ETCD_VALUE_REFUSE) {
        node->modified = 0;
        node->refused = change->revision;
    }

    p = ngx_cpymem(node->data, change->key.data, change->key.len);

    if (len != 0) {
        p = ngx_cpymem(p, change->value.data, len);
    }

    if (table != 0) {
        ngx_memcpy(p, change->table.data, table);
    }

    return node;
}


/*
 * Writes the step of the change.  NGX_DONE: there is none; NGX_DECLINED: the
 * limit is reached; NGX_ERROR: the zone is full.
 */

static ngx_int_t
ngx_etcd_value_change_prepare(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change, ngx_etcd_step_t *step, ngx_uint_t *room)
{
    step->old = ngx_etcd_value_map_find(conf, &change->key);
    step->node = NULL;
    step->refused = (change->op == NGX_ETCD_VALUE_REFUSE) ? change->revision
                                                          : 0;
    step->source = change->source;

    if (change->op == NGX_ETCD_VALUE_REMOVE) {
        change->change = NGX_ETCD_CHANGE_REMOVE;

        return (step->old != NULL) ? NGX_OK : NGX_DONE;
    }

    change->change = (change->op == NGX_ETCD_VALUE_REFUSE)
                     ? NGX_ETCD_CHANGE_INVALID
                     : (step->old != NULL && step->old->modified != 0)
                       ? NGX_ETCD_CHANGE_UPDATE : NGX_ETCD_CHANGE_ADD;

    if (step->old == NULL) {
        if (*room == 0) {
            return NGX_DECLINED;
        }

    } else if (change->op == NGX_ETCD_VALUE_REFUSE) {
        return NGX_OK;
    }

    step->node = ngx_etcd_value_change_node(conf, change);

    if (step->node == NULL) {
        return NGX_ERROR;
    }

    *room -= (step->old == NULL);

    return NGX_OK;
}


/*
 * Drops the former step of the same node: etcd sends one event of a key in a
 * revision, but no answer may break the map.  Returns the number of steps.
 */

static ngx_uint_t
ngx_etcd_value_change_once(ngx_etcd_step_t *steps, ngx_uint_t n)
{
    ngx_uint_t  i;

    for (i = 0; i < n - 1; i++) {
        if (steps[i].old != NULL && steps[i].old == steps[n - 1].old) {
            ngx_memmove(&steps[i], &steps[i + 1],
                        (n - 1 - i) * sizeof(ngx_etcd_step_t));
            return n - 1;
        }
    }

    return n;
}


ngx_int_t
ngx_etcd_value_change(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t **changes, ngx_uint_t n)
{
    ngx_int_t              rc;
    ngx_uint_t             i, room, nsteps;
    ngx_etcd_batch_t      *batch;
    ngx_etcd_value_map_t  *map;

    map = conf->map;
    batch = &conf->zone->sh->batch;
    nsteps = 0;
    room = (map->map.n < conf->limit) ? conf->limit - map->map.n : 0;

    ngx_etcd_batch_begin(batch, &map->map);

    for (i = 0; i < n; i++) {
        rc = ngx_etcd_value_change_prepare(conf, changes[i],
                                           &batch->steps[nsteps], &room);

        if (rc == NGX_ERROR) {
            ngx_etcd_batch_finish(batch, conf->zone->shpool);

            for (i = 0; i < n; i++) {
                changes[i]->made = 0;
            }

            return NGX_ERROR;
        }

        changes[i]->made = (rc == NGX_OK);

        if (rc == NGX_OK) {
            nsteps = ngx_etcd_value_change_once(batch->steps, nsteps + 1);
        }
    }

    ngx_etcd_batch_make(batch, conf->zone->shpool, nsteps);

    map->changes++;

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_value_change_known(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change)
{
    ngx_uint_t              known;
    ngx_etcd_value_node_t  *node;

    if (ngx_etcd_zone_lock_owned(conf->zone, 0) != NGX_OK) {
        return 0;
    }

    node = ngx_etcd_value_map_find(conf, &change->key);

    known = node != NULL
            && change->revision == (node->refused ? node->refused
                                                  : node->modified)
            && change->source == node->source;

    ngx_etcd_zone_unlock(conf->zone);

    return known;
}


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

    id.variant = conf->type << 1 | conf->exact;

    conf->zone = zone;
    conf->map = ngx_etcd_object_declare(zone, &ngx_etcd_value_object_type, &id);

    ngx_free(id.name.data);

    if (conf->map == NULL || ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return NGX_ERROR;
    }

    conf->id = conf->map->object.id;

    rc = ngx_etcd_shared_map_size(zone->shpool, &conf->map->map, conf->limit);

    ngx_etcd_zone_unlock(zone);

    if (conf->type == NGX_ETCD_VALUE_PEM) {
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
    ngx_etcd_value_node_t    *node;
    ngx_etcd_value_change_t  *changes;

    if (ngx_max(change->value.len, change->table.len) > conf->max_size) {
        return;
    }

    node = ngx_etcd_value_map_find(conf, &change->key);

    if (node != NULL && node->modified > change->revision) {
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
