
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_balance.h>


/* random: pairs drawn before it looks at every peer */

#define NGX_ETCD_RANDOM_DRAWS  20


typedef ngx_etcd_peer_t *(*ngx_etcd_method_pt)(ngx_etcd_pick_t *pick,
    ngx_etcd_tier_t *tier, time_t now);


struct ngx_etcd_method_s {
    ngx_str_t            name;
    ngx_etcd_method_pt   pick;
};


static ngx_int_t ngx_etcd_pick_remember(ngx_etcd_pick_t *pick,
    ngx_etcd_peer_t *peer);
static ngx_etcd_peer_t *ngx_etcd_pick_again(ngx_etcd_pick_t *pick);
static ngx_uint_t ngx_etcd_pick_usable(ngx_etcd_pick_t *pick,
    ngx_etcd_peer_t *peer, time_t now);
static void ngx_etcd_pick_failed(ngx_etcd_pick_t *pick,
    ngx_etcd_peer_t *peer, ngx_log_t *log);
static ngx_etcd_peer_t *ngx_etcd_pick_round_robin(ngx_etcd_pick_t *pick,
    ngx_etcd_tier_t *tier, time_t now);
static ngx_etcd_peer_t *ngx_etcd_pick_turn(ngx_etcd_pick_t *pick,
    ngx_etcd_tier_t *tier, time_t now, ngx_etcd_peer_t *like);
static ngx_etcd_peer_t *ngx_etcd_pick_least_conn(ngx_etcd_pick_t *pick,
    ngx_etcd_tier_t *tier, time_t now);
static ngx_etcd_peer_t *ngx_etcd_pick_random(ngx_etcd_pick_t *pick,
    ngx_etcd_tier_t *tier, time_t now);
static ngx_int_t ngx_etcd_peer_less_loaded(ngx_etcd_peer_t *one,
    ngx_etcd_peer_t *two);


/* NGX_ETCD_METHOD_NAMES has the same */

static const ngx_etcd_method_t  ngx_etcd_methods[] = {

    { ngx_string("round_robin"), ngx_etcd_pick_round_robin },
    { ngx_string("least_conn"), ngx_etcd_pick_least_conn },
    { ngx_string("random"), ngx_etcd_pick_random },
    { ngx_null_string, NULL }
};

const ngx_etcd_method_t  *ngx_etcd_method_default = &ngx_etcd_methods[0];


const ngx_etcd_method_t *
ngx_etcd_method_find(ngx_str_t *name)
{
    const ngx_etcd_method_t  *method;

    for (method = ngx_etcd_methods; method->name.len != 0; method++) {
        if (method->name.len == name->len
            && ngx_strncmp(method->name.data, name->data, name->len) == 0)
        {
            return method;
        }
    }

    return NULL;
}


ngx_uint_t
ngx_etcd_pick_init(ngx_etcd_pick_t *pick, ngx_etcd_table_t *table,
    const ngx_etcd_method_t *method, ngx_str_t *name, ngx_pool_t *pool)
{
    /* where the mutex is held the wake-up's timer comes back to it */

    (void) ngx_etcd_table_sync(table);

    pick->table = table;
    pick->method = method;
    pick->name = name;
    pick->pool = pool;
    pick->revision = table->revision;
    pick->tried = pick->first;
    pick->allocated = NGX_ETCD_PICK_TRIED;

    return table->primary.n + table->backup.n;
}


