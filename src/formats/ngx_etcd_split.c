
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_split.h>
#include <ngx_etcd_str.h>


/*
 * A table has the number of its names, a share of each, and then the names.
 * A name ends where the next one begins.
 */

typedef struct {
    uint32_t   sum;                    /* of the weights up to this name */
    uint32_t   end;                    /* of the name, in bytes of all names */
} ngx_etcd_split_share_t;


static ngx_etcd_split_share_t
ngx_etcd_split_share(ngx_str_t *table, uint32_t i)
{
    ngx_etcd_split_share_t  share;

    ngx_memcpy(&share, table->data + sizeof(uint32_t)
                       + i * sizeof(ngx_etcd_split_share_t),
               sizeof(ngx_etcd_split_share_t));

    return share;
}


/* A name with a weight of 0 is not in the table. */

static char *
ngx_etcd_split_table(json_t *root, u_char *buf, ngx_str_t *table)
{
    size_t                   len;
    u_char                  *p;
    json_t                  *value;
    uint32_t                 n;
    uint64_t                 sum;
    const char              *name;
    json_int_t               weight;
    ngx_etcd_split_share_t   share;

    if (!json_is_object(root)) {
        return "it is not an object";
    }

    n = 0;
    sum = 0;

    json_object_keylen_foreach(root, name, len, value) {
        weight = json_integer_value(value);

        if (!json_is_integer(value)
            || weight < 0 || weight > NGX_ETCD_SPLIT_WEIGHT)
        {
            return "a weight is not a number from 0 to 1000000";
        }

        if (ngx_etcd_escape_has_control((u_char *) name, len)) {
            return "a name has a control byte";
        }

        sum += weight;

        if (sum > NGX_ETCD_SPLIT_SUM) {
            return "the sum of all weights is more than 4294967295";
        }

        n += (weight != 0);
    }

    if (n == 0) {
        return "all weights are 0";
    }

    table->data = buf;

    p = ngx_cpymem(buf, &n, sizeof(uint32_t));
    share.sum = 0;
    share.end = 0;

    json_object_keylen_foreach(root, name, len, value) {

        if (json_integer_value(value) != 0) {
            share.sum += json_integer_value(value);
            share.end += len;

            p = ngx_cpymem(p, &share, sizeof(ngx_etcd_split_share_t));
        }
    }

    json_object_keylen_foreach(root, name, len, value) {

        if (json_integer_value(value) != 0) {
            p = ngx_cpymem(p, name, len);
        }
    }

    table->len = p - buf;

    return NULL;
}


ngx_int_t
ngx_etcd_split_read(ngx_str_t *value, u_char *buf, ngx_str_t *table,
    char **err)
{
    ngx_int_t        rc;
    ngx_etcd_json_t  json;

    rc = ngx_etcd_json_read(&json, value, 0);

    if (rc != NGX_OK) {
        *err = (rc == NGX_DECLINED) ? "it is not JSON" : "no memory";
        return rc;
    }

    *err = ngx_etcd_split_table(json.root, buf, table);

    ngx_etcd_json_done(&json);

    return (*err == NULL) ? NGX_OK : NGX_DECLINED;
}


ngx_str_t
ngx_etcd_split_pick(ngx_str_t *table, uint32_t hash)
{
    uint32_t   n, low, high, middle, begin;
    uint64_t   point;
    ngx_str_t  name;

    ngx_memcpy(&n, table->data, sizeof(uint32_t));

    point = (uint64_t) hash * ngx_etcd_split_share(table, n - 1).sum >> 32;

    /* the first name whose sum is above the point */

    low = 0;
    high = n - 1;

    while (low < high) {
        middle = (low + high) / 2;

        if (ngx_etcd_split_share(table, middle).sum > point) {
            high = middle;

        } else {
            low = middle + 1;
        }
    }

    begin = (low != 0) ? ngx_etcd_split_share(table, low - 1).end : 0;

    name.data = table->data + sizeof(uint32_t)
                + n * sizeof(ngx_etcd_split_share_t) + begin;
    name.len = ngx_etcd_split_share(table, low).end - begin;

    return name;
}
