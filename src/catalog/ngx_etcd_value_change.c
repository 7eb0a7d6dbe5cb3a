
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_value_change.h>


static ngx_int_t ngx_etcd_value_change_prepare(
    ngx_etcd_value_map_conf_t *conf, ngx_etcd_value_change_t *change,
    ngx_uint_t *room);
static ngx_etcd_value_node_t *ngx_etcd_value_change_node(
    ngx_etcd_value_map_conf_t *conf, ngx_etcd_value_change_t *change);
static void ngx_etcd_value_change_commit(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change);
static ngx_uint_t ngx_etcd_value_change_kind(ngx_etcd_value_change_t *change,
    ngx_etcd_value_node_t *old);


ngx_uint_t
ngx_etcd_value_change(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t **changes, ngx_uint_t n, ngx_uint_t *full)
{
    ngx_int_t              rc;
    ngx_uint_t             i, over, room;
    ngx_etcd_value_map_t  *map;

    map = conf->map;
    over = 0;
    room = (map->map.n < conf->limit) ? conf->limit - map->map.n : 0;

    /* the nodes first: the time in which readers have to wait is short then */

    for (i = 0; i < n; i++) {
        rc = ngx_etcd_value_change_prepare(conf, changes[i], &room);

        if (rc != NGX_OK) {
            over = 1;
            *full |= (rc == NGX_ERROR);
        }
    }

    ngx_etcd_seqlock_write(&map->map.lock);

    for (i = n; i > 0; i--) {
        ngx_etcd_value_change_commit(conf, changes[i - 1]);
    }

    ngx_etcd_seqlock_written(&map->map.lock);

    map->changes++;

    ngx_etcd_value_change_free(conf->zone, &map->dead);

    return over;
}


/* NGX_DECLINED: the limit is reached; NGX_ERROR: the zone is full. */

static ngx_int_t
ngx_etcd_value_change_prepare(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change, ngx_uint_t *room)
{
    ngx_uint_t              is_new;
    ngx_etcd_value_map_t   *map;
    ngx_etcd_value_node_t  *node;

    map = conf->map;
    change->node = NULL;

    if (change->op == NGX_ETCD_VALUE_REMOVE) {
        return NGX_OK;
    }

    node = ngx_etcd_value_map_find(conf, &change->key);

    is_new = (node == NULL);

    if (is_new && *room == 0) {
        return NGX_DECLINED;
    }

    if (!is_new && change->op == NGX_ETCD_VALUE_REFUSE) {
        return NGX_OK;
    }

    node = ngx_etcd_value_change_node(conf, change);

    if (node == NULL) {
        return NGX_ERROR;
    }

    node->node.next = map->spare;
    map->spare = &node->node;

    change->node = node;
    *room -= is_new;

    return NGX_OK;
}


static ngx_etcd_value_node_t *
ngx_etcd_value_change_node(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change)
{
    u_char                 *p;
    ngx_etcd_value_node_t  *node;

    node = ngx_slab_alloc_locked(conf->zone->shpool,
                                 offsetof(ngx_etcd_value_node_t, data)
                                 + change->key.len + change->value.len);
    if (node == NULL) {
        return NULL;
    }

    node->node.hash = ngx_etcd_shared_map_hash(&change->key);
    node->modified = change->revision;
    node->refused = 0;
    node->key_len = change->key.len;
    node->len = change->value.len;

    if (change->op == NGX_ETCD_VALUE_REFUSE) {
        node->modified = 0;
        node->refused = change->revision;
    }

    p = ngx_cpymem(node->data, change->key.data, change->key.len);

    if (change->value.len != 0) {
        ngx_memcpy(p, change->value.data, change->value.len);
    }

    return node;
}


/* Links the node of the change, which is the first of the spare ones. */

