
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_pem.h>
#include <ngx_etcd_split.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_value_conf.h>


static ngx_etcd_value_map_conf_t *
ngx_etcd_value_conf_map(ngx_array_t *maps, ngx_str_t *name, ngx_str_t *literal,
    ngx_uint_t secret, ngx_pool_t *pool)
{
    ngx_uint_t                   i;
    ngx_etcd_value_map_conf_t   *map, **p;

    p = maps->elts;

    for (i = 0; i < maps->nelts; i++) {
        if (p[i]->secret == secret
            && ngx_etcd_str_equal(&p[i]->literal, literal))
        {
            return p[i];
        }
    }

    map = ngx_pcalloc(pool, sizeof(ngx_etcd_value_map_conf_t));

    if (map == NULL
        || ngx_array_init(&map->patterns, pool, 2,
                          sizeof(ngx_etcd_value_pattern_t *))
           != NGX_OK)
    {
        return NULL;
    }

    map->name = *name;
    map->literal = *literal;
    map->secret = secret;

    p = ngx_array_push(maps);
    if (p == NULL) {
        return NULL;
    }

    *p = map;

    return map;
}


/* Returns 1 if both patterns, with the same literal part, match the same. */

static ngx_uint_t
ngx_etcd_value_conf_alike(ngx_etcd_pattern_t *one, ngx_etcd_pattern_t *two)
{
    ngx_uint_t                   i;
    ngx_etcd_pattern_segment_t  *first, *second;

    if (one->segments.nelts != two->segments.nelts) {
        return 0;
    }

    first = one->segments.elts;
    second = two->segments.elts;

    for (i = 0; i < one->segments.nelts; i++) {

        if (first[i].variable != second[i].variable) {
            return 0;
        }

        if (!first[i].variable
            && !ngx_etcd_str_equal(&first[i].text, &second[i].text))
        {
            return 0;
        }
    }

    return 1;
}


static ngx_etcd_value_pattern_t *
ngx_etcd_value_conf_pattern(ngx_etcd_value_map_conf_t *map,
    ngx_etcd_pattern_t *pattern, ngx_pool_t *pool)
{
    ngx_uint_t                  i;
    ngx_etcd_value_pattern_t  **p;

    p = map->patterns.elts;

    for (i = 0; i < map->patterns.nelts; i++) {
        if (ngx_etcd_value_conf_alike(&p[i]->pattern, pattern)) {
            return p[i];
        }
    }

    p = ngx_array_push(&map->patterns);
    if (p == NULL) {
        return NULL;
    }

    *p = ngx_pcalloc(pool, sizeof(ngx_etcd_value_pattern_t));

    if (*p != NULL) {
        (*p)->pattern = *pattern;
    }

    return *p;
}


static void
ngx_etcd_value_conf_raise(ngx_etcd_value_pattern_t *limits,
    ngx_etcd_value_pattern_t *pattern)
{
    limits->max_size = ngx_max(limits->max_size, pattern->max_size);
    limits->max_bits = ngx_max(limits->max_bits, pattern->max_bits);
    limits->split |= pattern->split;
}


ngx_etcd_value_map_conf_t *
ngx_etcd_value_conf_add(ngx_array_t *maps, ngx_str_t *name,
    ngx_etcd_value_pattern_t *pattern, ngx_uint_t secret, ngx_pool_t *pool)
{
    size_t                      size;
    ngx_etcd_value_pattern_t   *p;
    ngx_etcd_value_map_conf_t  *map;

    map = ngx_etcd_value_conf_map(maps, name, &pattern->pattern.literal,
                                  secret, pool);
    if (map == NULL) {
        return NULL;
    }

    p = ngx_etcd_value_conf_pattern(map, &pattern->pattern, pool);
    if (p == NULL) {
        return NULL;
    }

    if (p->name.len == 0) {
        p->name = *name;
    }

    map->limit -= p->limit;

    p->limit = ngx_max(p->limit, pattern->limit);
    ngx_etcd_value_conf_raise(p, pattern);

    map->limit += p->limit;
    map->split |= p->split;

    size = secret ? NGX_ETCD_PEM_ROOM(p->max_size) : p->max_size;

    if (p->split) {
        size = NGX_ETCD_SPLIT_ROOM(size);
    }

    if (size <= map->max_size) {
        return map;
    }

    map->max_size = size;

    if (!secret) {
        map->copy = ngx_palloc(pool, map->max_size);
        if (map->copy == NULL) {
            return NULL;
        }
    }

    return map;
}


/* The greatest limits of all patterns that the key matches. */

static ngx_etcd_value_pattern_t
ngx_etcd_value_conf_limits(ngx_etcd_value_map_conf_t *conf, ngx_str_t *key)
{
    ngx_uint_t                  i;
    ngx_etcd_value_pattern_t    limits, **patterns;

    ngx_memzero(&limits, sizeof(ngx_etcd_value_pattern_t));

    patterns = conf->patterns.elts;

    for (i = 0; i < conf->patterns.nelts; i++) {
        if (ngx_etcd_pattern_match(&patterns[i]->pattern, key) == key->len) {
            ngx_etcd_value_conf_raise(&limits, patterns[i]);
        }
    }

    return limits;
}


uint64_t
ngx_etcd_value_conf_source(ngx_etcd_value_map_conf_t *conf, ngx_str_t *key,
    ngx_str_t *value)
{
    ngx_etcd_value_pattern_t  limits;

    limits = ngx_etcd_value_conf_limits(conf, key);

    return ngx_etcd_siphash_long(value)
           ^ ((uint64_t) limits.max_size << 32 | limits.split << 31
              | limits.max_bits);
}


char *
ngx_etcd_value_conf_table(ngx_etcd_value_map_conf_t *conf, ngx_str_t *key,
    ngx_str_t *value, u_char *buf, ngx_str_t *table)
{
    char  *err;

    table->data = buf;
    table->len = 0;

    if (!conf->split || !ngx_etcd_value_conf_limits(conf, key).split) {
        return NULL;
    }

    (void) ngx_etcd_split_read(value, buf, table, &err);

    return err;
}


ngx_str_t *
ngx_etcd_value_conf_refuse(ngx_etcd_value_map_conf_t *conf, ngx_str_t *key,
    ngx_str_t *value, u_char *scratch, u_char *buf, ngx_str_t *reason)
{
    char                      *why;
    ngx_etcd_value_pattern_t   limits;

    limits = ngx_etcd_value_conf_limits(conf, key);

    if (!conf->secret || value->len > limits.max_size) {
        return ngx_etcd_value_refuse(value, limits.max_size, buf, reason);
    }

    why = ngx_etcd_pem_blocks(value, limits.max_bits, scratch);

    if (why == NULL) {
        return NULL;
    }

    reason->data = (u_char *) why;
    reason->len = ngx_strlen(why);

    return reason;
}


ngx_uint_t
ngx_etcd_value_conf_reading(ngx_etcd_conf_t *conf)
{
    ngx_uint_t                   i;
    ngx_etcd_value_conf_t      **values;
    ngx_etcd_value_map_conf_t  **maps;

    values = conf->values.elts;

    for (i = 0; i < conf->values.nelts; i++) {
        if (ngx_etcd_value_get(values[i])->state
            == NGX_ETCD_SHARED_VALUE_LOADING)
        {
            return 1;
        }
    }

    maps = conf->value_maps.elts;

    for (i = 0; i < conf->value_maps.nelts; i++) {
        if (maps[i]->map->state == NGX_ETCD_SHARED_VALUE_LOADING) {
            return 1;
        }
    }

    return 0;
}
