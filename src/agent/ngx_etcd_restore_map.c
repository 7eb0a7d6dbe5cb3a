
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_restore_map.h>
#include <ngx_etcd_value_conf.h>


/* A value that the map may not have any more is dropped. */

ngx_int_t
ngx_etcd_restore_map_add(ngx_array_t *changes, ngx_array_t *maps,
    ngx_str_t *key, ngx_str_t *value, uint64_t modified)
{
    u_char                       buf[NGX_ETCD_VALUE_REASON];
    ngx_str_t                    reason;
    ngx_uint_t                   i;
    ngx_etcd_restore_map_t      *restore;
    ngx_etcd_value_map_conf_t  **conf;

    conf = maps->elts;

    for (i = 0; i < maps->nelts; i++) {

        if (modified == 0
            || conf[i]->secret
            || ngx_etcd_value_map_wants(conf[i], key) == NULL
            || ngx_etcd_value_conf_refuse(conf[i], key, value, buf, &reason)
               != NULL)
        {
            continue;
        }

        restore = ngx_array_push(changes);
        if (restore == NULL) {
            return NGX_ERROR;
        }

        ngx_memzero(restore, sizeof(ngx_etcd_restore_map_t));

        restore->map = conf[i];
        restore->change.op = NGX_ETCD_VALUE_PUT;
        restore->change.revision = modified;
        restore->change.value = *value;
        restore->change.key.data = key->data + conf[i]->literal.len;
        restore->change.key.len = key->len - conf[i]->literal.len;
    }

    return NGX_OK;
}


void
ngx_etcd_restore_map_fill(ngx_array_t *changes)
{
    ngx_uint_t               i;
    ngx_etcd_restore_map_t  *restore;

    restore = changes->elts;

    for (i = 0; i < changes->nelts; i++) {
        ngx_etcd_value_object_restore(restore[i].map, &restore[i].change);
    }
}
