
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_conn_queue.h>
#include <ngx_etcd_near.h>
#include <ngx_etcd_pick.h>
#include <ngx_etcd_str.h>


/* attempts to pick a peer if other workers take the last free connection */

#define NGX_ETCD_PICK_RACES  64

/* ms, the longest tick of a kernel */

#define NGX_ETCD_PICK_TICK   10

#define ngx_etcd_pick_method(pick)  ((pick)->table->primary.method)


ngx_int_t
ngx_etcd_pick_subscribe(ngx_etcd_pick_t *pick, void (*close)(void *data),
    void *data)
{
    /* another line may report what the first one does not */

    if (!pick->table->conf->close && pick->table->conf->next == NULL) {
        return NGX_OK;
    }

    pick->user = ngx_pcalloc(pick->pool, sizeof(ngx_etcd_peer_user_t));
    if (pick->user == NULL) {
        return NGX_ERROR;
    }

    pick->user->close = close;
    pick->user->data = data;

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_pick_tried(ngx_etcd_pick_t *pick, ngx_etcd_peer_t *peer)
{
    ngx_uint_t  i;

    for (i = 0; i < pick->ntried; i++) {
        if (pick->tried[i].peer->uid == peer->uid
            && pick->tried[i].peer->slot == peer->slot)
        {
            return 1;
        }
    }

    return 0;
}


/* Begins with the peers of a line, as for a request that comes now. */

static void
ngx_etcd_pick_enter(ngx_etcd_pick_t *pick, ngx_etcd_table_t *table)
{
    pick->table = table;
    pick->revision = table->reader.revision;

    ngx_etcd_pick_restart(pick);
}


/* Goes on with the next line of the upstream; returns 0 if there is none. */

static ngx_uint_t
ngx_etcd_pick_advance(ngx_etcd_pick_t *pick)
{
    ngx_etcd_table_t  *table;

    table = pick->table->conf->next;

    if (table == NULL) {
        return 0;
    }

    ngx_etcd_table_follow(table);
    ngx_etcd_pick_enter(pick, table);

    return 1;
}


/*
 * Returns the peer of the session, if it is in the group and may be used; NULL
 * is any group of the table.  A member that drains keeps its sessions.  A
 * drained leader does not: it is about to hand over, or not ready.
 */

static ngx_etcd_peer_t *
ngx_etcd_pick_bound(ngx_etcd_pick_t *pick, ngx_etcd_table_t *table,
    ngx_etcd_peer_group_t *group, ngx_str_t *hint)
{
    ngx_uint_t        counts, leader;
    ngx_etcd_peer_t  *peer;

    counts = ngx_etcd_table_counts(table);
    leader = table->conf->leader;
    peer = NULL;

    do {
        peer = ngx_etcd_sid_find(&table->sids, hint, peer);

    } while (peer != NULL
             && ((group != NULL && peer->group != group)
                 || (leader && peer->attr.drain)
                 || ngx_etcd_pick_tried(pick, peer)
                 || !ngx_etcd_health_serves(peer, counts)));

    return peer;
}


/*
 * Returns 1 if the early peer stays: it was picked before the session was
 * known, which may be bound to another peer.  That of a line before drains:
 * otherwise the early peer would be of that line.
 */

static ngx_uint_t
ngx_etcd_pick_keeps(ngx_etcd_pick_t *pick, ngx_str_t *hint)
{
    ngx_etcd_peer_t   *peer, *bound;
    ngx_etcd_table_t  *table;

    peer = pick->peer;

    if (hint == NULL
        || (peer->sid != NULL && ngx_etcd_str_equal(&peer->sid->id, hint)))
    {
        return 1;
    }

    bound = NULL;

    for (table = ngx_etcd_table_head(pick->table);
         table != pick->table && bound == NULL;
         table = table->conf->next)
    {
        bound = ngx_etcd_pick_bound(pick, table, NULL, hint);
    }

    if (bound == NULL) {
        bound = ngx_etcd_pick_bound(pick, table, &table->primary, hint);
    }

    if (bound == NULL) {
        bound = ngx_etcd_pick_bound(pick, table, &table->near, hint);
    }

    if (bound == NULL && peer->group == &table->backup) {
        bound = ngx_etcd_pick_bound(pick, table, &table->backup, hint);
    }

    return bound == NULL;
}


static ngx_inline void
ngx_etcd_pick_address(ngx_peer_connection_t *pc, ngx_etcd_peer_t *peer)
{
    pc->sockaddr = ngx_etcd_peer_sockaddr(peer);
    pc->socklen = peer->socklen;
    pc->name = &peer->name;
}


static void
ngx_etcd_pick_give(ngx_etcd_table_t *table, ngx_etcd_peer_t *peer)
{
    ngx_etcd_connection_count_give(peer->slot, peer->cell, peer->uid);

    /* update the current object of the member, if the member still exists */

    peer = ngx_etcd_table_current(table, peer);

    if (peer != NULL) {
        if (peer->weight != peer->attr.weight * NGX_ETCD_PEER_UNIT
            || peer->deficit.weight != 0)
        {
            (void) ngx_etcd_health_check(peer->group, peer,
                                         ngx_etcd_table_counts(table));
        }

        if (table->primary.method->freed != NULL) {
            table->primary.method->freed(peer->group, peer);
        }
    }

    if (table->conf->queue) {
        ngx_etcd_conn_queue_freed(table);
    }
}


/* The peer has one connection less. */

static void
ngx_etcd_pick_release(ngx_etcd_pick_t *pick, ngx_etcd_peer_t *peer)
{
    pick->peer = NULL;

    if (pick->user != NULL) {
        ngx_etcd_peer_unsubscribe(pick->user);
    }

    if (pick->kept) {
        pick->kept = 0;

    } else {
        ngx_etcd_pick_give(pick->table, peer);
    }
}


void
ngx_etcd_pick_undo(ngx_etcd_pick_t *pick)
{
    ngx_etcd_peer_t  *peer;

    peer = pick->peer;

    (void) __atomic_fetch_sub(&peer->slot->requests, 1, __ATOMIC_RELAXED);

    ngx_etcd_pick_release(pick, peer);
    ngx_etcd_peer_unref(pick->tried[--pick->ntried].peer);
}


static ngx_inline ngx_etcd_peer_t *
ngx_etcd_pick_from(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group,
    ngx_str_t *hint)
{
    ngx_etcd_peer_t  *peer;

    group->picks++;

    if (ngx_etcd_peer_group_unwell(group) != 0) {
        ngx_etcd_health_sweep(group, ngx_etcd_table_counts(pick->table));
    }

    if (hint != NULL) {
        peer = ngx_etcd_pick_bound(pick, pick->table, group, hint);

        if (peer != NULL) {

            if (ngx_etcd_eevdf_taken_by(&peer->eevdf)) {
                ngx_etcd_eevdf_charge(&group->eevdf, &peer->eevdf);
            }

            return peer;
        }
    }

    if (ngx_etcd_peer_group_usable(group) == 0) {
        return NULL;
    }

    return ngx_etcd_pick_method(pick)->pick(pick, group);
}


/* A session stays with its peer, preferred or not. */

static ngx_etcd_peer_t *
ngx_etcd_pick_nearest(ngx_etcd_pick_t *pick, ngx_str_t *hint)
{
    ngx_etcd_peer_t        *peer;
    ngx_etcd_table_t       *table;
    ngx_etcd_peer_group_t  *first, *second;

    table = pick->table;
    first = &table->primary;
    second = &table->near;

    if (hint != NULL
        && ngx_etcd_pick_bound(pick, table, second, hint) != NULL)
    {
        return ngx_etcd_pick_from(pick, second, hint);
    }

    if ((hint == NULL || ngx_etcd_pick_bound(pick, table, first, hint) == NULL)
        && ngx_etcd_near_due(table, &pick->key))
    {
        first = second;
        second = &table->primary;
    }

    peer = ngx_etcd_pick_from(pick, first, hint);

    return (peer != NULL) ? peer : ngx_etcd_pick_from(pick, second, hint);
}


static ngx_etcd_peer_t *
ngx_etcd_pick_choose(ngx_etcd_pick_t *pick, ngx_str_t *hint)
{
    ngx_uint_t         i;
    ngx_etcd_peer_t   *peer;
    ngx_etcd_table_t  *table;

    table = pick->table;

    if (table->conf->max_stale != 0 && ngx_etcd_table_expired(table)) {
        return NULL;
    }

    if (ngx_etcd_peer_group_all(&table->near) != 0) {
        peer = ngx_etcd_pick_nearest(pick, hint);

    } else {
        peer = ngx_etcd_pick_from(pick, &table->primary, hint);
    }

    if (peer == NULL) {
        peer = ngx_etcd_pick_from(pick, &table->backup, hint);
    }

    /* the last resort: a peer that failed on a cached connection only */

    for (i = 0; peer == NULL && i < pick->ntried; i++) {
        if (pick->tried[i].again && !pick->tried[i].peer->gone) {
            pick->tried[i].again = 0;
            peer = pick->tried[i].peer;
        }
    }

    return peer;
}


static ngx_int_t
ngx_etcd_pick_remember(ngx_etcd_pick_t *pick, ngx_etcd_peer_t *peer)
{
    ngx_etcd_try_t  *tried;

    /* the first try is in "first"; the array grows to 2, 4, 8 and so on */

    if (pick->ntried != 0 && (pick->ntried & (pick->ntried - 1)) == 0) {
        tried = ngx_palloc(pick->pool,
                           2 * pick->ntried * sizeof(ngx_etcd_try_t));
        if (tried == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(tried, pick->tried, pick->ntried * sizeof(ngx_etcd_try_t));

        pick->tried = tried;
    }

    ngx_etcd_peer_ref(peer);

    tried = &pick->tried[pick->ntried++];
    tried->peer = peer;
    tried->again = 0;

    return NGX_OK;
}


/* NGX_BUSY: another worker has reached max_conns of the peer. */

static ngx_int_t
ngx_etcd_pick_take(ngx_etcd_pick_t *pick, ngx_etcd_peer_t *peer)
{
    ngx_int_t  conns;

    conns = ngx_etcd_connection_count_take(peer->slot, peer->cell, peer->uid,
                                           peer->attr.max_conns);
    if (conns == NGX_BUSY) {
        return NGX_BUSY;
    }

    if (ngx_etcd_pick_remember(pick, peer) != NGX_OK) {
        ngx_etcd_connection_count_give(peer->slot, peer->cell, peer->uid);
        return NGX_ERROR;
    }

    (void) __atomic_fetch_add(&peer->slot->requests, 1, __ATOMIC_RELAXED);

    /* the start of a new try of a failed peer, as in nginx */

    if (ngx_etcd_peer_suspect(peer)
        && peer->attr.max_fails
        && ngx_etcd_peer_idle(peer) > peer->attr.fail_timeout)
    {
        peer->slot->checked = (uint32_t) ngx_time();
    }

    pick->peer = peer;
    pick->failed = 0;

    if (ngx_etcd_pick_method(pick)->taken != NULL) {
        ngx_etcd_pick_method(pick)->taken(pick, peer->group, peer, conns);
    }

    if (pick->user != NULL && pick->table->conf->close) {
        ngx_etcd_peer_subscribe(peer, pick->user);
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_pick_get_bound(ngx_peer_connection_t *pc, ngx_etcd_pick_t *pick,
    ngx_str_t *hint)
{
    ngx_int_t         rc;
    ngx_uint_t        i;
    ngx_etcd_peer_t  *peer;

    if (pick->early) {
        pick->early = 0;

        if (ngx_etcd_pick_keeps(pick, hint)) {
            ngx_etcd_pick_address(pc, pick->peer);
            return NGX_OK;
        }

        ngx_etcd_pick_undo(pick);
        ngx_etcd_pick_enter(pick, ngx_etcd_table_head(pick->table));
    }

    /*
     * nginx increments pc->tries again only if a cached connection was
     * broken: the peer may be tried again on a new connection.
     */

    if (pick->cached) {
        pick->cached = 0;
        pick->tried[pick->ntried - 1].again = (pc->tries > pick->tries);
    }

    pick->peer = NULL;

    pc->cached = 0;
    pc->connection = NULL;

    do {
        for (i = 0; i < NGX_ETCD_PICK_RACES; i++) {
            peer = ngx_etcd_pick_choose(pick, hint);

            if (peer == NULL) {
                break;
            }

            rc = ngx_etcd_pick_take(pick, peer);

            if (rc == NGX_OK) {
                ngx_etcd_pick_address(pc, peer);
                ngx_etcd_sid_picked(pc, peer->sid ? &peer->sid->id : NULL);
                return NGX_OK;
            }

            if (rc == NGX_ERROR) {
                break;
            }
        }

    } while (ngx_etcd_pick_advance(pick));

    pc->name = pick->name;

    return NGX_BUSY;
}


ngx_int_t
ngx_etcd_pick_get(ngx_peer_connection_t *pc, void *data)
{
    return ngx_etcd_pick_get_bound(pc, data, ngx_etcd_sid_hint(pc));
}


ngx_int_t
ngx_etcd_pick_early(ngx_peer_connection_t *pc, ngx_etcd_pick_t *pick)
{
    ngx_int_t  rc;

    rc = ngx_etcd_pick_get(pc, pick);

    pick->early = (rc == NGX_OK);

    /* Angie does not call pc->get if there is an address */

    pc->sockaddr = NULL;

    return rc;
}


static void
ngx_etcd_pick_failed(ngx_peer_connection_t *pc, ngx_etcd_pick_t *pick)
{
    ngx_uint_t        fails;
    ngx_etcd_peer_t  *peer;

    peer = ngx_etcd_table_current(pick->table, pick->peer);

    if (peer == NULL) {
        return;
    }

    fails = ngx_etcd_health_failed(peer->group, peer,
                                   ngx_etcd_table_counts(pick->table));

    if (fails != 0 && fails == peer->attr.max_fails) {
        ngx_log_error(NGX_LOG_WARN, pc->log, 0,
                      "upstream \"%V\": member %V temporarily disabled",
                      pick->name, &peer->name);
    }

    if (ngx_etcd_pick_method(pick)->failed != NULL) {
        ngx_etcd_pick_method(pick)->failed(pick, peer->group, peer);
    }
}


static ngx_inline void
ngx_etcd_pick_answered(ngx_etcd_pick_t *pick, ngx_etcd_peer_t *peer)
{
    if (ngx_etcd_pick_method(pick)->works == NULL) {
        return;
    }

    peer = ngx_etcd_table_current(pick->table, peer);

    if (peer != NULL) {
        ngx_etcd_pick_method(pick)->works(pick, peer->group, peer);
    }
}


void
ngx_etcd_pick_free(ngx_peer_connection_t *pc, void *data, ngx_uint_t state)
{
    ngx_etcd_pick_t *pick = data;

    ngx_etcd_peer_t  *peer;

    peer = pick->peer;

    if (peer == NULL) {
        return;
    }

    if (pick->connected) {
        pick->connected = 0;
        pick->begun.tv_sec = 0;
    }

    if (state & NGX_PEER_FAILED) {
        pick->cached = pc->cached;
        pick->failed = 1;
        ngx_etcd_pick_failed(pc, pick);

    } else {
        ngx_etcd_health_worked(peer, ngx_etcd_table_counts(pick->table));
        ngx_etcd_pick_answered(pick, peer);
    }

    ngx_etcd_pick_release(pick, peer);

    if (pc->tries) {
        pc->tries--;
    }

    pick->tries = pc->tries;
}


void
ngx_etcd_pick_keep(ngx_etcd_pick_t *pick, ngx_etcd_kept_t *kept)
{
    if (pick->peer == NULL || pick->early) {
        return;
    }

    pick->kept = 1;

    kept->table = pick->table;
    kept->peer = pick->peer;

    ngx_etcd_peer_ref(kept->peer);
    kept->table->users++;
}


void
ngx_etcd_pick_end(ngx_etcd_kept_t *kept)
{
    if (kept->table == NULL) {
        return;
    }

    ngx_etcd_pick_give(kept->table, kept->peer);

    ngx_etcd_peer_unref(kept->peer);
    kept->table->users--;

    kept->table = NULL;
}


void
ngx_etcd_pick_connected(ngx_etcd_pick_t *pick, ngx_uint_t answered)
{
    if (pick->peer == NULL) {
        return;
    }

    ngx_etcd_health_worked(pick->peer, ngx_etcd_table_counts(pick->table));

    if (answered) {
        ngx_etcd_pick_answered(pick, pick->peer);

    } else {
        pick->connected = 1;
    }
}


void
ngx_etcd_pick_header(ngx_etcd_pick_t *pick)
{
    if (pick->peer != NULL) {
        ngx_etcd_pick_answered(pick, pick->peer);
    }
}


void
ngx_etcd_pick_began(ngx_etcd_pick_t *pick, ngx_msec_t ago)
{
    int64_t          elapsed;
    struct timespec  now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);

    elapsed = (int64_t) (now.tv_sec - pick->begun.tv_sec) * 1000
              + (now.tv_nsec - pick->begun.tv_nsec) / 1000000;

    /* "ago" comes from a coarse clock */

    if (elapsed <= (int64_t) ago + NGX_ETCD_PICK_TICK) {
        return;
    }

    now.tv_sec -= ago / 1000;
    now.tv_nsec -= (long) (ago % 1000) * 1000000;

    if (now.tv_nsec < 0) {
        now.tv_nsec += 1000000000;
        now.tv_sec--;
    }

    pick->begun = now;
}


#if (NGX_SSL)

ngx_int_t
ngx_etcd_pick_set_session(ngx_peer_connection_t *pc, void *data)
{
    ngx_etcd_pick_t *pick = data;

    if (pick->peer == NULL || pick->peer->ssl_session == NULL) {
        return NGX_OK;
    }

    return ngx_ssl_set_session(pc->connection, pick->peer->ssl_session);
}


void
ngx_etcd_pick_save_session(ngx_peer_connection_t *pc, void *data)
{
    ngx_etcd_pick_t *pick = data;

    ngx_ssl_session_t  *session;

    if (pick->peer == NULL) {
        return;
    }

    session = ngx_ssl_get_session(pc->connection);

    if (session == NULL) {
        return;
    }

    if (pick->peer->ssl_session != NULL) {
        ngx_ssl_free_session(pick->peer->ssl_session);
    }

    pick->peer->ssl_session = session;
}

#endif


ngx_etcd_peer_t *
ngx_etcd_pick_any(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group)
{
    ngx_uint_t        i, n;
    ngx_etcd_peer_t  *peer;

    n = ngx_etcd_peer_group_usable(group);
    i = (n != 0) ? (ngx_uint_t) ngx_random() % n : 0;

    /* a parked peer is replaced by another one at the same position */

    for ( /* void */ ; n != 0; n--) {

        if (ngx_etcd_peer_group_usable(group) == 0) {
            break;
        }

        peer = group->peers[i % ngx_etcd_peer_group_usable(group)];

        if (ngx_etcd_pick_usable(pick, group, peer)) {
            return peer;
        }

        if (peer->weight != 0) {
            i++;
        }
    }

    return NULL;
}
