
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_restore.h>
#include <ngx_etcd_split.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_value_conf.h>


#define NGX_ETCD_RESTORE_REASON  1024


ngx_int_t
ngx_etcd_restore_bytes(ngx_etcd_restore_t *restore, json_t *object, char *name,
    ngx_str_t *value)
{
    json_t     *json, *encoded;
    ngx_str_t   base64;

    json = json_object_get(object, name);
    encoded = json_object_get(json, "base64");

    if (json_is_string(json)) {
        value->data = (u_char *) json_string_value(json);
        value->len = json_string_length(json);
        return NGX_OK;
    }

    if (json_is_string(encoded)) {
        base64.data = (u_char *) json_string_value(encoded);
        base64.len = json_string_length(encoded);

        value->data = ngx_pnalloc(restore->pool,
                                  ngx_base64_decoded_length(base64.len) + 1);

        if (value->data != NULL
            && ngx_decode_base64(value, &base64) == NGX_OK)
        {
            return NGX_OK;
        }
    }

    return ngx_etcd_restore_refuse(restore, "there is no valid \"%s\"", name);
}


ngx_int_t
ngx_etcd_restore_number(ngx_etcd_restore_t *restore, json_t *object, char *name,
    uint64_t *value)
{
    json_t  *json;

    json = json_object_get(object, name);

    if (!json_is_integer(json) || json_integer_value(json) < 0) {
        return ngx_etcd_restore_refuse(restore, "there is no valid \"%s\"",
                                       name);
    }

    *value = json_integer_value(json);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_restore_refuse(ngx_etcd_restore_t *restore, char *fmt, ...)
{
    u_char   *p;
    u_char    buf[NGX_ETCD_RESTORE_REASON];
    va_list   args;

    va_start(args, fmt);
    p = ngx_vslprintf(buf, buf + sizeof(buf), fmt, args);
    va_end(args);

    restore->reason.len = p - buf;
    restore->reason.data = ngx_pnalloc(restore->pool, restore->reason.len);

    if (restore->reason.data == NULL) {
        ngx_str_set(&restore->reason, "no memory");

    } else {
        ngx_memcpy(restore->reason.data, buf, restore->reason.len);
    }

    return NGX_ERROR;
}


/* Returns NGX_OK if keys with that prefix form a set. */

static ngx_int_t
ngx_etcd_restore_catalog_match(ngx_etcd_pattern_t *pattern, ngx_str_t *prefix,
    ngx_pool_t *pool)
{
    ngx_str_t  key;

    key.len = prefix->len + pattern->below;
    key.data = ngx_pnalloc(pool, prefix->len + 1);

    if (key.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(key.data, prefix->data, prefix->len);
    key.data[prefix->len] = 'x';

    return (prefix->len != 0
            && ngx_etcd_pattern_match(pattern, &key) == prefix->len)
           ? NGX_OK : NGX_DECLINED;
}


ngx_int_t
ngx_etcd_restore_catalog_set(ngx_etcd_catalog_conf_t *catalog,
    ngx_str_t *prefix, ngx_pool_t *pool, ngx_etcd_service_conf_t **conf)
{
    ngx_int_t                 rc;
    ngx_etcd_zone_t          *zone;
    ngx_etcd_set_found_t      found;
    ngx_etcd_service_conf_t  *service;

    zone = catalog->service.zone;
    rc = ngx_etcd_restore_catalog_match(&catalog->pattern, prefix, pool);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_etcd_set_map_find(zone, catalog->map, prefix, &found)
        != NGX_DECLINED)
    {
        return NGX_DECLINED;
    }

    service = ngx_palloc(pool, sizeof(ngx_etcd_service_conf_t));
    if (service == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_etcd_set_map_add(zone, catalog->map, prefix,
                              ngx_etcd_catalog_conf_waits(catalog), 1, &found);

    if (rc != NGX_OK) {
        return (rc == NGX_DECLINED) ? NGX_DECLINED : NGX_ERROR;
    }

    *service = catalog->service;

    service->prefix = *prefix;
    service->set = found.set;
    service->set_id = found.set_id;

    *conf = service;

    return NGX_OK;
}


void
ngx_etcd_restore_catalog_complete(ngx_etcd_catalog_conf_t *catalog,
    uint64_t revision)
{
    catalog->map->revision = revision;

    if (revision != 0) {
        catalog->map->state = NGX_ETCD_MEMBER_SET_SYNCED;
    }
}


/* A value that a map may not have any more is dropped. */

static ngx_int_t
ngx_etcd_restore_map(ngx_etcd_restore_t *restore, ngx_str_t *key,
    ngx_str_t *value, uint64_t modified)
{
    u_char                       buf[NGX_ETCD_VALUE_REASON], *table;
    ngx_str_t                    reason;
    ngx_uint_t                   i;
    ngx_etcd_restore_change_t   *change;
    ngx_etcd_value_map_conf_t  **conf;

    conf = restore->value_maps->elts;

    for (i = 0; i < restore->value_maps->nelts; i++) {

        if (modified == 0
            || conf[i]->secret
            || ngx_etcd_value_map_wants(conf[i], key) == NULL
            || ngx_etcd_value_conf_refuse(conf[i], key, value, NULL, buf,
                                          &reason)
               != NULL)
        {
            continue;
        }

        change = ngx_array_push(&restore->changes);
        table = ngx_pnalloc(restore->pool, conf[i]->split
                                           ? NGX_ETCD_SPLIT_ROOM(value->len)
                                           : 1);

        if (change == NULL || table == NULL) {
            return ngx_etcd_restore_refuse(restore, "no memory");
        }

        ngx_memzero(change, sizeof(ngx_etcd_restore_change_t));

        change->map = conf[i];
        change->change.op = NGX_ETCD_VALUE_PUT;
        change->change.revision = modified;
        change->change.source = ngx_etcd_value_conf_source(conf[i], key, value);
        change->change.value = *value;

        (void) ngx_etcd_value_conf_table(conf[i], key, value, table,
                                         &change->change.table);

        change->change.key.data = key->data + conf[i]->literal.len;
        change->change.key.len = key->len - conf[i]->literal.len;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_restore_value_one(ngx_etcd_restore_t *restore, json_t *json)
{
    u_char     buf[NGX_ETCD_VALUE_REASON];
    uint64_t   modified;
    ngx_str_t  key, value, reason;

    if (ngx_etcd_restore_bytes(restore, json, "key", &key) != NGX_OK
        || ngx_etcd_restore_bytes(restore, json, "value", &value) != NGX_OK
        || ngx_etcd_restore_number(restore, json, "mod_revision", &modified)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_etcd_value_refuse(&value, NGX_ETCD_VALUE_MAP_MAX_SIZE, buf,
                              &reason)
        != NULL)
    {
        return ngx_etcd_restore_refuse(restore, "a %V", &reason);
    }

    return ngx_etcd_restore_map(restore, &key, &value, modified);
}


/* Reads the values of variables, which the text may lack. */

ngx_int_t
ngx_etcd_restore_value_read(ngx_etcd_restore_t *restore, json_t *content)
{
    size_t   i;
    json_t  *values;

    values = json_object_get(content, "values");

    if (values != NULL && !json_is_array(values)) {
        return ngx_etcd_restore_refuse(restore, "it has no \"values\"");
    }

    for (i = 0; i < json_array_size(values); i++) {
        if (ngx_etcd_restore_value_one(restore, json_array_get(values, i))
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


void
ngx_etcd_restore_value_fill(ngx_etcd_restore_t *restore)
{
    ngx_uint_t                  i;
    ngx_etcd_restore_change_t  *changes;

    changes = restore->changes.elts;

    for (i = 0; i < restore->changes.nelts; i++) {
        ngx_etcd_value_object_restore(changes[i].map, &changes[i].change);
    }
}
