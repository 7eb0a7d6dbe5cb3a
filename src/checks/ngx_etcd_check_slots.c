
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_alloc.h>
#include <ngx_etcd_check_probe.h>
#include <ngx_etcd_check_slots.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_counter.h>


static ngx_int_t
ngx_etcd_check_slots_grow(ngx_etcd_check_slots_t *slots, ngx_uint_t nslots)
{
    ngx_etcd_check_slot_t  *slot;

    slot = ngx_etcd_alloc_grow(slots->slot,
                               slots->nslots * sizeof(ngx_etcd_check_slot_t),
                               nslots * sizeof(ngx_etcd_check_slot_t),
                               slots->log);
    if (slot == NULL) {
        return NGX_ERROR;
    }

    slots->slot = slot;
    slots->nslots = nslots;

    return NGX_OK;
}


/* Without notes there are verdicts, and nothing to show why. */

static void
ngx_etcd_check_slots_annotate(ngx_etcd_check_slots_t *slots)
{
    ngx_int_t  rc;

    rc = ngx_etcd_member_set_annotate(slots->conf->zone, slots->conf->set);

    slots->noted = (rc != NGX_BUSY);

    if (rc != NGX_ERROR) {
        slots->full = 0;

    } else if (!slots->full) {
        slots->full = 1;

        ngx_log_error(NGX_LOG_ERR, slots->log, 0,
                      "etcd: upstream \"%V\": no room for results of checks: "
                      "the zone is full, increase \"zone\" in \"etcd\"",
                      &slots->conf->name);
    }
}


static void
ngx_etcd_check_slots_forget(ngx_etcd_check_slots_t *slots,
    ngx_etcd_check_slot_t *slot)
{
    if (slot->uid != 0) {
        slots->nmembers--;
        slots->hash -= slot->hash;
        slots->nfresh -= slot->fresh;
        slots->ncounted -= slot->counted;
        slots->nfailed -= (slot->counted & slot->failed);
    }

    ngx_memzero(slot, sizeof(ngx_etcd_check_slot_t));
}


static void
ngx_etcd_check_slots_add(ngx_etcd_check_slots_t *slots,
    ngx_etcd_check_slot_t *slot, ngx_uint_t drains, ngx_uint_t verdict)
{
    ngx_uint_t  failed, counted;

    failed = ((verdict & NGX_ETCD_VERDICT_FAILED) != 0);
    counted = !drains && (failed || !(verdict & NGX_ETCD_VERDICT_UNPROVEN));

    slots->ncounted += counted;
    slots->ncounted -= slot->counted;
    slots->nfailed += (counted & failed);
    slots->nfailed -= (slot->counted & slot->failed);

    slot->counted = counted;
    slot->failed = failed;
}


static void
ngx_etcd_check_slots_look(ngx_etcd_check_slots_t *slots, ngx_uint_t n)
{
    ngx_uint_t               drains, verdict;
    ngx_etcd_note_t         *note;
    ngx_etcd_slot_t         *member;
    ngx_etcd_check_slot_t   *slot;
    ngx_etcd_member_pack_t   record;

    slot = &slots->slot[n];
    member = ngx_etcd_member_set_slot(slots->conf->set, n);

    if (!ngx_etcd_check_probe_wanted(member, &drains)) {
        ngx_etcd_check_slots_forget(slots, slot);
        return;
    }

    verdict = ngx_etcd_counter_get(&member->verdict, member->uid);

    if (slot->uid != member->uid) {
        ngx_etcd_check_slots_forget(slots, slot);

        note = ngx_etcd_member_set_own_note(slots->conf->set, n);

        ngx_etcd_member_pack_read(&record,
                                  ngx_etcd_entry_payload(member->entry));

        slot->uid = member->uid;
        slot->fresh = (note == NULL || note->checks == 0);
        slot->judged = !slot->fresh && !(verdict & NGX_ETCD_VERDICT_UNPROVEN);
        slot->hash = ngx_crc32_long(record.name.data, record.name.len);

        slots->nmembers++;
        slots->hash += slot->hash;
        slots->nfresh += slot->fresh;
    }

    ngx_etcd_check_slots_add(slots, slot, drains, verdict);
}


/* Looks at the slots in the ring, unless all begin anew.  Under the mutex. */

static void
ngx_etcd_check_slots_look_changed(ngx_etcd_check_slots_t *slots, ngx_uint_t all)
{
    ngx_uint_t              n;
    ngx_atomic_uint_t       from, to;
    ngx_etcd_member_set_t  *set;

    set = slots->conf->set;
    from = slots->generation;
    to = set->generation;

    if (all || !ngx_etcd_member_set_remembers(set, from)) {
        slots->left = slots->nslots;
        from = to;
    }

    while (from != to) {
        n = ngx_etcd_member_set_changed(set, ++from);

        if (n < slots->nslots) {
            ngx_etcd_check_slots_look(slots, n);
        }
    }

    slots->generation = to;
}


