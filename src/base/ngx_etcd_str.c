
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_str.h>


#define ngx_etcd_escape_is_control(ch)  ((ch) < 0x20 || (ch) == 0x7f)


u_char *
ngx_etcd_escape(u_char *p, ngx_str_t *text, size_t shown)
{
    u_char  *s, *last;

    last = text->data + ngx_min(text->len, shown);

    for (s = text->data; s < last; s++) {

        if (ngx_etcd_escape_is_control(*s) || *s >= 0x80) {
            p = ngx_sprintf(p, "\\x%02xd", *s);
            continue;
        }

        if (*s == '"' || *s == '\\') {
            *p++ = '\\';
        }

        *p++ = *s;
    }

    if (text->len > shown) {
        p = ngx_cpymem(p, "...", 3);
    }

    return p;
}


ngx_uint_t
ngx_etcd_escape_has_control(const u_char *data, size_t len)
{
    size_t  i;

    for (i = 0; i < len; i++) {
        if (ngx_etcd_escape_is_control(data[i])) {
            return 1;
        }
    }

    return 0;
}


typedef struct {
    ngx_str_t   text;
    u_char      buf[NGX_ETCD_ESCAPED(NGX_ETCD_SHOWN_LEN)];
} ngx_etcd_shown_slot_t;


ngx_str_t *
ngx_etcd_shown(ngx_str_t *text)
{
    ngx_etcd_shown_slot_t  *slot;

    static ngx_uint_t             next;
    static ngx_etcd_shown_slot_t  slots[NGX_ETCD_SHOWN_SLOTS];

    slot = &slots[next++ % NGX_ETCD_SHOWN_SLOTS];

    slot->text.data = slot->buf;
    slot->text.len = ngx_etcd_escape(slot->buf, text, NGX_ETCD_SHOWN_LEN)
                     - slot->buf;

    return &slot->text;
}


ngx_str_t *
ngx_etcd_shown_bytes(const u_char *data, size_t len)
{
    ngx_str_t  bytes;

    bytes.data = (u_char *) data;
    bytes.len = len;

    return ngx_etcd_shown(&bytes);
}
