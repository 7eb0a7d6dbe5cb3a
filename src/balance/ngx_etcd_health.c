
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_health.h>


ngx_etcd_member_state_e
ngx_etcd_health_state(ngx_etcd_member_condition_t *member)
{
    ngx_etcd_member_attr_t  *attr;

    attr = member->attr;

    if (member->shadowed) {
        return NGX_ETCD_MEMBER_SHADOWED;
    }

    if (member->unresolved) {
        return NGX_ETCD_MEMBER_UNRESOLVED;
    }

    if (attr->down) {
        return NGX_ETCD_MEMBER_DOWN;
    }

    if (attr->drain) {
        return NGX_ETCD_MEMBER_DRAINED;
    }

    if (member->verdict & NGX_ETCD_VERDICT_UNPROVEN) {
        return NGX_ETCD_MEMBER_UNPROVEN;
    }

    if (member->verdict & NGX_ETCD_VERDICT_FAILED) {
        return NGX_ETCD_MEMBER_UNHEALTHY;
    }

    if (member->verdict & NGX_ETCD_VERDICT_EJECTED) {
        return NGX_ETCD_MEMBER_EJECTED;
    }

    if (member->held) {
        return NGX_ETCD_MEMBER_HELD;
    }

    if (ngx_etcd_peer_failing(attr, member->fails, member->idle)) {
        return NGX_ETCD_MEMBER_FAILING;
    }

    if (attr->max_conns != 0 && member->conns >= attr->max_conns) {
        return NGX_ETCD_MEMBER_BUSY;
    }

    return member->backup ? NGX_ETCD_MEMBER_BACKUP : NGX_ETCD_MEMBER_UP;
}


static ngx_uint_t
ngx_etcd_health_sound(ngx_etcd_peer_t *peer, ngx_uint_t counts)
{
    ngx_uint_t  verdict;

    if ((counts & NGX_ETCD_HEALTH_FAILURES) && ngx_etcd_peer_failed(peer)) {
        return 0;
    }

    if (!ngx_etcd_peer_judged(peer)) {
        return 1;
    }

    verdict = ngx_etcd_peer_verdict(peer);

    if (!(counts & NGX_ETCD_HEALTH_CHECKS)) {
        verdict &= ~NGX_ETCD_VERDICT_FAILED;
    }

    return verdict == 0;
}


static ngx_uint_t
ngx_etcd_health_able(ngx_etcd_peer_t *peer, ngx_uint_t counts)
{
    return ngx_etcd_health_sound(peer, counts)
           && (peer->attr.max_conns == 0
               || ngx_etcd_peer_conns(peer) < peer->attr.max_conns);
}


/* Weight lost by failures is regained by 1 per pick, as in nginx. */

static uint32_t
ngx_etcd_health_deficit(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer)
{
    uint32_t  picks;

    picks = group->picks - peer->deficit.since;

    peer->deficit.since = group->picks;
    peer->deficit.weight -= ngx_min(picks, peer->deficit.weight);

    return peer->deficit.weight;
}


ngx_uint_t
ngx_etcd_health_check(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer,
    ngx_uint_t counts)
{
    uint32_t           weight;
    ngx_etcd_region_e  region;

    weight = 0;

    if (peer->attr.down || peer->attr.drain) {
        region = NGX_ETCD_REGION_BARRED;

    } else if (!ngx_etcd_health_able(peer, counts)) {
        region = NGX_ETCD_REGION_PARKED;

    } else {
        weight = peer->attr.weight;

        if (peer->deficit.weight != 0) {
            weight -= ngx_etcd_health_deficit(group, peer);
        }

        weight = ngx_max(weight * ngx_etcd_health_level(peer), 1);

        region = (weight == peer->attr.weight * NGX_ETCD_PEER_UNIT)
                 ? NGX_ETCD_REGION_WHOLE : NGX_ETCD_REGION_LIGHT;
    }

    if (weight != peer->weight
        || ngx_etcd_peer_group_region(group, peer) != region)
    {
        ngx_etcd_peer_group_place(group, peer, region, weight);
    }

    return peer->weight != 0;
}


ngx_uint_t
ngx_etcd_health_serves(ngx_etcd_peer_t *peer, ngx_uint_t counts)
{
    return !peer->attr.down && ngx_etcd_health_able(peer, counts);
}


