
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_alloc.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_table.h>


#define NGX_ETCD_TABLE_PIECE  64     /* slots per check of the clock */


static void
ngx_etcd_table_notified(ngx_event_t *ev)
{
    ngx_queue_t           *q;
    ngx_etcd_table_t      *table;
    ngx_etcd_peer_user_t  *user;

    table = ev->data;

    while (!ngx_queue_empty(&table->left)) {
        q = ngx_queue_head(&table->left);
        user = ngx_queue_data(q, ngx_etcd_peer_user_t, queue);

        ngx_etcd_peer_unsubscribe(user);
        user->close(user->data);
    }
}


/* Notifies users by a posted event: their handlers call the table again. */

static void
ngx_etcd_table_notify(void *data, ngx_queue_t *users)
{
    ngx_etcd_table_t *table = data;

    ngx_queue_add(&table->left, users);
    ngx_queue_init(users);

    ngx_post_event(&table->notify, &ngx_posted_events);
}


static ngx_uint_t
ngx_etcd_table_wakes(void *data, ngx_uint_t more)
{
    ngx_etcd_table_t *table = data;

    return table->given_up || ngx_etcd_table_any_has(table, more);
}


void
ngx_etcd_table_init(ngx_etcd_table_t *table, ngx_etcd_table_conf_t *conf,
    ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set, uint32_t set_id,
    ngx_log_t *log)
{
    ngx_memzero(table, sizeof(ngx_etcd_table_t));

    ngx_queue_init(&table->left);

    ngx_etcd_event_init(&table->notify, ngx_etcd_table_notified, table, log);

    table->conf = conf;
    table->zone = zone;
    table->set = set;
    table->set_id = set_id;
    table->reader.since = ngx_etcd_time_budget_now();
    table->log = log;

    table->priority = NGX_ETCD_MEMBER_MAX_PRIORITY;

    table->closing.conf = &conf->closing;
    table->closing.notify = ngx_etcd_table_notify;
    table->closing.data = table;

    ngx_etcd_closing_init(&table->closing, log);

    ngx_etcd_sid_init(&table->sids);

    ngx_etcd_wait_queue_init(&table->wait_queue, ngx_etcd_table_wakes,
                             ngx_etcd_table_waiting, table, log);

    ngx_etcd_peer_group_init(&table->primary, conf->method, log);
    ngx_etcd_peer_group_init(&table->backup, conf->method, log);
    ngx_etcd_peer_group_init(&table->near, conf->method, log);
}


ngx_int_t
ngx_etcd_table_start(ngx_etcd_table_t *table, uint64_t until,
    uint64_t deadline)
{
    ngx_int_t  rc;

    rc = ngx_etcd_table_work(table, until);

    while (rc == NGX_BUSY && table->nmembers == 0 && table->reader.held
           && ngx_etcd_time_budget_now() < deadline)
    {
        rc = ngx_etcd_table_work(table, until);
    }

    return rc;
}


static void
ngx_etcd_table_wake(ngx_etcd_table_t *table)
{
    table = ngx_etcd_table_head(table);

    ngx_etcd_wait_queue_wake(&table->wait_queue);

    if (table->conn_queue != NULL) {
        ngx_etcd_wait_queue_wake(table->conn_queue);
    }
}


void
ngx_etcd_table_give_up(ngx_etcd_table_t *table)
{
    table->given_up = 1;

    /* without a limit of time: a leader's table is small */

    if (ngx_etcd_table_orphaned(table)) {
        (void) ngx_etcd_table_work(table, 0);
    }

    ngx_etcd_table_wake(table);
}


void
ngx_etcd_table_waiting(void *data, ngx_uint_t n)
{
    ngx_etcd_table_t *table = data;

    /* a set with another id is not this table's set any more */

    if (table->set->object.id == table->set_id && table->set->waiting != NULL) {
        ngx_etcd_gauge_set(table->set->waiting, ngx_etcd_table_waits(table));
    }
}


