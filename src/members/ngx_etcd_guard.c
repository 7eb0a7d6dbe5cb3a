
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_guard.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_str.h>


static void
ngx_etcd_guard_wake(ngx_etcd_guard_t *guard)
{
    if (!guard->tick.timer_set) {
        ngx_add_timer(&guard->tick, NGX_ETCD_GUARD_TICK);
    }
}


/* Thousands of sets may lose their keys together. */

static ngx_uint_t
ngx_etcd_guard_level(ngx_etcd_guard_t *guard)
{
    if (guard->told_at == NULL) {
        return NGX_LOG_WARN;
    }

    if (ngx_time() - *guard->told_at < NGX_ETCD_GUARD_QUIET) {
        return NGX_LOG_INFO;
    }

    *guard->told_at = ngx_time();

    return NGX_LOG_WARN;
}


/* One line for all keys that are held at a time. */

static void
ngx_etcd_guard_tell(ngx_etcd_guard_t *guard)
{
    char                   *why;
    ngx_str_t              *name, *prefix;
    ngx_uint_t              level;
    ngx_etcd_guard_conf_t  *conf;

    static char  *causes[] = {
        "too large a share to be believed",
        "all that there were",
        "etcd has another history"
    };

    if (!guard->told) {
        conf = guard->conf;
        prefix = guard->prefix;

        name = guard->name;
        why = causes[guard->cause];
        level = ngx_etcd_guard_level(guard);

        ngx_log_error(level, guard->log, 0,
                      "etcd: upstream \"%V\": %ui keys of prefix \"%V\" are "
                      "gone, %s: their members %s held for %Ms; the key "
                      "\"" NGX_ETCD_GUARD_RELEASE "\" below the prefix "
                      "releases them",
                      name, guard->untold, ngx_etcd_shown(prefix), why,
                      guard->index->nheld ? "are" : "would be",
                      conf->hold / 1000);
    }

    guard->told = 1;
    guard->untold = 0;
}


static void
ngx_etcd_guard_until(ngx_etcd_guard_t *guard, uint64_t until)
{
    if (guard->until != until) {
        guard->until = until;
        guard->unstored = 1;
    }
}


/*
 * The time ends with the first proof after it that etcd answers.  If etcd was
 * silent at the end, services get a while to register again.
 */

static ngx_uint_t
ngx_etcd_guard_over(ngx_etcd_guard_t *guard)
{
    int64_t     silent;
    uint64_t    now, past;
    ngx_msec_t  hold;

    now = ngx_etcd_clock();
    hold = guard->conf->hold;

    /* the index was made again before the release was published */

    if (guard->until == 0) {
        return 1;
    }

    /* a former configuration may have had a longer time */

    if (guard->until > now) {
        ngx_etcd_guard_until(guard, ngx_min(guard->until, now + hold));
        return 0;
    }

    past = now - guard->until;
    silent = ngx_etcd_zone_staleness(guard->zone);

    if (silent < 0 || silent > (int64_t) past) {
        ngx_etcd_proof_ask(&guard->mirror->watch.stream->proof);
        return 0;
    }

    if (past - silent > NGX_ETCD_GUARD_SILENT) {
        ngx_etcd_guard_until(guard, now + ngx_min(hold, NGX_ETCD_GUARD_CALM));
        return 0;
    }

    return 1;
}


static void
ngx_etcd_guard_release_all(ngx_etcd_guard_t *guard, char *why)
{
    ngx_uint_t       level, nkeys, nmembers;
    ngx_queue_t     *held;
    ngx_etcd_key_t  *key;
    ngx_etcd_reg_t  *reg;

    held = &guard->index->held;
    level = ngx_etcd_guard_level(guard);
    nkeys = guard->index->nheld;
    nmembers = 0;

    ngx_etcd_guard_until(guard, 0);

    while (!ngx_queue_empty(held)) {
        key = ngx_etcd_index_key_at(ngx_queue_head(held));

        for (reg = key->regs; reg != NULL; reg = reg->next) {
            nmembers++;
        }

        ngx_etcd_index_release(guard->index, key);
    }

    ngx_log_error(level, guard->log, 0,
                  "etcd: upstream \"%V\": %ui keys of prefix \"%V\" are not "
                  "held any more: %s (%ui members)", guard->name, nkeys,
                  ngx_etcd_shown(guard->prefix), why, nmembers);

    guard->released(guard->data);
}


/* The caller holds the mutex. */

static ngx_uint_t
ngx_etcd_guard_member_fails(ngx_etcd_guard_t *guard, ngx_etcd_reg_t *reg)
{
    ngx_etcd_slot_t         *slot;
    ngx_etcd_entry_t        *entry;
    ngx_etcd_member_pack_t   record;

    slot = ngx_etcd_member_set_slot(guard->set, reg->slot);

    if (!guard->set->checks.panic
        && (ngx_etcd_counter_get(&slot->verdict, slot->uid)
            & NGX_ETCD_VERDICT_FAILED))
    {
        return 1;
    }

    entry = ngx_etcd_zone_at(guard->zone, reg->entry);
    ngx_etcd_member_pack_read(&record, ngx_etcd_entry_payload(entry));

    return record.attr.max_fails != 0
           && ngx_etcd_counter_get(&slot->fails, slot->uid)
              >= record.attr.max_fails;
}


