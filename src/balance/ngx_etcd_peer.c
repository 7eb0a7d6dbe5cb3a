
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_md5.h>
#include <ngx_etcd_peer.h>
#include <ngx_etcd_str.h>


ngx_etcd_peer_t *
ngx_etcd_peer_create(ngx_etcd_slot_t *slot, ngx_etcd_member_pack_t *record,
    ngx_log_t *log)
{
    u_char            *p;
    ngx_etcd_peer_t   *peer;
    ngx_etcd_entry_t  *entry;

    entry = slot->entry;

    /* the address comes first: it must be aligned */

    peer = ngx_alloc(sizeof(ngx_etcd_peer_t) + record->socklen
                     + record->name.len + entry->key_len, log);
    if (peer == NULL) {
        return NULL;
    }

    ngx_memzero(peer, sizeof(ngx_etcd_peer_t));

    peer->socklen = record->socklen;
    p = ngx_cpymem(ngx_etcd_peer_sockaddr(peer), record->sockaddr,
                   record->socklen);

    peer->name.data = p;
    peer->name.len = record->name.len;
    p = ngx_cpymem(p, record->name.data, record->name.len);

    peer->key_len = entry->key_len;
    ngx_memcpy(p, ngx_etcd_entry_key(entry), entry->key_len);

    ngx_queue_init(&peer->users);

    peer->refs = 1;
    peer->slot = slot;
    peer->uid = slot->uid;
    peer->create_revision = entry->create_revision;
    peer->mod_revision = entry->mod_revision;
    peer->attr = record->attr;

    return peer;
}


void
ngx_etcd_peer_inherit(ngx_etcd_peer_t *peer, ngx_etcd_peer_t *old)
{
    peer->latency = old->latency;
    peer->measured = old->measured;
    peer->deficit.since = old->deficit.since;

    /*
     * A new create_revision is a new term: users of the former one are
     * closed.
     */

    if (peer->create_revision == old->create_revision
        && !ngx_queue_empty(&old->users))
    {
        ngx_queue_add(&peer->users, &old->users);
        ngx_queue_init(&old->users);
    }

    if (peer->attr.weight == old->attr.weight) {
        peer->deficit.weight = old->deficit.weight;
    }

#if (NGX_SSL)
    peer->ssl_session = old->ssl_session;
    old->ssl_session = NULL;
#endif
}


void
ngx_etcd_peer_destroy(ngx_etcd_peer_t *peer)
{
#if (NGX_SSL)
    if (peer->ssl_session != NULL) {
        ngx_ssl_free_session(peer->ssl_session);
    }
#endif

    if (peer->weighted != NULL) {
        ngx_free(peer->weighted);
    }

    if (peer->sid != NULL) {
        ngx_free(peer->sid);
    }

    ngx_free(peer);
}


void
ngx_etcd_peer_subscribe(ngx_etcd_peer_t *peer, ngx_etcd_peer_user_t *user)
{
    ngx_queue_insert_tail(&peer->users, &user->queue);
    user->staying = 1;
}


void
ngx_etcd_peer_unsubscribe(ngx_etcd_peer_user_t *user)
{
    if (user->staying) {
        ngx_queue_remove(&user->queue);
        user->staying = 0;
    }
}


ngx_uint_t
ngx_etcd_peer_failed(ngx_etcd_peer_t *peer)
{
    return ngx_etcd_peer_failing(&peer->attr, ngx_etcd_peer_fails(peer),
                                 ngx_etcd_peer_idle(peer));
}


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