static void
ngx_etcd_value_change_commit(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change)
{
    ngx_etcd_redo_t          redo;
    ngx_etcd_value_map_t    *map;
    ngx_etcd_value_node_t   *old;
    ngx_etcd_shared_node_t  *node;

    map = conf->map;
    old = ngx_etcd_value_map_find(conf, &change->key);
    node = (change->node != NULL) ? &change->node->node : NULL;

    change->made = ngx_etcd_value_change_kind(change, old);

    if (!change->made) {
        return;
    }

    redo.n = 0;

    ngx_etcd_redo_set(&redo, &map->invalid,
                      map->invalid
                      + (change->op == NGX_ETCD_VALUE_REFUSE)
                      - (old != NULL && old->refused != 0));

    if (node != NULL) {
        ngx_etcd_redo_set(&redo, &map->spare, node->next);
    }

    if (old == NULL) {
        ngx_etcd_shared_map_add(&map->map, node, &redo);

    } else if (node == NULL && change->op == NGX_ETCD_VALUE_REFUSE) {
        ngx_etcd_redo_set(&redo, &old->refused, change->revision);

    } else {
        if (node != NULL) {
            ngx_etcd_shared_map_replace(&map->map, &old->node, node, &redo);

        } else {
            ngx_etcd_shared_map_remove(&map->map, &old->node, &redo);
        }

        ngx_etcd_redo_set(&redo, &old->node.next, map->dead);
        ngx_etcd_redo_set(&redo, &map->dead, &old->node);
    }

    ngx_etcd_redo_write(&conf->zone->sh->redo, &redo);
}


/* Returns 0 if there is nothing to do: there is no node, or no room for it. */

static ngx_uint_t
ngx_etcd_value_change_kind(ngx_etcd_value_change_t *change,
    ngx_etcd_value_node_t *old)
{
    switch (change->op) {

    case NGX_ETCD_VALUE_REMOVE:
        change->change = NGX_ETCD_CHANGE_REMOVE;
        return old != NULL;

    case NGX_ETCD_VALUE_REFUSE:
        change->change = NGX_ETCD_CHANGE_INVALID;
        return old != NULL || change->node != NULL;

    default: /* NGX_ETCD_VALUE_PUT */
        change->change = (old != NULL && old->modified != 0)
                         ? NGX_ETCD_CHANGE_UPDATE : NGX_ETCD_CHANGE_ADD;
        return change->node != NULL;
    }
}


/* No other process changes the map. */

ngx_uint_t
ngx_etcd_value_change_known(ngx_etcd_value_map_conf_t *conf,
    ngx_etcd_value_change_t *change)
{
    ngx_etcd_value_node_t  *node;

    node = ngx_etcd_value_map_find(conf, &change->key);

    if (node == NULL) {
        return change->op == NGX_ETCD_VALUE_REMOVE;
    }

    if (change->op == NGX_ETCD_VALUE_REFUSE) {
        return node->refused == change->revision;
    }

    return change->op == NGX_ETCD_VALUE_PUT
           && node->refused == 0
           && node->modified == change->revision
           && node->len == change->value.len
           && (node->len == 0
               || ngx_memcmp(node->data + node->key_len, change->value.data,
                             node->len)
                  == 0);
}


/* An odd number of the seqlock would make each reader lock the mutex. */

ngx_int_t
ngx_etcd_value_change_recover(ngx_etcd_value_map_conf_t *conf)
{
    ngx_etcd_value_map_t  *map;

    if (ngx_etcd_zone_lock_patient(conf->zone) != NGX_OK) {
        return NGX_BUSY;
    }

    map = conf->map;

    if (map->map.lock & 1) {
        ngx_etcd_seqlock_written(&map->map.lock);
    }

    ngx_etcd_value_change_free(conf->zone, &map->spare);
    ngx_etcd_value_change_free(conf->zone, &map->dead);

    ngx_etcd_zone_unlock(conf->zone);

    return NGX_OK;
}


/* Values may be private keys. */

void
ngx_etcd_value_change_free(ngx_etcd_zone_t *zone, ngx_etcd_shared_node_t **list)
{
    ngx_etcd_value_node_t   *value;
    ngx_etcd_shared_node_t  *node;

    while ((node = *list) != NULL) {
        value = (ngx_etcd_value_node_t *) node;

        ngx_explicit_memzero(value->data, value->key_len + value->len);

        *list = node->next;

        ngx_slab_free_locked(zone->shpool, node);
    }
}
