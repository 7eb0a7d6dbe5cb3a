
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_escape.h>
#include <ngx_etcd_shown.h>


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