void
ngx_etcd_table_done(ngx_etcd_table_t *table)
{
    ngx_uint_t  n;

    ngx_etcd_event_stop(&table->notify);

    ngx_etcd_closing_done(&table->closing);

    ngx_etcd_event_stop(&table->wait_queue.wake);

    ngx_etcd_peer_group_done(&table->near);
    ngx_etcd_peer_group_done(&table->primary);
    ngx_etcd_peer_group_done(&table->backup);

    for (n = 0; n < table->nslots; n++) {
        if (table->slots[n] != NULL) {
            table->slots[n]->gone = 1;
            ngx_etcd_peer_unref(table->slots[n]);
        }
    }

    if (table->slots != NULL) {
        ngx_free(table->slots);
    }

    table->slots = NULL;
    table->nslots = 0;
}


ngx_int_t
ngx_etcd_table_sync(ngx_etcd_table_t *table)
{
    uint64_t   begun;
    ngx_int_t  rc;

    if (!ngx_etcd_table_stale(table)
        && !ngx_etcd_table_orphaned(table)
        && !table->unfinished)
    {
        /* a member may have been proven, which is not a change */

        if (ngx_etcd_table_head(table)->wait_queue.n != 0
            && ngx_etcd_table_ready(table))
        {
            ngx_etcd_table_wake(table);
        }

        return NGX_OK;
    }

    begun = ngx_etcd_time_budget_now();

    rc = ngx_etcd_table_work(table, begun + NGX_ETCD_TIME_BUDGET);

    ngx_etcd_zone_stalled(table->zone, ngx_etcd_time_budget_now() - begun);

    return rc;
}


static ngx_int_t
ngx_etcd_table_grow(ngx_etcd_table_t *table, ngx_uint_t n)
{
    ngx_uint_t         nslots;
    ngx_etcd_peer_t  **slots;

    nslots = ngx_max(table->nslots * 2, 16);
    nslots = ngx_max(nslots, n + 1);

    slots = ngx_etcd_alloc_grow(table->slots,
                                table->nslots * sizeof(ngx_etcd_peer_t *),
                                nslots * sizeof(ngx_etcd_peer_t *),
                                table->log);
    if (slots == NULL) {
        return NGX_ERROR;
    }

    table->slots = slots;
    table->nslots = nslots;

    return NGX_OK;
}


/*
 * Reserves memory for one change; a removal may need memory for deferred work
 * too.
 */

static ngx_int_t
ngx_etcd_table_reserve(ngx_etcd_table_t *table)
{
    return ((table->conf->spill == 0
             || ngx_etcd_peer_group_reserve(&table->near) == NGX_OK)
            && ngx_etcd_peer_group_reserve(&table->primary) == NGX_OK
            && ngx_etcd_peer_group_reserve(&table->backup) == NGX_OK)
           ? NGX_OK : NGX_ERROR;
}


static ngx_etcd_peer_group_t *
ngx_etcd_table_peer_group(ngx_etcd_table_t *table, ngx_etcd_peer_t *peer)
{
    if (ngx_etcd_table_backup(table, &peer->attr)) {
        return &table->backup;
    }

    return (peer->attr.near && table->conf->spill != 0) ? &table->near
                                                        : &table->primary;
}


static void
ngx_etcd_table_leave(ngx_etcd_table_t *table, ngx_etcd_peer_t *peer)
{
    if (ngx_queue_empty(&peer->users)) {
        return;
    }

    if (table->conf->closing.after != 0) {
        ngx_etcd_closing_leave(&table->closing, peer);

    } else {
        ngx_etcd_table_notify(table, &peer->users);
    }
}


