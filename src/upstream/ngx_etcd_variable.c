
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_source.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_variable.h>


/* variable names logged per worker */
#define NGX_ETCD_VARIABLE_REPORTS  32


static void
ngx_etcd_variable_report(ngx_str_t *name, u_char *data, size_t len)
{
    uint32_t    hash;
    ngx_uint_t  i;

    static uint32_t    reported[NGX_ETCD_VARIABLE_REPORTS];
    static ngx_uint_t  n;

    hash = ngx_crc32_long(name->data, name->len);

    for (i = 0; i < n; i++) {
        if (reported[i] == hash) {
            return;
        }
    }

    if (n == NGX_ETCD_VARIABLE_REPORTS) {
        return;
    }

    reported[n++] = hash;

    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "etcd: variable \"$%V\" has no value, there is a control "
                  "byte in \"%V\"", name, ngx_etcd_shown_bytes(data, len));
}


void
ngx_etcd_variable_value(ngx_str_t *name, ngx_variable_value_t *v, u_char *data,
    size_t len)
{
    if (ngx_etcd_escape_has_control(data, len)) {
        v->valid = 0;
        v->not_found = 1;

        ngx_etcd_variable_report(name, data, len);
        return;
    }

    v->len = len;
    v->data = data;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
}


static ngx_int_t
ngx_etcd_variable_member_key(ngx_str_t *name, ngx_etcd_peer_t *peer,
    ngx_variable_value_t *v, ngx_pool_t *pool)
{
    ngx_str_t  key;

    if (peer == NULL || peer->key_len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    key = ngx_etcd_peer_key(peer);
    ngx_etcd_variable_value(name, v, key.data, key.len);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_variable_number(ngx_str_t *name, ngx_variable_value_t *v,
    uint64_t number, ngx_pool_t *pool)
{
    u_char  *p;

    if (number == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(pool, NGX_INT64_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_etcd_variable_value(name, v, p, ngx_sprintf(p, "%uL", number) - p);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_variable_member_revision(ngx_str_t *name, ngx_etcd_peer_t *peer,
    ngx_variable_value_t *v, ngx_pool_t *pool)
{
    return ngx_etcd_variable_number(name, v, peer ? peer->create_revision : 0,
                                    pool);
}


static ngx_int_t
ngx_etcd_variable_revision(ngx_str_t *name, ngx_etcd_peer_data_t *pd,
    ngx_variable_value_t *v, ngx_pool_t *pool)
{
    return ngx_etcd_variable_number(name, v, ngx_etcd_peer_data_revision(pd),
                                    pool);
}


static ngx_int_t
ngx_etcd_variable_set(ngx_str_t *name, ngx_etcd_peer_data_t *pd,
    ngx_variable_value_t *v, ngx_pool_t *pool)
{
    ngx_str_t                 set;
    ngx_etcd_cached_table_t  *cached;
    ngx_etcd_catalog_conf_t  *catalog;

    catalog = (pd != NULL) ? ngx_etcd_catalog_of(pd->upstream->service) : NULL;

    if (catalog == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    cached = (ngx_etcd_cached_table_t *) pd->table;

    ngx_etcd_pattern_name(&catalog->pattern, &cached->prefix, &set);
    ngx_etcd_variable_value(name, v, set.data, set.len);

    return NGX_OK;
}


/* Seconds with three digits after the point. */

static ngx_int_t
ngx_etcd_variable_seconds(ngx_str_t *name, int64_t ms, ngx_variable_value_t *v,
    ngx_pool_t *pool)
{
    u_char  *p, *last;

    p = ngx_pnalloc(pool, NGX_INT64_LEN + 4);
    if (p == NULL) {
        return NGX_ERROR;
    }

    last = ngx_sprintf(p, "%L.%03L", ms / 1000, ms % 1000);

    ngx_etcd_variable_value(name, v, p, last - p);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_variable_staleness(ngx_str_t *name, ngx_etcd_peer_data_t *pd,
    ngx_variable_value_t *v, ngx_pool_t *pool)
{
    int64_t            ms;
    ngx_etcd_conf_t   *cluster;
    ngx_etcd_table_t  *table;

    cluster = ngx_etcd_peer_data_cluster();

    if (pd != NULL) {
        table = pd->pick.table;
        ms = ngx_etcd_source_staleness(ngx_etcd_service_of(table), table->set);

    } else {
        ms = cluster ? ngx_etcd_zone_staleness(&cluster->zone) : -1;
    }

    if (ms < 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    return ngx_etcd_variable_seconds(name, ms, v, pool);
}


static ngx_int_t
ngx_etcd_variable_wait_time(ngx_str_t *name, ngx_msec_t waited,
    ngx_variable_value_t *v, ngx_pool_t *pool)
{
    if (waited == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    return ngx_etcd_variable_seconds(name, waited, v, pool);
}


static ngx_int_t
ngx_etcd_variable_reason(ngx_str_t *name, ngx_etcd_peer_data_t *pd,
    ngx_variable_value_t *v, ngx_pool_t *pool)
{
    ngx_str_t           *word;
    ngx_etcd_refusal_e   refusal;

    refusal = ngx_etcd_peer_data_refusal(pd, pool);

    if (refusal == NGX_ETCD_REFUSAL_NONE) {
        v->not_found = 1;
        return NGX_OK;
    }

    word = ngx_etcd_refusal_word(refusal);

    ngx_etcd_variable_value(name, v, word->data, word->len);

    return NGX_OK;
}


ngx_etcd_variable_t  ngx_etcd_variables[] = {

    { ngx_string("etcd_member_key"),
      ngx_etcd_variable_member_key, NULL, NULL },

    { ngx_string("etcd_member_revision"),
      ngx_etcd_variable_member_revision, NULL, NULL },

    { ngx_string("etcd_reason"), NULL, ngx_etcd_variable_reason, NULL },

    { ngx_string("etcd_revision"), NULL, ngx_etcd_variable_revision, NULL },

    { ngx_string("etcd_set"), NULL, ngx_etcd_variable_set, NULL },

    { ngx_string("etcd_staleness"),
      NULL, ngx_etcd_variable_staleness, NULL },

    { ngx_string("etcd_wait_time"), NULL, NULL, ngx_etcd_variable_wait_time },

    { ngx_null_string, NULL, NULL, NULL }
};


void
ngx_etcd_variable_pem(ngx_variable_value_t *v, ngx_str_t *pem)
{
    v->len = pem->len;
    v->data = pem->data;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
}


static ngx_uint_t
ngx_etcd_variable_exists(ngx_str_t *name, ngx_array_t *keys,
    ngx_array_t *prefixes)
{
    u_char          *p;
    ngx_str_t       *prefix;
    ngx_uint_t       i;
    ngx_hash_key_t  *key;

    key = keys->elts;

    for (i = 0; i < keys->nelts; i++) {
        if (ngx_etcd_str_alike(&key[i].key, name)) {
            return 1;
        }
    }

    p = prefixes->elts;

    for (i = 0; i < prefixes->nelts; i++) {
        prefix = (ngx_str_t *) (p + i * prefixes->size);

        if (name->len >= prefix->len
            && ngx_strncasecmp(prefix->data, name->data, prefix->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


ngx_str_t *
ngx_etcd_variable_unknown(ngx_etcd_pattern_t *pattern, ngx_array_t *keys,
    ngx_array_t *prefixes)
{
    ngx_uint_t                   i;
    ngx_etcd_pattern_segment_t  *segment;

    segment = pattern->segments.elts;

    for (i = 0; i < pattern->segments.nelts; i++) {
        if (segment[i].variable
            && !ngx_etcd_variable_exists(&segment[i].text, keys, prefixes))
        {
            return &segment[i].text;
        }
    }

    return NULL;
}


/* nginx would not say where an unknown variable is used. */

ngx_int_t
ngx_etcd_variable_prefixes(ngx_conf_t *cf, ngx_uint_t stream,
    ngx_array_t *keys, ngx_array_t *prefixes)
{
    ngx_uint_t                i;
    ngx_str_t                *unknown;
    ngx_etcd_upstream_t     **upstream;
    ngx_etcd_main_conf_t     *emcf;
    ngx_etcd_catalog_conf_t  *catalog;

    emcf = ngx_etcd_conf_main(cf->cycle);
    upstream = emcf->upstreams.elts;

    for (i = 0; i < emcf->upstreams.nelts; i++) {

        if (upstream[i]->service == NULL
            || upstream[i]->service->stream != stream)
        {
            continue;
        }

        catalog = ngx_etcd_catalog_of(upstream[i]->service);

        unknown = (catalog != NULL)
                  ? ngx_etcd_variable_unknown(&catalog->pattern, keys, prefixes)
                  : NULL;

        if (unknown != NULL) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "unknown \"%V\" variable in the prefix of \"%V\" "
                          "in %s:%ui", ngx_etcd_shown(unknown),
                          &upstream[i]->directive, upstream[i]->file,
                          upstream[i]->line);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}
