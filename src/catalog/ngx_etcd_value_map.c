
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
    u_char                      *buf;          /* NULL: the key is compared */
    size_t                       size;
    size_t                       len;
    uint64_t                     modified;
} ngx_etcd_value_map_search_t;


static ngx_uint_t ngx_etcd_value_map_match(void *data,
    ngx_etcd_shared_node_t *node);


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


/* A torn read may contain any length: clamp it before copying. */

static ngx_uint_t
ngx_etcd_value_map_match(void *data, ngx_etcd_shared_node_t *node)
{
    ngx_etcd_value_map_search_t *search = data;

    size_t                  len;
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

    if (search->buf == NULL) {
        return 1;
    }

    p += key->len;
    len = ngx_min(value->len, search->size);

    if (ngx_etcd_shared_map_inside(search->zone, p, len)) {
        ngx_memcpy(search->buf, p, len);
        search->len = len;
        search->modified = value->modified;
    }

    return 1;
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


ngx_int_t
ngx_etcd_value_map_get(ngx_etcd_value_map_conf_t *conf, ngx_str_t *key,
    u_char *buf, ngx_str_t *value, uint64_t *version)
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
    search.buf = buf;
    search.size = conf->max_size;

    for (i = 0; i < NGX_ETCD_VALUE_MAP_TRIES; i++) {
        *version = __atomic_load_n(&map->map.lock, __ATOMIC_ACQUIRE);

        search.modified = 0;
        rc = ngx_etcd_shared_map_find(conf->zone, &map->map, hash,
                                      ngx_etcd_value_map_match, &search);

        if (rc != NGX_AGAIN
            && *version == __atomic_load_n(&map->map.lock, __ATOMIC_ACQUIRE))
        {
            break;
        }

        /* the owner is preempted while it changes the map */

        ngx_sched_yield();
    }

    if (i == NGX_ETCD_VALUE_MAP_TRIES) {
        return NGX_AGAIN;
    }

    if (rc != NGX_OK
        || search.modified == 0
        || __atomic_load_n(&map->object.id, __ATOMIC_ACQUIRE) != conf->id)
    {
        return NGX_DECLINED;
    }

    value->data = buf;
    value->len = search.len;

    return NGX_OK;
}