static void
ngx_etcd_table_replace(ngx_etcd_table_t *table, ngx_uint_t n,
    ngx_etcd_peer_t *peer)
{
    ngx_uint_t               stays, drained;
    ngx_etcd_peer_t         *old;
    ngx_etcd_peer_group_t   *group;
    ngx_etcd_member_attr_t  *attr;

    old = table->slots[n];
    group = NULL;
    stays = 0;
    drained = 0;

    if (peer != NULL) {
        attr = &peer->attr;

        if (!attr->down && !attr->drain && !attr->backup
            && attr->priority < table->priority)
        {
            /* lower than that of all others, which must be moved */

            table->priority = attr->priority;
            table->unranked = table->nslots;
        }

        group = ngx_etcd_table_peer_group(table, peer);
    }

    table->slots[n] = peer;
    table->nmembers += (peer != NULL);
    table->nmembers -= (old != NULL);

    if (old != NULL) {

        if (peer != NULL && peer->uid == old->uid) {
            ngx_etcd_peer_inherit(peer, old);
            drained = old->attr.drain;

            stays = (peer->attr.weight == old->attr.weight
                     && group == old->group);
        }

        if (stays) {
            ngx_etcd_peer_group_replace(group, peer, old);

        } else {
            ngx_etcd_peer_group_remove(old->group, old);
        }

        if (old->sid != NULL) {
            ngx_etcd_treap_remove(&table->sids, &old->sid->node);
        }

        ngx_etcd_table_leave(table, old);

        old->gone = 1;
        ngx_etcd_peer_unref(old);
    }

    if (peer == NULL) {
        return;
    }

    if (table->conf->closing.after != 0) {
        ngx_etcd_closing_come(&table->closing, peer, drained);
    }

    if (peer->sid != NULL) {
        ngx_etcd_treap_insert(&table->sids, &peer->sid->node);
    }

    if (!stays) {
        ngx_etcd_peer_group_add(group, peer);
    }

    (void) ngx_etcd_health_check(group, peer, ngx_etcd_table_counts(table));
}


/* The caller holds the zone's mutex. */

static void
ngx_etcd_table_outcome(ngx_etcd_table_t *table, ngx_etcd_peer_t *peer)
{
    ngx_etcd_table_conf_t  *conf;

    conf = table->conf;

    peer->outcome = ngx_etcd_member_outcome_cell(table->zone, table->set,
                                                 peer->index);

    if (peer->outcome == NULL && !conf->uncounted) {
        conf->uncounted = 1;

        ngx_log_error(NGX_LOG_WARN, table->log, 0,
                      "etcd: upstream \"%V\": the zone is full, "
                      "\"outcomes=members\" does not count all members: "
                      "increase \"zone\"",
                      ngx_etcd_shown(conf->closing.upstream));
    }
}


/* The caller holds the zone's mutex. */