ngx_int_t
ngx_etcd_pick_get(ngx_etcd_pick_t *pick, ngx_peer_connection_t *pc)
{
    time_t             now;
    ngx_etcd_peer_t   *peer;
    ngx_etcd_table_t  *table;

    table = pick->table;
    now = ngx_time();

    /*
     * nginx gives back the try of a kept connection that was broken, and of
     * no other failure: the peer may be tried on a new one
     */

    if (pick->cached && pc->tries > pick->tries) {
        pick->tried[pick->ntried - 1].again = 1;
    }

    pick->cached = 0;

    pc->cached = 0;
    pc->connection = NULL;

    peer = pick->method->pick(pick, &table->primary, now);

    if (peer == NULL) {
        peer = pick->method->pick(pick, &table->backup, now);
    }

    if (peer == NULL) {
        peer = ngx_etcd_pick_again(pick);
    }

    if (peer == NULL || ngx_etcd_pick_remember(pick, peer) != NGX_OK) {
        pick->peer = NULL;
        pc->name = pick->name;
        return NGX_BUSY;
    }

    /* the time of a try of a peer that had failed */

    if (peer->attr.max_fails
        && now - peer->slot->checked > peer->attr.fail_timeout)
    {
        peer->slot->checked = now;
    }

    (void) ngx_etcd_counter_add(&peer->slot->conns, peer->uid, 1);
    (void) __atomic_fetch_add(&peer->slot->requests, 1, __ATOMIC_RELAXED);

    pick->peer = peer;

    pc->sockaddr = peer->sockaddr;
    pc->socklen = peer->socklen;
    pc->name = &peer->name;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_pick_remember(ngx_etcd_pick_t *pick, ngx_etcd_peer_t *peer)
{
    ngx_etcd_try_t  *tried;

    if (pick->ntried == pick->allocated) {
        tried = ngx_palloc(pick->pool,
                           2 * pick->allocated * sizeof(ngx_etcd_try_t));
        if (tried == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(tried, pick->tried, pick->ntried * sizeof(ngx_etcd_try_t));

        pick->tried = tried;
        pick->allocated *= 2;
    }

    ngx_etcd_peer_ref(peer);

    tried = &pick->tried[pick->ntried++];
    tried->peer = peer;
    tried->again = 0;

    return NGX_OK;
}


/* the last resort: a peer that may have been missed by an old connection */

static ngx_etcd_peer_t *
ngx_etcd_pick_again(ngx_etcd_pick_t *pick)
{
    ngx_uint_t  i;

    for (i = 0; i < pick->ntried; i++) {
        if (pick->tried[i].again && !pick->tried[i].peer->gone) {
            pick->tried[i].again = 0;
            return pick->tried[i].peer;
        }
    }

    return NULL;
}


/* may this request go to the peer now? */

static ngx_uint_t
ngx_etcd_pick_usable(ngx_etcd_pick_t *pick, ngx_etcd_peer_t *peer, time_t now)
{
    ngx_uint_t        i;
    ngx_etcd_slot_t  *slot;

    for (i = 0; i < pick->ntried; i++) {
        if (pick->tried[i].peer->uid == peer->uid) {
            return 0;
        }
    }

    slot = peer->slot;

    /* as in nginx, a member that is the only one is never unavailable */

    if (peer->attr.max_fails
        && pick->table->nmembers > 1
        && ngx_etcd_counter_get(&slot->fails, peer->uid)
           >= peer->attr.max_fails
        && now - slot->checked <= peer->attr.fail_timeout)
    {
        return 0;
    }

    if (peer->attr.max_conns
        && ngx_etcd_counter_get(&slot->conns, peer->uid)
           >= peer->attr.max_conns)
    {
        return 0;
    }

    return 1;
}


void
ngx_etcd_pick_free(ngx_etcd_pick_t *pick, ngx_peer_connection_t *pc,
    ngx_uint_t state)
{
    ngx_etcd_peer_t  *peer;
    ngx_etcd_slot_t  *slot;

    peer = pick->peer;

    if (peer == NULL) {
        return;
    }

    pick->peer = NULL;
    slot = peer->slot;

    if (state & NGX_PEER_FAILED) {
        pick->cached = pc->cached;
        ngx_etcd_pick_failed(pick, peer, pc->log);

    } else if (slot->accessed < slot->checked) {

        /* it was tried after its last failure, and it works */

        ngx_etcd_counter_set(&slot->fails, peer->uid, 0);
    }

    (void) ngx_etcd_counter_add(&slot->conns, peer->uid, -1);

    if (pc->tries) {
        pc->tries--;
    }

    pick->tries = pc->tries;
}


static void
ngx_etcd_pick_failed(ngx_etcd_pick_t *pick, ngx_etcd_peer_t *peer,
    ngx_log_t *log)
{
    time_t      now;
    ngx_uint_t  fails;

    if (pick->table->nmembers <= 1) {
        return;
    }

    now = ngx_time();

    fails = ngx_etcd_counter_add(&peer->slot->fails, peer->uid, 1);

    if (fails == 0) {

        /* the member is gone meanwhile */

        return;
    }

    peer->slot->accessed = now;
    peer->slot->checked = now;

    if (peer->attr.max_fails == 0) {
        return;
    }

    peer->effective_weight -= peer->attr.weight / peer->attr.max_fails;

    if (peer->effective_weight < 0) {
        peer->effective_weight = 0;
    }

    if (fails == peer->attr.max_fails) {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "upstream \"%V\": member %V temporarily disabled",
                      pick->name, &peer->name);
    }
}


#if (NGX_SSL)

ngx_int_t
ngx_etcd_pick_set_session(ngx_etcd_pick_t *pick, ngx_peer_connection_t *pc)
{
    if (pick->peer == NULL || pick->peer->ssl_session == NULL) {
        return NGX_OK;
    }

    return ngx_ssl_set_session(pc->connection, pick->peer->ssl_session);
}


void
ngx_etcd_pick_save_session(ngx_etcd_pick_t *pick, ngx_peer_connection_t *pc)
{
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


void
ngx_etcd_pick_done(ngx_etcd_pick_t *pick)
{
    ngx_uint_t  i;

    for (i = 0; i < pick->ntried; i++) {
        ngx_etcd_peer_unref(pick->tried[i].peer);
    }

    pick->ntried = 0;
    pick->peer = NULL;
}


static ngx_etcd_peer_t *
ngx_etcd_pick_round_robin(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    time_t now)
{
    return ngx_etcd_pick_turn(pick, tier, now, NULL);
}


/*
 * Whose turn it is, smooth and weighted as in nginx: among all, or among
 * those loaded as the one given.
 */

static ngx_etcd_peer_t *
ngx_etcd_pick_turn(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier, time_t now,
    ngx_etcd_peer_t *like)
{
    ngx_int_t         total;
    ngx_uint_t        i;
    ngx_etcd_peer_t  *peer, *best;

    best = NULL;
    total = 0;

    for (i = 0; i < tier->n; i++) {
        peer = tier->peers[i];

        if (!ngx_etcd_pick_usable(pick, peer, now)) {
            continue;
        }

        if (like != NULL && ngx_etcd_peer_less_loaded(peer, like) != 0) {
            continue;
        }

        peer->current_weight += peer->effective_weight;
        total += peer->effective_weight;

        if (peer->effective_weight < (ngx_int_t) peer->attr.weight) {
            peer->effective_weight++;
        }

        if (best == NULL || peer->current_weight > best->current_weight) {
            best = peer;
        }
    }

    if (best != NULL) {
        best->current_weight -= total;
    }

    return best;
}


/* the least connections for its weight; round robin among equals */

static ngx_etcd_peer_t *
ngx_etcd_pick_least_conn(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
    time_t now)
{
    ngx_int_t         order;
    ngx_uint_t        i, equals;
    ngx_etcd_peer_t  *peer, *best;

    best = NULL;
    equals = 0;

    for (i = 0; i < tier->n; i++) {
        peer = tier->peers[i];

        if (!ngx_etcd_pick_usable(pick, peer, now)) {
            continue;
        }

        order = (best == NULL) ? 1 : ngx_etcd_peer_less_loaded(peer, best);

        if (order > 0) {
            best = peer;
            equals = 0;

        } else if (order == 0) {
            equals++;
        }
    }

    return equals ? ngx_etcd_pick_turn(pick, tier, now, best) : best;
}


/* the better of two, each drawn in proportion to its weight */

static ngx_etcd_peer_t *
ngx_etcd_pick_random(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier, time_t now)
{
    ngx_uint_t        i;
    ngx_etcd_peer_t  *peer, *first;

    first = NULL;

    for (i = 0; i < NGX_ETCD_RANDOM_DRAWS && tier->n != 0; i++) {

        peer = ngx_etcd_tier_at(tier, (ngx_uint_t) ngx_random()
                                      % tier->weight);

        if (peer == first || !ngx_etcd_pick_usable(pick, peer, now)) {
            continue;
        }

        if (first == NULL) {
            first = peer;
            continue;
        }

        return (ngx_etcd_peer_less_loaded(peer, first) > 0) ? peer : first;
    }

    if (first != NULL) {
        return first;
    }

    return ngx_etcd_pick_round_robin(pick, tier, now);
}


/* 1: one has less, -1: more, 0: as many connections for its weight as two */

static ngx_int_t
ngx_etcd_peer_less_loaded(ngx_etcd_peer_t *one, ngx_etcd_peer_t *two)
{
    uint64_t  a, b;

    a = (uint64_t) ngx_etcd_counter_get(&one->slot->conns, one->uid)
        * two->attr.weight;
    b = (uint64_t) ngx_etcd_counter_get(&two->slot->conns, two->uid)
        * one->attr.weight;

    return (a < b) ? 1 : (a > b) ? -1 : 0;
}
