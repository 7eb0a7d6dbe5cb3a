
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_md5.h>
#include <ngx_etcd_sid.h>
#include <ngx_etcd_str.h>


#define ngx_etcd_sid(n)                                                       \
    ((ngx_etcd_sid_t *) ((u_char *) (n) - offsetof(ngx_etcd_sid_t, node)))


/* By text, then by slot. */

static ngx_int_t
ngx_etcd_sid_order(ngx_etcd_sid_t *sid, ngx_str_t *text, ngx_int_t slot)
{
    ngx_int_t  rc;

    if (sid->id.len != text->len) {
        return (sid->id.len < text->len) ? -1 : 1;
    }

    rc = ngx_memcmp(sid->id.data, text->data, text->len);

    return (rc != 0) ? rc : (ngx_int_t) sid->peer->index - slot;
}


/* A peer that replaces another one of its slot is added after the removal. */

static ngx_int_t
ngx_etcd_sid_compare(ngx_etcd_node_t *one, ngx_etcd_node_t *two)
{
    ngx_etcd_sid_t  *sid;

    sid = ngx_etcd_sid(two);

    return ngx_etcd_sid_order(ngx_etcd_sid(one), &sid->id,
                              (ngx_int_t) sid->peer->index);
}


void
ngx_etcd_sid_init(ngx_etcd_treap_t *sids)
{
    sids->root = NULL;
    sids->compare = ngx_etcd_sid_compare;
    sids->update = NULL;
}


ngx_int_t
ngx_etcd_sid_create(ngx_etcd_peer_t *peer, ngx_str_t *route, ngx_log_t *log)
{
    u_char           hash[16];
    ngx_md5_t        md5;
    ngx_etcd_sid_t  *sid;

    sid = ngx_alloc(sizeof(ngx_etcd_sid_t), log);
    if (sid == NULL) {
        return NGX_ERROR;
    }

    sid->node.priority = 0;
    sid->peer = peer;
    sid->id.data = sid->data;

    if (route->len != 0) {
        sid->id.len = route->len;
        ngx_memcpy(sid->data, route->data, route->len);

    } else {
        ngx_md5_init(&md5);
        ngx_md5_update(&md5, peer->name.data, peer->name.len);
        ngx_md5_final(hash, &md5);

        sid->id.len = ngx_hex_dump(sid->data, hash, 16) - sid->data;
    }

    peer->sid = sid;

    return NGX_OK;
}


ngx_etcd_peer_t *
ngx_etcd_sid_find(ngx_etcd_treap_t *sids, ngx_str_t *text,
    ngx_etcd_peer_t *after)
{
    ngx_int_t         slot;
    ngx_etcd_sid_t   *sid, *best;
    ngx_etcd_node_t  *node;

    slot = (after != NULL) ? (ngx_int_t) after->index : -1;
    node = sids->root;
    best = NULL;

    while (node != NULL) {
        sid = ngx_etcd_sid(node);

        if (ngx_etcd_sid_order(sid, text, slot) > 0) {
            best = sid;
            node = node->left;

        } else {
            node = node->right;
        }
    }

    return (best != NULL && ngx_etcd_str_equal(&best->id, text)) ? best->peer
                                                                  : NULL;
}
