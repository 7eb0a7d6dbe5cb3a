
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_escape.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_split.h>


static ngx_int_t ngx_etcd_split_sum(json_t *root, uint64_t *sum, char **err);
static ngx_int_t ngx_etcd_split_name(json_t *root, uint64_t point,
    ngx_pool_t *pool, ngx_str_t *name);


ngx_int_t
ngx_etcd_split_pick(ngx_str_t *value, uint32_t hash, ngx_pool_t *pool,
    ngx_str_t *name, char **err)
{
    uint64_t          sum;
    ngx_int_t         rc;
    ngx_etcd_json_t   json;

    rc = ngx_etcd_json_read(&json, value, 0);

    if (rc != NGX_OK) {
        *err = "it is not JSON";
        return rc;
    }

    rc = ngx_etcd_split_sum(json.root, &sum, err);

    if (rc == NGX_OK) {
        rc = ngx_etcd_split_name(json.root, (hash * sum) >> 32, pool, name);
    }

    ngx_etcd_json_done(&json);

    return rc;
}


static ngx_int_t
ngx_etcd_split_sum(json_t *root, uint64_t *sum, char **err)
{
    size_t       len;
    json_t      *value;
    json_int_t   weight;
    const char  *name;

    if (!json_is_object(root)) {
        *err = "it is not an object";
        return NGX_DECLINED;
    }

    *sum = 0;

    json_object_keylen_foreach(root, name, len, value) {
        weight = json_integer_value(value);

        if (!json_is_integer(value)
            || weight < 0 || weight > NGX_ETCD_SPLIT_WEIGHT)
        {
            *err = "a weight is not a number from 0 to 1000000";
            return NGX_DECLINED;
        }

        if (ngx_etcd_escape_has_control((u_char *) name, len)) {
            *err = "a name has a control byte";
            return NGX_DECLINED;
        }

        *sum += weight;
    }

    if (*sum == 0) {
        *err = "all weights are 0";
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/* Finds the name whose share has the point, which is below the sum. */

static ngx_int_t
ngx_etcd_split_name(json_t *root, uint64_t point, ngx_pool_t *pool,
    ngx_str_t *name)
{
    void      *iter;
    uint64_t   weight;

    iter = json_object_iter(root);

    for ( ;; ) {
        weight = json_integer_value(json_object_iter_value(iter));

        if (point < weight) {
            break;
        }

        point -= weight;
        iter = json_object_iter_next(root, iter);
    }

    name->len = json_object_iter_key_len(iter);
    name->data = ngx_pnalloc(pool, ngx_max(name->len, 1));

    if (name->data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(name->data, json_object_iter_key(iter), name->len);

    return NGX_OK;
}