static ngx_uint_t
ngx_etcd_check_slots_piece(ngx_etcd_zone_t *zone, void *data)
{
    ngx_etcd_check_slots_t *slots = data;

    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_MEMBER_SET_PIECE && slots->left != 0; i++) {

        if (slots->look >= slots->nslots) {
            slots->look = 0;
        }

        ngx_etcd_check_slots_look(slots, slots->look++);
        slots->left--;
    }

    return slots->left != 0;
}


ngx_int_t
ngx_etcd_check_slots_update(ngx_etcd_check_slots_t *slots)
{
    ngx_int_t               rc;
    ngx_uint_t              all;
    ngx_etcd_member_set_t  *set;

    set = slots->conf->set;
    all = (slots->slot == NULL);

    if (slots->generation == set->generation
        && slots->nslots == set->nslots
        && slots->noted
        && slots->left == 0)
    {
        return NGX_OK;
    }

    if (slots->nslots < set->nslots) {
        if (ngx_etcd_check_slots_grow(slots, set->nslots) != NGX_OK) {
            return NGX_ERROR;
        }

        slots->noted = 0;
    }

    if (!slots->noted) {
        ngx_etcd_check_slots_annotate(slots);
    }

    rc = ngx_etcd_zone_lock_owned(slots->conf->zone, 0);
    if (rc != NGX_OK) {
        return rc;
    }

    ngx_etcd_check_slots_look_changed(slots, all);

    ngx_etcd_zone_unlock(slots->conf->zone);

    if (slots->left == 0) {
        return NGX_OK;
    }

    /* some slots: if all begin anew, this goes on around */

    rc = ngx_etcd_zone_work(slots->conf->zone, 0, ngx_etcd_check_slots_piece,
                            slots,
                            ngx_etcd_time_budget_now() + NGX_ETCD_TIME_BUDGET);

    return (rc == NGX_AGAIN) ? NGX_OK : rc;
}


ngx_uint_t
ngx_etcd_check_slots_changed(ngx_etcd_check_slots_t *slots)
{
    return slots->generation != slots->conf->set->generation
           || slots->nslots != slots->conf->set->nslots;
}


/* the pieces of a bit */

static void
ngx_etcd_check_slots_suspect(ngx_etcd_check_slots_t *slots, ngx_uint_t piece,
    void (*handler)(void *data, ngx_uint_t n), void *data)
{
    ngx_uint_t  i, n;

    for ( /* void */ ;
         piece * NGX_ETCD_MEMBER_SET_PIECE < slots->nslots;
         piece += 64)
    {
        if (ngx_etcd_zone_lock_owned(slots->conf->zone, 0) != NGX_OK) {
            return;
        }

        for (i = 0; i < NGX_ETCD_MEMBER_SET_PIECE; i++) {
            n = piece * NGX_ETCD_MEMBER_SET_PIECE + i;

            if (n < slots->nslots
                && ngx_etcd_member_set_suspected(slots->conf->set, n)
                && slots->slot[n].uid != 0)
            {
                handler(data, n);
            }
        }

        ngx_etcd_zone_unlock(slots->conf->zone);
    }
}


ngx_uint_t
ngx_etcd_check_slots_suspects(ngx_etcd_check_slots_t *slots,
    void (*handler)(void *data, ngx_uint_t n), void *data)
{
    uint64_t    pieces, until;
    ngx_uint_t  n;

    pieces = ngx_etcd_member_set_suspects(slots->conf->set);
    until = ngx_etcd_time_budget_now() + NGX_ETCD_TIME_BUDGET;

    for (n = 0; pieces != 0; n++) {

        if (!(pieces >> n & 1)) {
            continue;
        }

        if (ngx_etcd_time_budget_now() >= until) {
            (void) __atomic_fetch_or(&slots->conf->set->checks.suspects, pieces,
                                     __ATOMIC_RELAXED);
            return 0;
        }

        pieces &= ~((uint64_t) 1 << n);

        ngx_etcd_check_slots_suspect(slots, n, handler, data);
    }

    return 1;
}


void
ngx_etcd_check_slots_renew(ngx_etcd_check_slots_t *slots, ngx_uint_t n)
{
    ngx_etcd_check_slot_t  *slot;

    slot = &slots->slot[n];

    slots->nfresh += !slot->fresh;
    slot->fresh = 1;
}


void
ngx_etcd_check_slots_count(ngx_etcd_check_slots_t *slots, ngx_uint_t n,
    ngx_uint_t verdict)
{
    ngx_uint_t        drains;
    ngx_etcd_slot_t  *member;

    member = ngx_etcd_member_set_slot(slots->conf->set, n);

    (void) ngx_etcd_check_probe_wanted(member, &drains);

    ngx_etcd_check_slots_add(slots, &slots->slot[n], drains, verdict);
}
