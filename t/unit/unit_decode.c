
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The decoder of keys and values as a directive, so that it runs with nginx's
 * own functions below it:
 *
 *     etcd_decode FORMAT KEY VALUE [PARAMETER ...];
 *
 * Key and value are hexadecimal, or "@FILE": nginx takes no longer words than
 * 4096 bytes.  Parameters are those of members and formats, "allow=CIDR" and
 * "prefix=PREFIX".  Each directive writes one line to the standard output.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_attribute.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_parameter.h>
#include <ngx_etcd_hash_table.h>
#include "test_module.h"
#include "unit.h"


/* of more members than these the number is shown */

#define NGX_ETCD_UNIT_SHOWN  8


static ngx_int_t ngx_etcd_unit_file(u_char *name, ngx_str_t *bytes);
static void ngx_etcd_unit_show(ngx_int_t rc, ngx_array_t *members,
    ngx_str_t *reason);
static char *ngx_etcd_unit_siphash(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


static ngx_command_t  ngx_etcd_unit_commands[] = {

    { ngx_string("etcd_decode"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_2MORE,
      ngx_etcd_unit_decode,
      0,
      0,
      NULL },

    { ngx_string("etcd_decode_bench"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_2MORE,
      ngx_etcd_unit_bench,
      0,
      0,
      NULL },

    { ngx_string("etcd_election_slot"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_2MORE,
      ngx_etcd_unit_election_slot,
      0,
      0,
      NULL },

    { ngx_string("etcd_siphash"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_etcd_unit_siphash,
      0,
      0,
      NULL },

    { ngx_string("etcd_seqlock"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_NOARGS,
      ngx_etcd_unit_seqlock,
      0,
      0,
      NULL },

      ngx_null_command
};


test_module(ngx_etcd_unit_module, ngx_etcd_unit_commands);


char *
ngx_etcd_unit_decode(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_int_t                rc;
    ngx_str_t               *value, key, bytes;
    ngx_array_t              members;
    ngx_etcd_reason_t        reason;
    ngx_etcd_member_conf_t   member;

    value = cf->args->elts;

    if (cf->args->nelts < 4
        || ngx_etcd_unit_conf(cf, &member, 4) != NGX_OK
        || ngx_array_init(&members, cf->pool, 1, sizeof(ngx_etcd_member_t))
           != NGX_OK
        || ngx_etcd_unit_bytes(&value[2], &key) != NGX_OK
        || ngx_etcd_unit_bytes(&value[3], &bytes) != NGX_OK)
    {
        return "has invalid arguments";
    }

    /* the decoder has to set every byte: members are compared as bytes */

    ngx_memset(members.elts, 0xa5, sizeof(ngx_etcd_member_t));

    rc = ngx_etcd_decode(&member, &key, &bytes, cf->pool, &members, &reason);

    ngx_etcd_unit_show(rc, &members, &reason.text);

    ngx_free(key.data);
    ngx_free(bytes.data);

    return NGX_CONF_OK;
}


ngx_int_t
ngx_etcd_unit_conf(ngx_conf_t *cf, ngx_etcd_member_conf_t *member,
    ngx_uint_t first)
{
    char        *err;
    ngx_int_t    rc;
    ngx_str_t   *value, cidr, prefix;
    ngx_uint_t   i;
    ngx_cidr_t  *allow;

    ngx_memzero(member, sizeof(ngx_etcd_member_conf_t));
    member->allow_unix = 1;
    ngx_str_set(&prefix, "/");

    value = cf->args->elts;

    member->format = ngx_etcd_format_find(&value[1]);

    if (member->format == NULL) {
        return NGX_ERROR;
    }

    member->defaults.max_fails = 1;
    member->defaults.fail_timeout = 10;

    for (i = first; i < cf->args->nelts; i++) {

        if (ngx_strncmp(value[i].data, "prefix=", 7) == 0) {
            prefix.data = value[i].data + 7;
            prefix.len = value[i].len - 7;
            continue;
        }

        if (ngx_strncmp(value[i].data, "allow=", 6) != 0) {

            rc = ngx_etcd_parameter(member, &value[i], cf->pool, &err);

            if (rc == NGX_DECLINED) {
                rc = ngx_etcd_attribute_parameter(&value[i], &member->defaults);
            }

            if (rc != NGX_OK) {
                return NGX_ERROR;
            }

            continue;
        }

        cidr.data = value[i].data + 6;
        cidr.len = value[i].len - 6;

        member->allow_unix = 0;
        member->allow = ngx_array_create(cf->pool, 1, sizeof(ngx_cidr_t));
        allow = ngx_array_push(member->allow);
        ngx_memzero(allow, sizeof(ngx_cidr_t));

        if (ngx_ptocidr(&cidr, allow) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return (ngx_etcd_parameter_complete(member, &prefix) == NULL) ? NGX_OK
                                                               : NGX_ERROR;
}


/* memory of just that size: a sanitizer sees what reads beyond it */

ngx_int_t
ngx_etcd_unit_bytes(ngx_str_t *hex, ngx_str_t *bytes)
{
    size_t     i;
    ngx_int_t  c;

    if (hex->len != 0 && hex->data[0] == '@') {
        return ngx_etcd_unit_file(hex->data + 1, bytes);
    }

    bytes->len = hex->len / 2;
    bytes->data = ngx_alloc(ngx_max(bytes->len, 1), ngx_cycle->log);

    if (bytes->data == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < bytes->len; i++) {
        c = ngx_hextoi(hex->data + 2 * i, 2);

        if (c == NGX_ERROR) {
            return NGX_ERROR;
        }

        bytes->data[i] = (u_char) c;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_unit_file(u_char *name, ngx_str_t *bytes)
{
    ngx_fd_t         fd;
    ngx_int_t        rc;
    ngx_file_info_t  fi;

    fd = ngx_open_file(name, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        return NGX_ERROR;
    }

    rc = NGX_ERROR;

    if (ngx_fd_info(fd, &fi) != NGX_FILE_ERROR) {
        bytes->len = ngx_file_size(&fi);
        bytes->data = ngx_alloc(ngx_max(bytes->len, 1), ngx_cycle->log);

        if (bytes->data != NULL
            && ngx_read_fd(fd, bytes->data, bytes->len)
               == (ssize_t) bytes->len)
        {
            rc = NGX_OK;
        }
    }

    (void) ngx_close_file(fd);

    return rc;
}


static void
ngx_etcd_unit_show(ngx_int_t rc, ngx_array_t *members, ngx_str_t *reason)
{
    u_char                  *p;
    u_char                   buf[1024];
    ngx_uint_t               i;
    ngx_etcd_member_t       *m;
    ngx_etcd_member_attr_t  *attr;

    p = ngx_sprintf(buf, "decoded:");
    m = members->elts;

    if (members->nelts > NGX_ETCD_UNIT_SHOWN) {
        p = ngx_sprintf(p, " %ui members", members->nelts);
    }

    for (i = 0; i < members->nelts && members->nelts <= NGX_ETCD_UNIT_SHOWN;
         i++)
    {
        attr = &m[i].attr;

        p = ngx_slprintf(p, buf + sizeof(buf) - 1,
                         " %*s w%uD f%uD c%uD t%uD s%uD",
                         m[i].name_len, m[i].name, attr->weight,
                         attr->max_fails, attr->max_conns, attr->fail_timeout,
                         attr->slow_start);

        if (attr->priority != 0) {
            p = ngx_slprintf(p, buf + sizeof(buf) - 1, " p%uD",
                             attr->priority);
        }

        p = ngx_slprintf(p, buf + sizeof(buf) - 1, "%s%s%s",
                         attr->down ? " down" : "",
                         attr->backup ? " backup" : "",
                         attr->drain ? " drain" : "");

        if (m[i].route.len != 0) {
            p = ngx_slprintf(p, buf + sizeof(buf) - 1, " r%*s",
                             m[i].route.len, m[i].route.data);
        }
    }

    if (rc == NGX_OK && reason->len != 0) {
        p = ngx_slprintf(p, buf + sizeof(buf) - 1, " (%V)", reason);
    }

    if (rc == NGX_DECLINED) {
        p = ngx_slprintf(p, buf + sizeof(buf) - 1, " nothing");

    } else if (rc == NGX_ERROR) {
        p = ngx_slprintf(p, buf + sizeof(buf) - 1, " invalid: %V", reason);
    }

    *p++ = LF;

    (void) ngx_write_fd(ngx_stdout, buf, p - buf);
}


/* Writes the hash of a key, as this process has it. */

static char *
ngx_etcd_unit_siphash(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_etcd_siphash_init(cf->log) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    printf("siphash: %08x\n", (unsigned) ngx_etcd_siphash(&value[1]));

    return NGX_CONF_OK;
}
