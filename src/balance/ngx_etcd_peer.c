
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_peer.h>


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

    peer->key.data = p;
    peer->key.len = entry->key_len;
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
    peer->since = old->since;

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
        peer->deficit = old->deficit;
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
ngx_etcd_peer_enter(ngx_etcd_peer_t *peer, ngx_etcd_peer_user_t *user)
{
    ngx_queue_insert_tail(&peer->users, &user->queue);
    user->staying = 1;
}


void
ngx_etcd_peer_leave(ngx_etcd_peer_user_t *user)
{
    if (user->staying) {
        ngx_queue_remove(&user->queue);
        user->staying = 0;
    }
}


ngx_uint_t
ngx_etcd_peer_failed(ngx_etcd_peer_t *peer)
{
    return peer->attr.max_fails != 0
           && ngx_etcd_peer_fails(peer) >= peer->attr.max_fails
           && ngx_etcd_peer_idle(peer) <= peer->attr.fail_timeout;
}
