
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Patterns of keys: the prefix that is built of the segments of a key is the
 * prefix of the key.  The input is a pattern and a key, on a line each.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_pattern.h>
#include "fuzz.h"


static void fuzz_parse(ngx_str_t *text, ngx_str_t *key, ngx_uint_t rooted);
static void fuzz_match(ngx_etcd_pattern_t *pattern, ngx_str_t *key);
static void fuzz_values(ngx_etcd_pattern_t *pattern, ngx_str_t *key,
    ngx_str_t *values);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ngx_str_t  text, key;

    text = fuzz_line(&data, &size);
    key = fuzz_bytes(&data, &size, size);

    fuzz_parse(&text, &key, 0);
    fuzz_parse(&text, &key, 1);

    ngx_free(text.data);
    ngx_free(key.data);

    return 0;
}


static void
fuzz_parse(ngx_str_t *text, ngx_str_t *key, ngx_uint_t rooted)
{
    char                *err;
    ngx_log_t            log;
    ngx_int_t            rc;
    ngx_pool_t          *pool;
    ngx_etcd_pattern_t   pattern;

    ngx_memzero(&log, sizeof(ngx_log_t));

    pool = ngx_create_pool(1024, &log);
    fuzz_check(pool != NULL);

    err = NULL;
    rc = ngx_etcd_pattern_parse(&pattern, text, rooted, pool, &err);

    if (rc == NGX_OK) {
        fuzz_check(ngx_etcd_pattern_has_variable(text));
        fuzz_check(pattern.nvariables >= 1);
        fuzz_check(pattern.nvariables <= NGX_ETCD_PATTERN_VARIABLES);
        fuzz_check(rooted || pattern.literal.len > 1);

        fuzz_match(&pattern, key);

    } else {
        fuzz_check(rc == NGX_DECLINED);
        fuzz_check(err != NULL);
    }

    ngx_destroy_pool(pool);
}


/* Whether the key matches or not, the builder says the same. */

static void
fuzz_match(ngx_etcd_pattern_t *pattern, ngx_str_t *key)
{
    size_t      len;
    u_char      buf[NGX_ETCD_PATTERN_PREFIX];
    ngx_int_t   rc;
    ngx_str_t   prefix, name, values[NGX_ETCD_PATTERN_VARIABLES];
    ngx_uint_t  same;

    len = ngx_etcd_pattern_match(pattern, key);
    fuzz_check(len <= key->len);

    fuzz_values(pattern, key, values);
    rc = ngx_etcd_pattern_prefix(pattern, values, buf, &prefix);

    same = (rc == NGX_OK
            && prefix.len + pattern->below <= key->len
            && ngx_memcmp(prefix.data, key->data, prefix.len) == 0
            && (pattern->below || prefix.len == key->len
                || key->data[prefix.len] == '/'));

    fuzz_check(same == (len != 0));

    if (len == 0) {
        return;
    }

    fuzz_check(prefix.len == len);

    ngx_etcd_pattern_name(pattern, &prefix, &name);

    fuzz_check(name.len != 0);
    fuzz_check(name.data + name.len + pattern->below
               == prefix.data + prefix.len);
}


/*
 * The segments of the key where the pattern has its variables; names of hosts
 * become lower case in the key, too.
 */

static void
fuzz_values(ngx_etcd_pattern_t *pattern, ngx_str_t *key, ngx_str_t *values)
{
    u_char                      *p, *end, *last;
    ngx_uint_t                   i;
    ngx_etcd_pattern_segment_t  *segment;

    p = key->data + ngx_min(key->len, pattern->literal.len);
    last = key->data + key->len;

    segment = pattern->segments.elts;

    for (i = 0; i < pattern->segments.nelts; i++) {

        if (segment[i].variable) {
            end = ngx_strlchr(p, last, '/');

            values->data = p;
            values->len = ((end != NULL) ? end : last) - p;

            if (segment[i].lower) {
                ngx_strlow(p, p, values->len);
            }

            values++;
        }

        while (p < last && *p++ != '/') { /* void */ }
    }
}
