
/*
 * Copyright (C) nginx-etcd contributors
 *
 * How texts of others are shown, as a directive:
 *
 *     etcd_escape TEXT;
 *
 * Writes "escape: CONTROL TEXT": whether there is a control byte, and what a
 * log line shows while it has as many other texts as it may have.  A word is as
 * of etcd_decode.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_escape.h>
#include <ngx_etcd_shown.h>
#include "unit.h"


char *
ngx_etcd_unit_escape(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    u_char      *p;
    u_char       buf[32 + NGX_ETCD_ESCAPED(NGX_ETCD_SHOWN_LEN)];
    ngx_str_t   *value, *shown, text, other;
    ngx_uint_t   i;

    value = cf->args->elts;

    if (ngx_etcd_unit_bytes(&value[1], &text) != NGX_OK) {
        return "has invalid arguments";
    }

    ngx_str_set(&other, "other");

    shown = ngx_etcd_shown(&text);

    for (i = 1; i < NGX_ETCD_SHOWN_SLOTS; i++) {
        (void) ngx_etcd_shown(&other);
    }

    p = ngx_snprintf(buf, sizeof(buf), "escape: %ui %V\n",
                     ngx_etcd_escape_has_control(text.data, text.len), shown);

    (void) ngx_write_fd(ngx_stdout, buf, p - buf);

    ngx_free(text.data);

    return NGX_CONF_OK;
}
