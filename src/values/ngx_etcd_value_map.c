
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
    ngx_slab_pool_t             *shpool;
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

    if (!ngx_etcd_shared_map_inside(search->shpool, p, len)) {
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

    if (!ngx_etcd_shared_map_inside(search->shpool, node,
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

    search.shpool = conf->zone->shpool;
    search.key = key;

    return (ngx_etcd_value_node_t *)
           ngx_etcd_shared_map_find_locked(conf->zone->shpool, &conf->map->map,
                                           ngx_etcd_shared_map_hash(key),
                                           ngx_etcd_value_map_match, &search);
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

    search.shpool = conf->zone->shpool;
    search.key = key;
    search.size = conf->max_size;
    search.read = read;

    rc = NGX_AGAIN;

    for (i = 0; i < NGX_ETCD_VALUE_MAP_TRIES && rc == NGX_AGAIN; i++) {
        rc = ngx_etcd_zone_find(conf->zone, &map->map, hash,
                                ngx_etcd_value_map_match, &search,
                                &read->version);
    }

    if (rc != NGX_OK) {

        /* a torn read may have left something */

        read->modified = 0;
        read->refused = 0;
    }

    if (rc == NGX_AGAIN) {
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
