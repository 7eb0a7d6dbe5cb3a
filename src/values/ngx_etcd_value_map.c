
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_value_map.h>


/* nodes at a time under the mutex */
#define NGX_ETCD_VALUE_MAP_PIECE  256

/* tries to read the map while it changes */
#define NGX_ETCD_VALUE_MAP_TRIES  16


typedef struct {
    ngx_etcd_zone_t             *zone;
    ngx_str_t                   *key;
    size_t                       size;
    ngx_etcd_value_map_read_t   *read;         /* NULL: the key is compared */
} ngx_etcd_value_map_search_t;


ngx_etcd_value_pattern_t *
ngx_etcd_value_map_wants(ngx_etcd_value_map_conf_t *conf, ngx_str_t *key)
{
    ngx_uint_t                  i;
    ngx_etcd_value_pattern_t  **patterns;

    patterns = conf->patterns.elts;

    for (i = 0; i < conf->patterns.nelts; i++) {
        if (ngx_etcd_pattern_match(&patterns[i]->pattern, key) == key->len) {
            return patterns[i];
        }
    }

    return NULL;
}


ngx_str_t *
ngx_etcd_value_map_name(ngx_etcd_value_map_conf_t *conf, ngx_str_t *key)
{
    ngx_etcd_value_pattern_t  *pattern;

    pattern = ngx_etcd_value_map_wants(conf, key);

    return (pattern != NULL) ? &pattern->name : &conf->name;
}


static void
ngx_etcd_value_map_copy(ngx_etcd_value_map_search_t *search,
    ngx_etcd_value_node_t *node)
{
    size_t                      len;
    u_char                     *p;
    ngx_etcd_value_map_read_t  *read;

    read = search->read;
    p = (u_char *) node + offsetof(ngx_etcd_value_node_t, data)
        + search->key->len;

    switch (read->part) {

    case NGX_ETCD_VALUE_MAP_TEXT:
        len = node->len;
        break;

    case NGX_ETCD_VALUE_MAP_TABLE:
        p += node->len;
        len = node->table_len;
        break;

    default: /* NGX_ETCD_VALUE_MAP_NOTHING */
        len = 0;
        break;
    }

    len = ngx_min(len, search->size);

    if (!ngx_etcd_shared_map_inside(search->zone, p, len)) {
        return;
    }

    if (len != 0) {
        ngx_memcpy(read->buf, p, len);
    }

    read->value.data = read->buf;
    read->value.len = len;
    read->modified = node->modified;
    read->refused = node->refused;
    read->source = node->source;
}


/* A torn read may contain any length: clamp it before copying. */

static ngx_uint_t
ngx_etcd_value_map_match(void *data, ngx_etcd_shared_node_t *node)
{
    ngx_etcd_value_map_search_t *search = data;

    u_char                 *p;
    ngx_str_t              *key;
    ngx_etcd_value_node_t  *value;

    key = search->key;
    value = (ngx_etcd_value_node_t *) node;
    p = (u_char *) node + offsetof(ngx_etcd_value_node_t, data);

    if (!ngx_etcd_shared_map_inside(search->zone, node,
                                    offsetof(ngx_etcd_value_node_t, data)
                                    + key->len)
        || value->key_len != key->len
        || ngx_memcmp(p, key->data, key->len) != 0)
    {
        return 0;
    }

    if (search->read != NULL) {
        ngx_etcd_value_map_copy(search, value);
    }

    return 1;
}


ngx_etcd_value_node_t *
ngx_etcd_value_map_find(ngx_etcd_value_map_conf_t *conf, ngx_str_t *key)
{
    ngx_etcd_value_map_search_t  search;

    ngx_memzero(&search, sizeof(ngx_etcd_value_map_search_t));

    search.zone = conf->zone;
    search.key = key;

    return (ngx_etcd_value_node_t *)
           ngx_etcd_shared_map_find_locked(conf->zone, &conf->map->map,
                                           ngx_etcd_shared_map_hash(key),
                                           ngx_etcd_value_map_match, &search);
}


void
ngx_etcd_value_map_apply(ngx_etcd_zone_t *zone, ngx_etcd_value_map_t *map,
    ngx_uint_t nsteps)
{
    ngx_etcd_seqlock_write(&map->map.lock);

    /* from now on all of the steps are made */

    __atomic_store_n(&map->nsteps, nsteps, __ATOMIC_RELEASE);

    ngx_etcd_value_map_finish(zone, map);
}