/* Returns 1 if each member of the key fails. */

static ngx_uint_t
ngx_etcd_guard_fails(ngx_etcd_guard_t *guard, ngx_etcd_key_t *key)
{
    ngx_uint_t       fails;
    ngx_etcd_reg_t  *reg;

    if (ngx_etcd_zone_lock_owned(guard->zone, 0) != NGX_OK) {
        return 0;
    }

    fails = 1;

    for (reg = key->regs; reg != NULL && fails; reg = reg->next) {
        fails = ngx_etcd_guard_member_fails(guard, reg);
    }

    ngx_etcd_zone_unlock(guard->zone);

    return fails;
}


/*
 * Releases held keys whose members fail; returns their number.  If all fail,
 * the cause is another one, and they stay.
 */

static ngx_uint_t
ngx_etcd_guard_failed(ngx_etcd_guard_t *guard)
{
    ngx_uint_t         i, n, failed;
    ngx_queue_t       *q, *held;
    ngx_etcd_key_t    *key;
    ngx_etcd_index_t  *index;

    index = guard->index;
    held = &index->held;
    n = ngx_min(index->nheld, NGX_ETCD_GUARD_PIECE);
    failed = 0;

    /* keys that fail go to the head, the others to the tail */

    for (i = 0, q = ngx_queue_head(held);
         i < n && q != ngx_queue_sentinel(held);
         i++)
    {
        key = ngx_etcd_index_key_at(q);
        q = ngx_queue_next(q);

        ngx_queue_remove(&key->entry.queue);

        if (ngx_etcd_guard_fails(guard, key)) {
            ngx_queue_insert_head(held, &key->entry.queue);
            failed++;

        } else {
            ngx_queue_insert_tail(held, &key->entry.queue);
        }
    }

    if (failed == i && index->live == 0) {
        return 0;
    }

    for (i = 0; i < failed; i++) {
        key = ngx_etcd_index_key_at(ngx_queue_head(held));

        ngx_log_error(NGX_LOG_NOTICE, guard->log, 0,
                      "etcd: upstream \"%V\": key \"%V\" is not held any "
                      "more: its members fail", guard->name,
                      ngx_etcd_shown(&key->entry.key));

        ngx_etcd_index_release(index, key);
    }

    return failed;
}


static void
ngx_etcd_guard_tick(ngx_event_t *ev)
{
    ngx_etcd_guard_t  *guard;

    guard = ev->data;

    /* the index is about to be made again */

    if (!guard->index->complete) {
        ngx_etcd_guard_wake(guard);
        return;
    }

    if (guard->untold) {
        ngx_etcd_guard_tell(guard);
    }

    if (guard->spared != 0 && ngx_etcd_clock() >= guard->spared_until) {
        guard->spared = 0;
    }

    if (guard->index->nheld == 0) {
        ngx_etcd_guard_until(guard, 0);

    } else if (ngx_etcd_guard_over(guard)) {
        ngx_etcd_guard_release_all(guard, "the time to hold them is over");

    } else if (ngx_etcd_guard_failed(guard)) {
        guard->released(guard->data);
    }

    if (guard->index->nheld + guard->spared == 0) {
        guard->told = 0;
    }

    if (ngx_etcd_guard_store(guard) != NGX_OK
        || guard->index->nheld + guard->spared != 0)
    {
        ngx_etcd_guard_wake(guard);
    }
}


void
ngx_etcd_guard_init(ngx_etcd_guard_t *guard)
{
    ngx_etcd_event_init_timer(&guard->tick, ngx_etcd_guard_tick, guard,
                              guard->log);

    guard->window.turned = ngx_current_msec;
}


/* The reason holds for all keys that are gone until guard_passed(). */

static void
ngx_etcd_guard_judge(ngx_etcd_guard_t *guard)
{
    if (guard->foreign) {
        guard->reason = NGX_ETCD_GUARD_HISTORY;

    } else if (guard->index->live == 0
               && guard->reason == NGX_ETCD_GUARD_SHARE)
    {
        guard->reason = NGX_ETCD_GUARD_EMPTY;
    }

    guard->listed = 0;
    guard->foreign = 0;
}


/*
 * Begins as many new parts of the window as have passed.  Nothing has changed
 * since the last guard_passed(): its number is that of all of them.
 */

static void
ngx_etcd_guard_turn(ngx_etcd_guard_t *guard)
{
    ngx_uint_t                i, n;
    ngx_msec_t                part, past;
    ngx_etcd_guard_window_t  *window;

    window = &guard->window;
    part = ngx_max(guard->conf->window / NGX_ETCD_GUARD_BUCKETS, 1);
    past = ngx_current_msec - window->turned;

    if (past < part) {
        return;
    }

    window->turned += past / part * part;

    n = ngx_min(past / part, NGX_ETCD_GUARD_BUCKETS + 1);

    ngx_memmove(&window->most[n], window->most,
                (NGX_ETCD_GUARD_BUCKETS + 1 - n) * sizeof(uint32_t));

    for (i = 0; i < n; i++) {
        window->most[i] = window->registered;
    }
}


