
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_record.h>
#include <ngx_etcd_table.h>


static ngx_int_t ngx_etcd_table_refresh(void *data, ngx_uint_t n,
    ngx_etcd_slot_t *slot);
static ngx_int_t ngx_etcd_table_grow(ngx_etcd_table_t *table, ngx_uint_t n);
static void ngx_etcd_table_replace(ngx_etcd_table_t *table, ngx_uint_t n,
    ngx_etcd_peer_t *peer);
static ngx_etcd_tier_t *ngx_etcd_table_tier(ngx_etcd_table_t *table,
    ngx_etcd_peer_t *peer);
static ngx_etcd_peer_t *ngx_etcd_peer_create(ngx_etcd_slot_t *slot,
    ngx_log_t *log);
static void ngx_etcd_peer_inherit(ngx_etcd_peer_t *peer,
    ngx_etcd_peer_t *old);
static ngx_int_t ngx_etcd_tier_reserve(ngx_etcd_tier_t *tier, ngx_log_t *log);
static void ngx_etcd_tier_add(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer);
static void ngx_etcd_tier_remove(ngx_etcd_tier_t *tier,
    ngx_etcd_peer_t *peer);
static void ngx_etcd_tier_weigh(ngx_etcd_tier_t *tier, ngx_uint_t pos,
    ngx_int_t delta);
static void ngx_etcd_tier_done(ngx_etcd_tier_t *tier);


ngx_int_t
ngx_etcd_table_init(ngx_etcd_table_t *table, ngx_etcd_zone_t *zone,
    ngx_etcd_set_t *set, ngx_log_t *log)
{
    ngx_memzero(table, sizeof(ngx_etcd_table_t));

    table->zone = zone;
    table->set = set;
    table->set_id = set->id;
    table->log = log;

    return ngx_etcd_table_sync(table);
}


void
ngx_etcd_table_done(ngx_etcd_table_t *table)
{
    ngx_uint_t  n;

    for (n = 0; n < table->nslots; n++) {
        if (table->slots[n] != NULL) {
            ngx_etcd_peer_unref(table->slots[n]);
        }
    }

    if (table->slots != NULL) {
        ngx_free(table->slots);
    }

    ngx_etcd_tier_done(&table->primary);
    ngx_etcd_tier_done(&table->backup);
}


ngx_int_t
ngx_etcd_table_sync(ngx_etcd_table_t *table)
{
    ngx_int_t  rc;

    if (!ngx_etcd_table_stale(table)) {
        return NGX_OK;
    }

    rc = ngx_etcd_set_read(table->zone, table->set, table->set_id,
                           &table->generation, &table->revision,
                           ngx_etcd_table_refresh, table);

    /* the set was given up by a newer configuration: what is known stays */

    if (rc == NGX_DECLINED) {
        return NGX_OK;
    }

    return (rc == NGX_OK) ? NGX_OK : NGX_AGAIN;
}


/* called under the zone's mutex */

