
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_restore_value.h>
#include <ngx_etcd_split.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_value_conf.h>


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
ngx_etcd_restore_view(ngx_etcd_restore_t *restore, ngx_str_t *key,
    ngx_str_t *value, ngx_etcd_shared_value_view_t *view,
    ngx_etcd_shared_value_view_t *views)
{
    u_char                   buf[NGX_ETCD_VALUE_REASON];
    ngx_str_t                reason;
    ngx_uint_t               i;
    ngx_etcd_value_conf_t  **confs;

    if (ngx_etcd_value_refuse(value, NGX_ETCD_VALUE_MAP_MAX_SIZE, buf, &reason)
        != NULL)
    {
        return ngx_etcd_restore_refuse(restore, "a %V", &reason);
    }

    confs = restore->values->elts;

    for (i = 0; i < restore->values->nelts; i++) {

        if (value->len > NGX_ETCD_SHARED_VALUE_MAX_VALUE
            || !ngx_etcd_str_equal(&confs[i]->key, key))
        {
            continue;
        }

        view->len = value->len;
        ngx_memcpy(view->value, value->data, value->len);

        views[i] = *view;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_restore_value_one(ngx_etcd_restore_t *restore, json_t *json,
    ngx_etcd_shared_value_view_t *views)
{
    ngx_str_t                      key, value;
    ngx_etcd_shared_value_view_t   view;

    ngx_memzero(&view, sizeof(ngx_etcd_shared_value_view_t));

    if (ngx_etcd_restore_bytes(restore, json, "key", &key) != NGX_OK
        || ngx_etcd_restore_bytes(restore, json, "value", &value) != NGX_OK
        || ngx_etcd_restore_number(restore, json, "revision", &view.revision)
           != NGX_OK
        || ngx_etcd_restore_number(restore, json, "mod_revision",
                                   &view.modified)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_etcd_restore_map(restore, &key, &value, view.modified) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_etcd_restore_view(restore, &key, &value, &view, views);
}


/* Reads the values of variables, which the text may lack. */

ngx_int_t
ngx_etcd_restore_value_read(ngx_etcd_restore_t *restore, json_t *content,
    ngx_etcd_shared_value_view_t *views)
{
    size_t   i;
    json_t  *values;

    values = json_object_get(content, "values");

    if (values != NULL && !json_is_array(values)) {
        return ngx_etcd_restore_refuse(restore, "it has no \"values\"");
    }

    for (i = 0; i < json_array_size(values); i++) {
        if (ngx_etcd_restore_value_one(restore, json_array_get(values, i),
                                       views)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


void
ngx_etcd_restore_value_fill(ngx_etcd_restore_t *restore,
    ngx_etcd_shared_value_view_t *views)
{
    ngx_uint_t                  i;
    ngx_etcd_value_conf_t     **confs;
    ngx_etcd_restore_change_t  *changes;

    confs = restore->values->elts;

    for (i = 0; i < restore->values->nelts; i++) {
        ngx_etcd_shared_value_fill(confs[i]->shared, &views[i]);
    }

    changes = restore->changes.elts;

    for (i = 0; i < restore->changes.nelts; i++) {
        ngx_etcd_value_object_restore(changes[i].map, &changes[i].change);
    }
}
