
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_attribute.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_parameter.h>
#include "test_formats.h"


#define TEST_RESULT  1024


extern ngx_etcd_tap_test_t  test_address[];
extern ngx_etcd_tap_test_t  test_attribute[];
extern ngx_etcd_tap_test_t  test_decoding[];
extern ngx_etcd_tap_test_t  test_format[];
extern ngx_etcd_tap_test_t  test_format_text[];
extern ngx_etcd_tap_test_t  test_json[];
extern ngx_etcd_tap_test_t  test_json_layout[];
extern ngx_etcd_tap_test_t  test_json_pointer[];
extern ngx_etcd_tap_test_t  test_member_pack[];
extern ngx_etcd_tap_test_t  test_parameter[];
extern ngx_etcd_tap_test_t  test_patroni_url[];
extern ngx_etcd_tap_test_t  test_pattern[];
extern ngx_etcd_tap_test_t  test_pem[];
extern ngx_etcd_tap_test_t  test_split[];
extern ngx_etcd_tap_test_t  test_utf8[];


ngx_etcd_tap_test_t  *ngx_etcd_tap_tables[] = {
    test_address,
    test_attribute,
    test_decoding,
    test_format,
    test_format_text,
    test_json,
    test_json_layout,
    test_json_pointer,
    test_member_pack,
    test_parameter,
    test_patroni_url,
    test_pattern,
    test_pem,
    test_split,
    test_utf8,
    NULL
};


static ngx_str_t *test_word(ngx_pool_t *pool, char **line);
static u_char *test_show(u_char *p, u_char *last, ngx_etcd_member_t *member);


char *
test_conf(ngx_pool_t *pool, char *format, char *prefix,
    ngx_etcd_member_conf_t *conf)
{
    char       *err;
    ngx_int_t   rc;
    ngx_str_t  *word;

    ngx_memzero(conf, sizeof(ngx_etcd_member_conf_t));

    conf->defaults.max_fails = 1;
    conf->defaults.fail_timeout = 10;
    conf->allow_unix = 1;

    conf->format = ngx_etcd_format_find(test_word(pool, &format));

    if (conf->format == NULL) {
        return "no such format";
    }

    while (*format != '\0') {
        err = "invalid value";
        word = test_word(pool, &format);
        rc = ngx_etcd_parameter(conf, word, pool, &err);

        if (rc == NGX_DECLINED) {
            rc = ngx_etcd_attribute_parameter(word, &conf->defaults);
        }

        if (rc == NGX_DECLINED) {
            return "no such parameter";
        }

        if (rc == NGX_ERROR) {
            return err;
        }
    }

    return ngx_etcd_parameter_complete(conf, tap_string(pool, prefix));
}


ngx_str_t *
test_decode(ngx_pool_t *pool, char *format, char *key, ngx_str_t *value)
{
    char                    *err;
    u_char                  *p, *last;
    u_char                   buf[TEST_RESULT];
    ngx_int_t                rc;
    ngx_etcd_reason_t        reason;
    ngx_uint_t               i;
    ngx_array_t              members;
    ngx_etcd_member_t       *member, first;
    ngx_etcd_member_conf_t   conf;

    /* the decoder sets every byte of a member */

    ngx_memset(&first, 0xa5, sizeof(ngx_etcd_member_t));

    members.elts = &first;
    members.nelts = 0;
    members.size = sizeof(ngx_etcd_member_t);
    members.nalloc = 1;
    members.pool = pool;

    p = buf;
    last = p + TEST_RESULT;

    ngx_memzero(&reason, sizeof(ngx_etcd_reason_t));

    rc = NGX_ERROR;
    err = test_conf(pool, format, "/", &conf);

    if (err != NULL) {
        reason.text.data = (u_char *) err;
        reason.text.len = ngx_strlen(err);

    } else {
        rc = ngx_etcd_decode(&conf, tap_string(pool, key), value, pool,
                             &members, &reason);
    }

    if (rc == NGX_OK) {
        member = members.elts;

        for (i = 0; i < members.nelts; i++) {
            p = ngx_slprintf(p, last, i ? ", " : "");
            p = test_show(p, last, &member[i]);
        }

        if (reason.text.len != 0) {
            p = ngx_slprintf(p, last, " (%V)", &reason.text);
        }

    } else if (members.nelts != 0) {
        p = ngx_slprintf(p, last, "members are left");

    } else if (rc == NGX_DECLINED) {
        p = ngx_slprintf(p, last, "nothing");

    } else {
        p = ngx_slprintf(p, last, "invalid: %V", &reason.text);
    }

    return tap_bytes(pool, (char *) buf, p - buf);
}


/* A zero follows the word, as in nginx's own words. */

static ngx_str_t *
test_word(ngx_pool_t *pool, char **line)
{
    size_t      len;
    ngx_str_t  *word;

    len = strcspn(*line, " ");

    word = tap_bytes(pool, *line, len + 1);
    word->data[len] = '\0';
    word->len = len;

    *line += len + ((*line)[len] == ' ');

    return word;
}


static u_char *
test_show(u_char *p, u_char *last, ngx_etcd_member_t *member)
{
    ngx_etcd_member_attr_t  *attr;

    attr = &member->attr;

    p = ngx_slprintf(p, last, "%*s w%uD", member->name_len, member->name,
                     attr->weight);

    if (attr->max_fails != 1) {
        p = ngx_slprintf(p, last, " f%uD", attr->max_fails);
    }

    if (attr->max_conns != 0) {
        p = ngx_slprintf(p, last, " c%uD", attr->max_conns);
    }

    if (attr->fail_timeout != 10) {
        p = ngx_slprintf(p, last, " t%uD", attr->fail_timeout);
    }

    if (attr->slow_start != 0) {
        p = ngx_slprintf(p, last, " s%uD", attr->slow_start);
    }

    if (attr->priority != 0) {
        p = ngx_slprintf(p, last, " p%uD", attr->priority);
    }

    return ngx_slprintf(p, last, "%s%s%s", attr->down ? " down" : "",
                        attr->backup ? " backup" : "",
                        attr->drain ? " drain" : "");
}