static void
ngx_etcd_guard_count(ngx_etcd_guard_t *guard)
{
    if (guard->untold++ == 0) {
        guard->cause = guard->reason;
    }

    ngx_etcd_guard_wake(guard);
}


ngx_uint_t
ngx_etcd_guard_holds(ngx_etcd_guard_t *guard, ngx_etcd_key_t *key)
{
    ngx_uint_t         i, most;
    ngx_etcd_index_t  *index;

    if (guard->conf->hold == 0 || key->freed) {
        return 0;
    }

    /* the key was held before its members changed, or by a former agent */

    if (key->held || key->regs->gone == NGX_ETCD_ENTRY_HELD) {
        ngx_etcd_guard_wake(guard);
        return 1;
    }

    if (guard->listed) {
        ngx_etcd_guard_judge(guard);
    }

    if (guard->reason == NGX_ETCD_GUARD_SHARE) {
        index = guard->index;
        most = 0;

        ngx_etcd_guard_turn(guard);

        for (i = 0; i <= NGX_ETCD_GUARD_BUCKETS; i++) {
            most = ngx_max(most, guard->window.most[i]);
        }

        /* the number of keys that have to stay is rounded up */

        if (index->live + index->nheld + guard->spared
            >= (most * guard->conf->keep + 99) / 100)
        {
            return 0;
        }

        if (guard->conf->dry) {
            guard->spared_until = ngx_etcd_clock() + guard->conf->hold;
            guard->spared++;
            guard->dry_holds++;
            guard->unstored = 1;
            ngx_etcd_guard_count(guard);

            return 0;
        }
    }

    ngx_etcd_guard_until(guard, ngx_etcd_clock() + guard->conf->hold);
    guard->holds++;
    guard->unstored = 1;
    ngx_etcd_guard_count(guard);

    return 1;
}


ngx_int_t
ngx_etcd_guard_store(ngx_etcd_guard_t *guard)
{
    ngx_int_t  rc;

    if (!guard->unstored) {
        return NGX_OK;
    }

    rc = ngx_etcd_zone_lock_owned(guard->zone, 0);

    if (rc == NGX_OK) {
        guard->set->held_until = guard->until;
        guard->set->counts.holds += guard->holds;
        guard->set->counts.dry_holds += guard->dry_holds;

        ngx_etcd_zone_unlock(guard->zone);

        guard->holds = 0;
        guard->dry_holds = 0;
        guard->unstored = 0;
    }

    return rc;
}


static void
ngx_etcd_guard_registered(ngx_etcd_guard_t *guard)
{
    ngx_etcd_guard_window_t  *window;

    window = &guard->window;

    ngx_etcd_guard_turn(guard);

    window->registered = guard->index->live;
    window->most[0] = ngx_max(window->most[0], window->registered);
}


void
ngx_etcd_guard_opened(ngx_etcd_guard_t *guard)
{
    /* a value that was not stored is newer */

    if (!guard->unstored) {
        guard->until = guard->set->held_until;
    }

    ngx_etcd_guard_registered(guard);
}


void
ngx_etcd_guard_passed(ngx_etcd_guard_t *guard)
{
    ngx_etcd_guard_registered(guard);

    if (guard->listed) {
        ngx_etcd_guard_judge(guard);
    }

    guard->reason = NGX_ETCD_GUARD_SHARE;

    /* all were registered again before this process became the agent */

    if (guard->index->nheld == 0) {
        ngx_etcd_guard_until(guard, 0);
    }
}


ngx_uint_t
ngx_etcd_guard_is_release(ngx_etcd_guard_t *guard, ngx_str_t *key)
{
    size_t      len;
    ngx_str_t  *prefix;

    prefix = guard->prefix;
    len = sizeof(NGX_ETCD_GUARD_RELEASE) - 1;

    if (guard->conf->hold == 0
        || key->len < len
        || ngx_memcmp(key->data + key->len - len, NGX_ETCD_GUARD_RELEASE, len)
           != 0)
    {
        return 0;
    }

    len = key->len - len;

    if (prefix->len == 0 || prefix->data[prefix->len - 1] != '/') {

        if (len == 0 || key->data[len - 1] != '/') {
            return 0;
        }

        len--;
    }

    return len == prefix->len
           && ngx_memcmp(key->data, prefix->data, len) == 0;
}


void
ngx_etcd_guard_release(ngx_etcd_guard_t *guard)
{
    guard->spared = 0;

    if (guard->index->nheld != 0) {
        ngx_etcd_guard_release_all(guard, "the key \"" NGX_ETCD_GUARD_RELEASE
                                          "\" was written");
    }
}