static ngx_int_t
ngx_etcd_table_refresh(void *data, ngx_uint_t n, ngx_etcd_slot_t *slot)
{
    ngx_etcd_table_t *table = data;

    ngx_uint_t               there;
    ngx_etcd_peer_t         *peer;
    ngx_etcd_member_pack_t   record;

    if (n >= table->nslots && ngx_etcd_table_grow(table, n) != NGX_OK) {
        return NGX_ERROR;
    }

    if (slot->entry != NULL) {
        ngx_etcd_member_pack_read(&record, ngx_etcd_entry_payload(slot->entry));
    }

    /* a host without an address is ignored */

    there = (slot->entry != NULL && !record.unresolved);

    if (!there && table->slots[n] == NULL) {
        return NGX_OK;
    }

    if (ngx_etcd_table_reserve(table) != NGX_OK) {
        return NGX_ERROR;
    }

    peer = NULL;

    if (there) {
        peer = ngx_etcd_peer_create(slot, &record, table->log);
        if (peer == NULL) {
            return NGX_ERROR;
        }

        peer->index = n;
        peer->cell = ngx_etcd_connection_count_cell(table->zone, table->set, n);

        if (table->conf->outcomes) {
            ngx_etcd_table_outcome(table, peer);
        }

        if (((table->primary.method->needs & NGX_ETCD_NEEDS_ORDER)
             && ngx_etcd_weighted_tree_reserve(peer, table->log) != NGX_OK)
            || (table->conf->sids
                && ngx_etcd_sid_create(peer, &record.route, table->log)
                   != NGX_OK))
        {
            ngx_etcd_peer_unref(peer);
            return NGX_ERROR;
        }
    }

    ngx_etcd_table_replace(table, n, peer);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_table_clear(ngx_etcd_table_t *table, uint64_t until)
{
    ngx_uint_t  n;

    for (n = 0; n < table->nslots && table->nmembers != 0; n++) {

        if (table->slots[n] == NULL) {
            continue;
        }

        if (ngx_etcd_table_reserve(table) != NGX_OK) {
            return NGX_ERROR;
        }

        ngx_etcd_table_replace(table, n, NULL);

        if (until != 0 && ngx_etcd_time_budget_now() >= until) {
            return NGX_AGAIN;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_table_read(ngx_etcd_table_t *table, uint64_t until)
{
    ngx_int_t  rc;

    if (ngx_etcd_table_orphaned(table)) {
        rc = NGX_DECLINED;

    } else if (ngx_etcd_table_stale(table)) {
        table->reader.handler = ngx_etcd_table_refresh;
        table->reader.data = table;

        rc = ngx_etcd_member_set_read(table->zone, table->set, table->set_id,
                                      &table->reader, until);

    } else {
        rc = NGX_OK;
    }

    /*
     * A newer configuration has removed the set: members stay as they were
     * last known, a leader is no longer known.
     */

    if (rc == NGX_DECLINED) {
        rc = table->conf->leader ? ngx_etcd_table_clear(table, until) : NGX_OK;
    }

    return rc;
}


/* Moves a peer to its peer group. */

static ngx_int_t
ngx_etcd_table_move(ngx_etcd_table_t *table, ngx_etcd_peer_t *peer)
{
    ngx_etcd_peer_group_t  *group;

    group = ngx_etcd_table_peer_group(table, peer);

    if (group == peer->group) {
        return NGX_OK;
    }

    if (ngx_etcd_table_reserve(table) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_etcd_peer_group_remove(peer->group, peer);
    ngx_etcd_peer_group_add(group, peer);

    (void) ngx_etcd_health_check(group, peer, ngx_etcd_table_counts(table));

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_table_reorder(ngx_etcd_table_t *table, uint64_t until)
{
    ngx_etcd_peer_t  *peer;

    while (table->unranked != 0) {
        peer = table->slots[table->unranked - 1];

        if (peer != NULL && ngx_etcd_table_move(table, peer) != NGX_OK) {
            return NGX_ERROR;
        }

        if (--table->unranked % NGX_ETCD_TABLE_PIECE == 0
            && until != 0 && ngx_etcd_time_budget_now() >= until)
        {
            return NGX_AGAIN;
        }
    }

    return NGX_OK;
}


/*
 * The peers with the lowest priority are near or primary, all others are
 * backup.
 * Nothing is moved while the lowest priority stays the same, which is always
 * so without priorities.  Otherwise peers are moved piece by piece; searching
 * for the lowest priority takes no longer than one piece.
 */

static ngx_int_t
ngx_etcd_table_rank(ngx_etcd_table_t *table, uint64_t until)
{
    ngx_int_t                rc;
    ngx_uint_t               i;
    ngx_etcd_member_attr_t  *attr;

    for ( ;; ) {
        rc = ngx_etcd_table_reorder(table, until);

        if (rc != NGX_OK
            || ngx_etcd_peer_group_tries(&table->near) != 0
            || ngx_etcd_peer_group_tries(&table->primary) != 0
            || table->priority == NGX_ETCD_MEMBER_MAX_PRIORITY)
        {
            return rc;
        }

        /*
         * All peers that may be picked are in backup here: the lowest priority
         * of them.  Each pass raises it, up to the maximum.
         */

        table->priority = NGX_ETCD_MEMBER_MAX_PRIORITY;

        for (i = 0; i < ngx_etcd_peer_group_tries(&table->backup); i++) {
            attr = &table->backup.peers[i]->attr;

            if (!attr->backup) {
                table->priority = ngx_min(table->priority, attr->priority);
            }
        }

        table->unranked = table->nslots;
    }
}


ngx_int_t
ngx_etcd_table_work(ngx_etcd_table_t *table, uint64_t until)
{
    ngx_int_t  rc;

    rc = ngx_etcd_table_read(table, until);

    if (rc == NGX_OK) {
        rc = ngx_etcd_table_rank(table, until);
    }

    if (rc == NGX_OK && ngx_etcd_table_ready(table)) {
        ngx_etcd_table_wake(table);
    }

    if (rc == NGX_OK) {
        rc = ngx_etcd_vnodes_run(&table->near.vnodes, until);
    }

    if (rc == NGX_OK) {
        rc = ngx_etcd_vnodes_run(&table->primary.vnodes, until);
    }

    if (rc == NGX_OK) {
        rc = ngx_etcd_vnodes_run(&table->backup.vnodes, until);
    }

    /* requests do not continue an incomplete update */

    table->unfinished = (rc != NGX_OK);

    return (rc == NGX_ERROR) ? NGX_BUSY : rc;
}


/*
 * The number of members, up to "most".  One that no check has found to work yet
 * does not count.
 */

static ngx_uint_t
ngx_etcd_table_count(ngx_etcd_table_t *table, ngx_etcd_peer_group_t *group,
    ngx_uint_t most)
{
    ngx_uint_t  i, n;

    if (!table->set->checks.mandatory) {
        return ngx_min(ngx_etcd_peer_group_tries(group), most);
    }

    n = 0;

    for (i = 0; i < ngx_etcd_peer_group_tries(group) && n < most; i++) {
        if (!(ngx_etcd_peer_verdict(group->peers[i])
              & NGX_ETCD_VERDICT_UNPROVEN))
        {
            n++;
        }
    }

    return n;
}


ngx_uint_t
ngx_etcd_table_has(ngx_etcd_table_t *table, ngx_uint_t more)
{
    ngx_uint_t        n;
    ngx_etcd_peer_t  *peer;

    peer = ngx_etcd_table_first(table);

    if (peer == NULL || (table->conf->sole && ngx_etcd_peer_failed(peer))) {
        return 0;
    }

    n = more + 1;

    n -= ngx_etcd_table_count(table, &table->near, n);
    n -= ngx_etcd_table_count(table, &table->primary, n);
    n -= ngx_etcd_table_count(table, &table->backup, n);

    return n == 0;
}


ngx_uint_t
ngx_etcd_table_any_has(ngx_etcd_table_t *table, ngx_uint_t more)
{
    while (!ngx_etcd_table_has(table, more)) {
        table = table->conf->next;

        if (table == NULL) {
            return 0;
        }
    }

    return 1;
}


ngx_etcd_peer_t *
ngx_etcd_table_first(ngx_etcd_table_t *table)
{
    ngx_etcd_peer_group_t  *group;

    group = (ngx_etcd_peer_group_tries(&table->near) != 0) ? &table->near
            : (ngx_etcd_peer_group_tries(&table->primary) != 0)
              ? &table->primary : &table->backup;

    if (ngx_etcd_peer_group_tries(group) == 0) {
        return NULL;
    }

    if (table->conf->max_stale != 0 && ngx_etcd_table_expired(table)) {
        return NULL;
    }

    return group->peers[0];
}


ngx_uint_t
ngx_etcd_table_set_expired(ngx_etcd_table_conf_t *conf,
    ngx_etcd_member_set_t *set)
{
    int64_t  staleness;

    staleness = ngx_etcd_member_set_staleness(set);

    if (staleness < 0) {
        return 1;
    }

    return staleness > (int64_t) conf->max_stale
           && !(conf->failsafe && ngx_etcd_member_set_confirmed(set));
}


ngx_uint_t
ngx_etcd_table_expired(ngx_etcd_table_t *table)
{
    return ngx_etcd_table_set_expired(table->conf, table->set);
}


void
ngx_etcd_table_tick(ngx_etcd_table_t *table)
{
    ngx_uint_t  n;

    if (!table->conf->leader) {
        return;
    }

    if (ngx_etcd_table_ready(table)) {
        ngx_etcd_wait_queue_wake(&table->wait_queue);
        return;
    }

    if (!table->conf->close
        || table->conf->max_stale == 0
        || !ngx_etcd_table_expired(table))
    {
        return;
    }

    for (n = 0; n < table->nslots; n++) {
        if (table->slots[n] != NULL) {
            ngx_etcd_table_leave(table, table->slots[n]);
        }
    }
}