ngx_uint_t
ngx_etcd_health_level(ngx_etcd_peer_t *peer)
{
    int64_t  elapsed;

    if (peer->attr.slow_start == 0 || peer->slot->started == 0) {
        return NGX_ETCD_PEER_UNIT;
    }

    /* the clock of the worker that set "started" may be ahead */

    elapsed = (int64_t) (int32_t) (ngx_etcd_slot_now() - peer->slot->started)
              * NGX_ETCD_SLOT_MSEC;

    if (elapsed >= (int64_t) peer->attr.slow_start) {
        return NGX_ETCD_PEER_UNIT;
    }

    return 1 + ngx_max(elapsed, 0) * (NGX_ETCD_PEER_UNIT - 1)
               / (int64_t) peer->attr.slow_start;
}


ngx_uint_t
ngx_etcd_health_swept(ngx_etcd_peer_group_t *group, ngx_uint_t counts)
{
    ngx_etcd_peer_t  *peer;

    if (ngx_etcd_peer_group_unwell(group) != 0) {
        ngx_etcd_health_sweep(group, counts);
    }

    /* the last pick may have filled the first peer, which is parked then */

    while (ngx_etcd_peer_group_usable(group) != 0) {
        peer = group->peers[0];

        if (ngx_etcd_health_usable(group, peer, counts)) {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_etcd_health_busy(ngx_etcd_peer_group_t *group, ngx_uint_t counts)
{
    ngx_uint_t  i;

    for (i = 0; i < ngx_etcd_peer_group_tries(group); i++) {
        if (ngx_etcd_health_sound(group->peers[i], counts)) {
            return 1;
        }
    }

    return 0;
}


void
ngx_etcd_health_sweep(ngx_etcd_peer_group_t *group, ngx_uint_t counts)
{
    ngx_uint_t        i, n;
    ngx_msec_t        elapsed;
    ngx_etcd_peer_t  *peer;

    n = ngx_etcd_peer_group_unwell(group);
    elapsed = ngx_current_msec - group->swept;

    if (n > NGX_ETCD_HEALTH_FEW
        && elapsed < NGX_ETCD_HEALTH_SWEEP
        && (ngx_etcd_peer_group_usable(group) != 0 || elapsed == 0))
    {
        return;
    }

    group->swept = ngx_current_msec;

    /*
     * A recovering peer swaps places with a peer that has not been checked:
     * no peer is missed, some are checked twice.
     */

    i = group->ends[NGX_ETCD_REGION_PARKED];

    for (n *= 2; n > 0 && i > group->ends[NGX_ETCD_REGION_WHOLE]; n--) {
        peer = group->peers[i - 1];

        (void) ngx_etcd_health_check(group, peer, counts);

        if (group->peers[i - 1] == peer) {
            i--;
        }
    }
}


ngx_uint_t
ngx_etcd_health_failed(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer,
    ngx_uint_t counts)
{
    uint32_t    now, lost;
    ngx_uint_t  fails;

    fails = ngx_etcd_counter_add(&peer->slot->fails, peer->uid, 1);

    if (fails == 0) {

        /* the member was removed */

        return 0;
    }

    now = (uint32_t) ngx_time();

    peer->slot->accessed = now;
    peer->slot->checked = now;

    /* failures of a sole member are counted until it works, for the status */

    if (!(counts & NGX_ETCD_HEALTH_FAILURES)) {
        return 0;
    }

    if (peer->attr.max_fails != 0) {
        lost = peer->attr.weight / peer->attr.max_fails;

        (void) ngx_etcd_health_deficit(group, peer);

        peer->deficit.weight = ngx_min(peer->deficit.weight + lost,
                                       peer->attr.weight);
    }

    return fails;
}


void
ngx_etcd_health_recovered(ngx_etcd_peer_t *peer, ngx_uint_t counts)
{
    ngx_uint_t        fails;
    ngx_etcd_slot_t  *slot;

    slot = peer->slot;

    /* the peer has not been tried since its last failure */

    if (slot->accessed >= slot->checked
        && (counts & NGX_ETCD_HEALTH_FAILURES))
    {
        return;
    }

    fails = ngx_etcd_peer_fails(peer);

    if (peer->attr.max_fails && fails >= peer->attr.max_fails) {
        slot->started = ngx_etcd_slot_now();
    }

    ngx_etcd_counter_set(&slot->fails, peer->uid, 0);
}
