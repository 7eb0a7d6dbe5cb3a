
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The decoder of keys and values.  The first line of an input holds the
 * parameters, with the prefix before them, the second one the key, the rest
 * is the value.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_attribute.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_parameter.h>
#include "fuzz.h"


static ngx_uint_t fuzz_conf(ngx_etcd_member_conf_t *conf, ngx_str_t line,
    ngx_pool_t *pool);
static ngx_int_t fuzz_parameter(ngx_etcd_member_conf_t *conf,
    ngx_str_t *word, ngx_pool_t *pool);
static ngx_str_t fuzz_word(ngx_str_t *line, ngx_pool_t *pool);
static void fuzz_result(ngx_int_t rc, ngx_array_t *members,
    ngx_etcd_reason_t *reason);
static void fuzz_member(ngx_etcd_member_t *members, ngx_uint_t i);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ngx_int_t                rc[2];
    ngx_str_t                line, key, value;
    ngx_etcd_reason_t        reason[2];
    ngx_uint_t               i;
    ngx_pool_t              *pool;
    ngx_array_t              members[2];
    ngx_etcd_member_conf_t   conf;

    pool = ngx_create_pool(4096, ngx_cycle->log);
    fuzz_check(pool != NULL);

    line = fuzz_line(&data, &size);
    key = fuzz_line(&data, &size);
    value = fuzz_bytes(&data, &size, size);

    if (fuzz_conf(&conf, line, pool)) {

        /* twice: it depends on nothing else, and compares as bytes */

        for (i = 0; i < 2; i++) {
            ngx_memzero(&reason[i], sizeof(ngx_etcd_reason_t));
            (void) ngx_array_init(&members[i], pool, 1,
                                  sizeof(ngx_etcd_member_t));
            ngx_memset(members[i].elts, 0xa5 + i, sizeof(ngx_etcd_member_t));

            rc[i] = ngx_etcd_decode(&conf, &key, &value, pool,
                                           &members[i], &reason[i]);
            fuzz_result(rc[i], &members[i], &reason[i]);
        }

        fuzz_check(rc[0] == rc[1]);
        fuzz_check(members[0].nelts == members[1].nelts);
        fuzz_check(ngx_memcmp(members[0].elts, members[1].elts,
                              members[0].nelts * sizeof(ngx_etcd_member_t))
                   == 0);
    }

    ngx_free(line.data);
    ngx_free(key.data);
    ngx_free(value.data);

    ngx_destroy_pool(pool);

    return 0;
}


/* 0: nginx would not start */

static ngx_uint_t
fuzz_conf(ngx_etcd_member_conf_t *conf, ngx_str_t line, ngx_pool_t *pool)
{
    ngx_str_t  prefix, word;

    ngx_memzero(conf, sizeof(ngx_etcd_member_conf_t));

    conf->defaults.max_fails = 1;
    conf->defaults.fail_timeout = 10;

    prefix = fuzz_word(&line, pool);
    word = fuzz_word(&line, pool);

    conf->format = ngx_etcd_format_find(&word);

    if (conf->format == NULL) {
        return 0;
    }

    while (line.len != 0) {
        word = fuzz_word(&line, pool);

        if (fuzz_parameter(conf, &word, pool) != NGX_OK) {
            return 0;
        }
    }

    return ngx_etcd_parameter_complete(conf, &prefix) == NULL;
}


static ngx_int_t
fuzz_parameter(ngx_etcd_member_conf_t *conf, ngx_str_t *word,
    ngx_pool_t *pool)
{
    char       *err;
    ngx_int_t   rc;

    err = NULL;
    rc = ngx_etcd_parameter(conf, word, pool, &err);

    fuzz_check(rc != NGX_ERROR || err != NULL);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    return ngx_etcd_attribute_parameter(word, &conf->defaults);
}


/* with a zero behind it, as nginx has its words */

static ngx_str_t
fuzz_word(ngx_str_t *line, ngx_pool_t *pool)
{
    size_t     n;
    ngx_str_t  word;

    for (n = 0; n < line->len && line->data[n] != ' '; n++) { /* void */ }

    word.len = n;
    word.data = ngx_pnalloc(pool, n + 1);

    fuzz_check(word.data != NULL);
    *ngx_cpymem(word.data, line->data, n) = '\0';

    n = ngx_min(n + 1, line->len);
    line->data += n;
    line->len -= n;

    return word;
}


static void
fuzz_result(ngx_int_t rc, ngx_array_t *members, ngx_etcd_reason_t *reason)
{
    size_t      n;
    ngx_uint_t  i;

    for (n = 0; n < reason->text.len; n++) {
        fuzz_check(reason->text.data[n] >= 0x20 && reason->text.data[n] < 0x7f);
    }

    switch (rc) {

    case NGX_OK:
        fuzz_check(members->nelts > 0);
        fuzz_check(members->nelts <= NGX_ETCD_DECODE_MAX_NODES);

        for (i = 0; i < members->nelts; i++) {
            fuzz_member(members->elts, i);
        }

        return;

    case NGX_DECLINED:
        fuzz_check(members->nelts == 0);
        return;

    default:
        fuzz_check(rc == NGX_ERROR);
        fuzz_check(members->nelts == 0);
        fuzz_check(reason->text.len > 0);
        return;
    }
}


static void
fuzz_member(ngx_etcd_member_t *members, ngx_uint_t i)
{
    ngx_uint_t               n;
    ngx_etcd_member_t       *member;
    ngx_etcd_member_attr_t  *attr;

    member = &members[i];
    attr = &member->attr;

    fuzz_check(member->socklen > 0);
    fuzz_check(member->socklen <= (socklen_t) sizeof(ngx_sockaddr_t));
    fuzz_check(member->name_len > 0);
    fuzz_check(member->name_len <= NGX_ETCD_MEMBER_NAME_LEN);
    fuzz_check(attr->weight >= 1);
    fuzz_check(attr->weight <= NGX_ETCD_MEMBER_MAX_WEIGHT);
    fuzz_check(attr->priority <= NGX_ETCD_MEMBER_MAX_PRIORITY);
    fuzz_check(attr->max_fails <= 2147483647);
    fuzz_check(attr->max_conns <= 2147483647);
    fuzz_check(attr->fail_timeout >= 0);

    for (n = 0; n < i; n++) {
        fuzz_check(members[n].socklen != member->socklen
                   || ngx_memcmp(&members[n].sockaddr, &member->sockaddr,
                                 member->socklen)
                      != 0);
    }
}