static ngx_int_t
ngx_etcd_table_refresh(void *data, ngx_uint_t n, ngx_etcd_slot_t *slot)
{
    ngx_etcd_table_t *table = data;

    ngx_etcd_peer_t  *peer;

    if (n >= table->nslots && ngx_etcd_table_grow(table, n) != NGX_OK) {
        return NGX_ERROR;
    }

    if (slot->entry == NULL) {

        if (table->slots[n] != NULL) {
            ngx_etcd_table_replace(table, n, NULL);
        }

        return NGX_OK;
    }

    if (ngx_etcd_tier_reserve(&table->primary, table->log) != NGX_OK
        || ngx_etcd_tier_reserve(&table->backup, table->log) != NGX_OK)
    {
        return NGX_ERROR;
    }

    peer = ngx_etcd_peer_create(slot, table->log);
    if (peer == NULL) {
        return NGX_ERROR;
    }

    ngx_etcd_table_replace(table, n, peer);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_table_grow(ngx_etcd_table_t *table, ngx_uint_t n)
{
    ngx_uint_t         nslots;
    ngx_etcd_peer_t  **slots;

    nslots = ngx_max(table->nslots * 2, 16);
    nslots = ngx_max(nslots, n + 1);

    slots = ngx_calloc(nslots * sizeof(ngx_etcd_peer_t *), table->log);
    if (slots == NULL) {
        return NGX_ERROR;
    }

    if (table->slots != NULL) {
        ngx_memcpy(slots, table->slots,
                   table->nslots * sizeof(ngx_etcd_peer_t *));
        ngx_free(table->slots);
    }

    table->slots = slots;
    table->nslots = nslots;

    return NGX_OK;
}


static void
ngx_etcd_table_replace(ngx_etcd_table_t *table, ngx_uint_t n,
    ngx_etcd_peer_t *peer)
{
    ngx_etcd_peer_t  *old;
    ngx_etcd_tier_t  *tier;

    old = table->slots[n];

    if (old != NULL) {
        tier = ngx_etcd_table_tier(table, old);

        if (tier != NULL) {
            ngx_etcd_tier_remove(tier, old);
        }

        if (peer != NULL && peer->uid == old->uid) {
            ngx_etcd_peer_inherit(peer, old);
        }

        table->nmembers--;

        old->gone = 1;
        ngx_etcd_peer_unref(old);
    }

    table->slots[n] = peer;

    if (peer == NULL) {
        return;
    }

    table->nmembers++;
    tier = ngx_etcd_table_tier(table, peer);

    if (tier != NULL) {
        ngx_etcd_tier_add(tier, peer);
    }
}


static ngx_etcd_tier_t *
ngx_etcd_table_tier(ngx_etcd_table_t *table, ngx_etcd_peer_t *peer)
{
    if (peer->attr.down || peer->attr.drain) {
        return NULL;
    }

    return peer->attr.backup ? &table->backup : &table->primary;
}


static ngx_etcd_peer_t *
ngx_etcd_peer_create(ngx_etcd_slot_t *slot, ngx_log_t *log)
{
    u_char             *p;
    ngx_etcd_peer_t    *peer;
    ngx_etcd_entry_t   *entry;
    ngx_etcd_record_t   record;

    entry = slot->entry;

    ngx_etcd_record_unpack(&record, ngx_etcd_entry_payload(entry));

    /* the address first: it is the part that is to be aligned */

    peer = ngx_alloc(sizeof(ngx_etcd_peer_t) + record.socklen
                     + record.name.len + entry->key_len, log);
    if (peer == NULL) {
        return NULL;
    }

    ngx_memzero(peer, sizeof(ngx_etcd_peer_t));

    p = (u_char *) peer + sizeof(ngx_etcd_peer_t);

    peer->sockaddr = (struct sockaddr *) p;
    peer->socklen = record.socklen;
    p = ngx_cpymem(p, record.sockaddr, record.socklen);

    peer->name.data = p;
    peer->name.len = record.name.len;
    p = ngx_cpymem(p, record.name.data, record.name.len);

    peer->key.data = p;
    peer->key.len = entry->key_len;
    ngx_memcpy(p, ngx_etcd_entry_key(entry), entry->key_len);

    peer->refs = 1;
    peer->slot = slot;
    peer->uid = slot->uid;
    peer->create_revision = entry->create_revision;
    peer->mod_revision = entry->mod_revision;
    peer->attr = record.attr;
    peer->effective_weight = record.attr.weight;

    return peer;
}


/* the same member, re-weighted or registered anew: its turn is not lost */

static void
ngx_etcd_peer_inherit(ngx_etcd_peer_t *peer, ngx_etcd_peer_t *old)
{
    peer->current_weight = old->current_weight;

    if (peer->attr.weight == old->attr.weight) {
        peer->effective_weight = old->effective_weight;
    }

#if (NGX_SSL)
    peer->ssl_session = old->ssl_session;
    old->ssl_session = NULL;
#endif
}


void
ngx_etcd_peer_unref(ngx_etcd_peer_t *peer)
{
    if (--peer->refs != 0) {
        return;
    }

#if (NGX_SSL)
    if (peer->ssl_session != NULL) {
        ngx_ssl_free_session(peer->ssl_session);
    }
#endif

    ngx_free(peer);
}


static ngx_int_t
ngx_etcd_tier_reserve(ngx_etcd_tier_t *tier, ngx_log_t *log)
{
    ngx_uint_t         n, *sums;
    ngx_etcd_peer_t  **peers;

    if (tier->n < tier->allocated) {
        return NGX_OK;
    }

    n = ngx_max(tier->allocated * 2, 16);

    peers = ngx_alloc(n * sizeof(ngx_etcd_peer_t *), log);
    if (peers == NULL) {
        return NGX_ERROR;
    }

    sums = ngx_alloc((n + 1) * sizeof(ngx_uint_t), log);
    if (sums == NULL) {
        ngx_free(peers);
        return NGX_ERROR;
    }

    sums[0] = 0;

    if (tier->allocated) {
        ngx_memcpy(peers, tier->peers, tier->n * sizeof(ngx_etcd_peer_t *));
        ngx_memcpy(sums, tier->sums, (tier->n + 1) * sizeof(ngx_uint_t));

        ngx_etcd_tier_done(tier);
    }

    tier->peers = peers;
    tier->sums = sums;
    tier->allocated = n;

    return NGX_OK;
}


static void
ngx_etcd_tier_done(ngx_etcd_tier_t *tier)
{
    if (tier->allocated) {
        ngx_free(tier->peers);
        ngx_free(tier->sums);
    }
}


/* there is room: it was reserved */

static void
ngx_etcd_tier_add(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer)
{
    ngx_uint_t  i, bit;

    peer->pos = tier->n;
    tier->peers[tier->n++] = peer;

    /* a new node of the tree sums the nodes of the range below it */

    i = tier->n;
    tier->sums[i] = peer->attr.weight;

    for (bit = 1; (i & bit) == 0; bit <<= 1) {
        tier->sums[i] += tier->sums[i - bit];
    }

    tier->weight += peer->attr.weight;
}


/* the last peer takes the place */

static void
ngx_etcd_tier_remove(ngx_etcd_tier_t *tier, ngx_etcd_peer_t *peer)
{
    ngx_etcd_peer_t  *last;

    last = tier->peers[tier->n - 1];

    if (last != peer) {
        ngx_etcd_tier_weigh(tier, peer->pos, (ngx_int_t) last->attr.weight
                                             - (ngx_int_t) peer->attr.weight);
        tier->peers[peer->pos] = last;
        last->pos = peer->pos;
    }

    /* no other node of the tree covers the last one */

    tier->n--;
    tier->weight -= peer->attr.weight;
}


static void
ngx_etcd_tier_weigh(ngx_etcd_tier_t *tier, ngx_uint_t pos, ngx_int_t delta)
{
    ngx_uint_t  i;

    for (i = pos + 1; i <= tier->n; i += i & (~i + 1)) {
        tier->sums[i] += delta;
    }
}


ngx_etcd_peer_t *
ngx_etcd_tier_at(ngx_etcd_tier_t *tier, ngx_uint_t point)
{
    ngx_uint_t  i, bit;

    i = 0;

    for (bit = 1; bit <= tier->n / 2; bit <<= 1) { /* void */ }

    for ( /* void */ ; bit != 0; bit >>= 1) {
        if (i + bit <= tier->n && tier->sums[i + bit] <= point) {
            i += bit;
            point -= tier->sums[i];
        }
    }

    return tier->peers[i];
}
