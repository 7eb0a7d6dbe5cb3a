
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_restore.h>


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
