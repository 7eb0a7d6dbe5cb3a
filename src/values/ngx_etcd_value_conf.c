
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_option.h>
#include <ngx_etcd_pem.h>
#include <ngx_etcd_split.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_value_conf.h>


/* in place of a control byte: the value is too long */
#define NGX_ETCD_VALUE_LONG  0xff

/* likewise, with its type: the value is not of the type */
#define NGX_ETCD_VALUE_NOT   0x80

#define NGX_ETCD_VALUE_MOST  0xffffff


static ngx_conf_enum_t  ngx_etcd_value_flags[] = {
    { ngx_string("0"), 0 },
    { ngx_string("1"), 1 },
    { ngx_string("off"), 0 },
    { ngx_string("on"), 1 },
    { ngx_string("false"), 0 },
    { ngx_string("true"), 1 },
    { ngx_null_string, 0 }
};


static ngx_etcd_value_map_conf_t *
ngx_etcd_value_conf_map(ngx_array_t *maps, ngx_str_t *name,
    ngx_etcd_pattern_t *pattern, ngx_uint_t type, ngx_pool_t *pool)
{
    ngx_uint_t                   i, exact;
    ngx_etcd_value_map_conf_t   *map, **p;

    p = maps->elts;
    exact = (pattern->nvariables == 0);

    for (i = 0; i < maps->nelts; i++) {
        if (p[i]->type == type
            && p[i]->exact == exact
            && ngx_etcd_str_equal(&p[i]->literal, &pattern->literal))
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
    map->literal = pattern->literal;
    map->type = type;
    map->exact = exact;

    return (ngx_etcd_conf_push(maps, map) == NGX_OK) ? map : NULL;
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
    ngx_etcd_value_pattern_t *pattern, ngx_uint_t type, ngx_pool_t *pool)
{
    size_t                      size;
    ngx_etcd_value_pattern_t   *p;
    ngx_etcd_value_map_conf_t  *map;

    map = ngx_etcd_value_conf_map(maps, name, &pattern->pattern, type, pool);
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

    size = (type == NGX_ETCD_VALUE_PEM) ? NGX_ETCD_PEM_ROOM(p->max_size)
                                        : p->max_size;

    if (p->split) {
        size = NGX_ETCD_SPLIT_ROOM(size);
    }

    if (size <= map->max_size) {
        return map;
    }

    map->max_size = size;

    if (type != NGX_ETCD_VALUE_PEM) {
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


void
ngx_etcd_value_trim(ngx_str_t *value)
{
    static u_char  mark[] = { 0xef, 0xbb, 0xbf };

    if (value->len >= sizeof(mark)
        && ngx_memcmp(value->data, mark, sizeof(mark)) == 0)
    {
        value->data += sizeof(mark);
        value->len -= sizeof(mark);
    }

    if (value->len != 0 && value->data[value->len - 1] == LF) {
        value->len--;

        if (value->len != 0 && value->data[value->len - 1] == CR) {
            value->len--;
        }
    }
}


static ngx_uint_t
ngx_etcd_value_is(ngx_str_t *value, ngx_uint_t type)
{
    ngx_uint_t  sign;

    switch (type) {

    case NGX_ETCD_VALUE_INT:
        sign = (value->len != 0 && value->data[0] == '-');

        return ngx_atoof(value->data + sign, value->len - sign) != NGX_ERROR;

    case NGX_ETCD_VALUE_SIZE:
        return ngx_parse_size(value) != NGX_ERROR;

    case NGX_ETCD_VALUE_FLAG:
        return ngx_etcd_option_enum(ngx_etcd_value_flags, value) != NGX_ERROR;

    default:
        return 1;
    }
}


void
ngx_etcd_value_flag(ngx_str_t *value)
{
    if (value->len != 0) {
        value->data = (u_char *)
                      (ngx_etcd_option_enum(ngx_etcd_value_flags, value) == 1
                       ? "1" : "0");
        value->len = 1;
    }
}


/* The number of bytes, or of the first control byte, and that byte. */

static uint32_t
ngx_etcd_value_fault(ngx_str_t *value, size_t max, ngx_uint_t type)
{
    size_t  i;

    if (value->len > max) {
        return ngx_min(value->len, NGX_ETCD_VALUE_MOST) << 8
               | NGX_ETCD_VALUE_LONG;
    }

    if (!ngx_etcd_escape_has_control(value->data, value->len)) {
        return ngx_etcd_value_is(value, type) ? 0 : NGX_ETCD_VALUE_NOT | type;
    }

    for (i = 0; !ngx_etcd_escape_has_control(&value->data[i], 1); i++) {
        /* void */
    }

    return ngx_min(i + 1, NGX_ETCD_VALUE_MOST) << 8 | value->data[i];
}


void
ngx_etcd_value_reason(uint64_t source, size_t max, u_char *buf,
    ngx_str_t *reason)
{
    char      *what;
    uint32_t   n;

    n = source >> 40;
    reason->data = buf;

    switch (source >> 32 & 0xff) {

    case NGX_ETCD_VALUE_LONG:
        reason->len = ngx_snprintf(buf, NGX_ETCD_VALUE_REASON,
                                   "value of %uD bytes, at most %uz are "
                                   "allowed", n, max)
                      - buf;
        return;

    case NGX_ETCD_VALUE_NOT | NGX_ETCD_VALUE_INT:
        ngx_str_set(reason, "value is no integer from -9223372036854775807 to "
                            "9223372036854775807");
        return;

    case NGX_ETCD_VALUE_NOT | NGX_ETCD_VALUE_SIZE:
        ngx_str_set(reason, "value is no size: a number, or one with k or m");
        return;

    case NGX_ETCD_VALUE_NOT | NGX_ETCD_VALUE_FLAG:
        ngx_str_set(reason, "value is none of 0, 1, off, on, false, and true");
        return;

    case CR:
        what = "CR";
        break;

    case LF:
        what = "LF";
        break;

    case '\0':
        what = "NUL";
        break;

    default:
        what = "a control byte";
        break;
    }

    reason->len = ngx_snprintf(buf, NGX_ETCD_VALUE_REASON,
                               "value has %s at byte %uD", what, n)
                  - buf;
}


ngx_str_t *
ngx_etcd_value_refuse(ngx_str_t *value, size_t max, ngx_uint_t type,
    u_char *buf, ngx_str_t *reason)
{
    uint64_t  fault;

    fault = ngx_etcd_value_fault(value, max, type);

    if (fault == 0) {
        return NULL;
    }

    ngx_etcd_value_reason(fault << 32, max, buf, reason);

    return reason;
}


uint64_t
ngx_etcd_value_conf_source(ngx_etcd_value_map_conf_t *conf, ngx_str_t *key,
    ngx_str_t *value)
{
    uint64_t                  source, fault;
    ngx_etcd_value_pattern_t  limits;

    limits = ngx_etcd_value_conf_limits(conf, key);

    source = ngx_etcd_siphash(value)
             ^ ((uint64_t) limits.max_size << 32 | limits.split << 31
                | limits.max_bits);

    fault = (conf->type == NGX_ETCD_VALUE_PEM)
            ? 0 : ngx_etcd_value_fault(value, limits.max_size, conf->type);

    return (fault != 0) ? fault << 32 | (uint32_t) source : source;
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

    if (conf->type != NGX_ETCD_VALUE_PEM || value->len > limits.max_size) {
        return ngx_etcd_value_refuse(value, limits.max_size, conf->type, buf,
                                     reason);
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
    ngx_etcd_value_map_conf_t  **maps;

    maps = conf->value_maps.elts;

    for (i = 0; i < conf->value_maps.nelts; i++) {
        if (maps[i]->map->state == NGX_ETCD_VALUE_LOADING) {
            return 1;
        }
    }

    return 0;
}
