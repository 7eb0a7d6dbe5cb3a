
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The reader of JSON, beside jansson, as a directive:
 *
 *     etcd_json TEXT;
 *
 * Writes "json: valid", or "json: LINE:COLUMN ERROR"; before that stands
 * "unlike jansson" where that finds something else.  Words are as of
 * etcd_decode.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <jansson.h>
#include <ngx_etcd_json.h>
#include "../fuzz/json_same.h"
#include "unit.h"


static ngx_uint_t ngx_etcd_unit_same(ngx_int_t rc,
    ngx_etcd_json_reader_t *reader, ngx_str_t *text);


char *
ngx_etcd_unit_json(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    u_char                  *p, *last;
    u_char                   buf[256];
    ngx_int_t                rc;
    ngx_str_t               *value, text;
    ngx_etcd_json_reader_t   reader;

    value = cf->args->elts;

    if (ngx_etcd_unit_bytes(&value[1], &text) != NGX_OK) {
        return "has invalid arguments";
    }

    last = buf + sizeof(buf) - 1;

    rc = ngx_etcd_json_read(&reader, &text);

    p = ngx_slprintf(buf, last, "json: ");

    if (!ngx_etcd_unit_same(rc, &reader, &text)) {
        p = ngx_slprintf(p, last, "unlike jansson ");
    }

    if (rc == NGX_OK) {
        p = ngx_slprintf(p, last, "valid");

    } else {
        p = ngx_slprintf(p, last, "%ui:%ui %V", reader.line, reader.column,
                         &reader.error);
    }

    *p++ = LF;

    (void) ngx_write_fd(ngx_stdout, buf, p - buf);

    ngx_etcd_json_done(&reader);
    ngx_free(text.data);

    return NGX_CONF_OK;
}


static ngx_uint_t
ngx_etcd_unit_same(ngx_int_t rc, ngx_etcd_json_reader_t *reader,
    ngx_str_t *text)
{
    json_t      *json;
    ngx_uint_t   same;

    json = json_loadb((char *) text->data, text->len, JSON_REJECT_DUPLICATES,
                      NULL);

    same = (rc == NGX_OK) ? json != NULL && json_same(reader->nodes, json)
                          : json == NULL;

    json_decref(json);

    return same;
}