static void
ngx_etcd_value_map_step(ngx_etcd_zone_t *zone, ngx_etcd_value_map_t *map)
{
    ngx_etcd_redo_t         redo;
    ngx_etcd_value_node_t  *old, *node;
    ngx_etcd_value_step_t  *step;

    step = &map->steps[map->nsteps - 1];
    old = step->old;
    node = step->node;

    redo.n = 0;

    ngx_etcd_redo_set(&redo, &map->nsteps, map->nsteps - 1);
    ngx_etcd_redo_set(&redo, &map->invalid,
                      map->invalid + (step->refused != 0)
                      - (old != NULL && old->refused != 0));

    if (node != NULL) {
        ngx_etcd_redo_set(&redo, &map->spare, node->node.next);
    }

    if (old == NULL) {
        ngx_etcd_shared_map_add(&map->map, &node->node, &redo);

    } else if (node == NULL && step->refused != 0) {
        ngx_etcd_redo_set(&redo, &old->refused, step->refused);
        ngx_etcd_redo_set(&redo, &old->source, step->source);

    } else {
        if (node != NULL) {
            ngx_etcd_shared_map_replace(&map->map, &old->node, &node->node,
                                        &redo);

        } else {
            ngx_etcd_shared_map_remove(&map->map, &old->node, &redo);
        }

        ngx_etcd_redo_set(&redo, &old->node.next, map->dead);
        ngx_etcd_redo_set(&redo, &map->dead, &old->node);
    }

    ngx_etcd_redo_write(&zone->sh->redo, &redo);
}


/* The number of the seqlock is odd until then: no reader sees a part. */

void
ngx_etcd_value_map_finish(ngx_etcd_zone_t *zone, ngx_etcd_value_map_t *map)
{
    while (map->nsteps != 0) {
        ngx_etcd_value_map_step(zone, map);
    }

    if (map->map.lock & 1) {
        ngx_etcd_seqlock_written(&map->map.lock);
    }
}


ngx_int_t
ngx_etcd_value_map_each(ngx_etcd_value_map_conf_t *conf, ngx_uint_t *chain,
    ngx_etcd_value_map_each_pt handler, void *data)
{
    ngx_int_t                rc;
    ngx_uint_t               n;
    ngx_etcd_shared_map_t   *map;
    ngx_etcd_shared_node_t  *node;

    if (ngx_etcd_zone_lock_patient(conf->zone) != NGX_OK) {
        return NGX_BUSY;
    }

    map = &conf->map->map;
    rc = NGX_OK;
    n = 0;

    if (conf->map->object.id != conf->id) {
        *chain = map->nchains;
    }

    while (*chain < map->nchains && n < NGX_ETCD_VALUE_MAP_PIECE) {
        for (node = map->chains[*chain]; node != NULL; node = node->next) {
            rc = handler(data, (ngx_etcd_value_node_t *) node);

            if (rc != NGX_OK) {
                goto done;
            }

            n++;
        }

        n++;
        (*chain)++;
    }

    if (*chain < map->nchains) {
        rc = NGX_AGAIN;
    }

done:

    ngx_etcd_zone_unlock(conf->zone);

    return rc;
}


/* The owner changes the map, or was killed while it did. */

static void
ngx_etcd_value_map_wait(ngx_etcd_value_map_conf_t *conf)
{
    if (ngx_etcd_zone_lock(conf->zone) != NGX_OK) {
        ngx_sched_yield();
        return;
    }

    ngx_etcd_value_map_finish(conf->zone, conf->map);

    ngx_etcd_zone_unlock(conf->zone);
}


ngx_int_t
ngx_etcd_value_map_get(ngx_etcd_value_map_conf_t *conf, ngx_str_t *key,
    ngx_etcd_value_map_read_t *read)
{
    uint64_t                      hash;
    ngx_int_t                     rc;
    ngx_uint_t                    i;
    ngx_etcd_value_map_t         *map;
    ngx_etcd_value_map_search_t   search;

    map = conf->map;
    hash = ngx_etcd_shared_map_hash(key);

    ngx_memzero(&search, sizeof(ngx_etcd_value_map_search_t));

    search.zone = conf->zone;
    search.key = key;
    search.size = conf->max_size;
    search.read = read;

    rc = NGX_AGAIN;

    for (i = 0; i < NGX_ETCD_VALUE_MAP_TRIES; i++) {
        read->version = __atomic_load_n(&map->map.lock, __ATOMIC_ACQUIRE);

        if (read->version & 1) {
            ngx_etcd_value_map_wait(conf);
            continue;
        }

        read->modified = 0;
        read->refused = 0;
        rc = ngx_etcd_shared_map_find(conf->zone, &map->map, hash,
                                      ngx_etcd_value_map_match, &search);

        if (rc != NGX_AGAIN
            && read->version == __atomic_load_n(&map->map.lock,
                                                __ATOMIC_ACQUIRE))
        {
            break;
        }

        ngx_sched_yield();
    }

    if (i == NGX_ETCD_VALUE_MAP_TRIES) {
        return NGX_AGAIN;
    }

    if (rc != NGX_OK
        || read->modified == 0
        || __atomic_load_n(&map->object.id, __ATOMIC_ACQUIRE) != conf->id)
    {
        return NGX_DECLINED;
    }

    return NGX_OK;
}
