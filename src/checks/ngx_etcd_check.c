
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_check.h>
#include <ngx_etcd_check_probe.h>
#include <ngx_etcd_check_result.h>
#include <ngx_etcd_check_share.h>
#include <ngx_etcd_check_slots.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_str.h>


/* A member that is on the way to another state. */

typedef struct {
    ngx_queue_t                 queue;
    ngx_msec_t                  due;
    uint32_t                    slot;
    uint32_t                    uid;
} ngx_etcd_check_again_t;


typedef struct {
    ngx_etcd_service_t         *service;
    ngx_etcd_check_conf_t      *conf;
    ngx_etcd_member_set_t      *set;
    ngx_log_t                  *log;
    ngx_log_t                   quiet;        /* for connections: there are
                                                 many */

    ngx_event_t                 tick;
    ngx_etcd_check_schedule_t   schedule;
    ngx_uint_t                  next;         /* slot of the next turn */
    ngx_queue_t                 probes;
    ngx_queue_t                 again;        /* in the order of time */
    ngx_etcd_check_slots_t      slots;
    ngx_etcd_check_observer_t   observer;     /* of checks that are shared */
} ngx_etcd_check_t;


/* The numbers are known when all slots were looked at. */

static void
ngx_etcd_check_counted(ngx_etcd_check_t *check)
{
    ngx_etcd_check_slots_t  *slots;

    slots = &check->slots;

    if (slots->left == 0 && !ngx_etcd_check_slots_changed(slots)) {
        ngx_etcd_check_panic(slots->conf, check->conf->panic, slots->ncounted,
                             slots->nfailed, check->log);
    }
}


/* The values of ngx_etcd_check_slots_update(). */

static ngx_int_t
ngx_etcd_check_update(ngx_etcd_check_t *check)
{
    ngx_int_t  rc;

    rc = ngx_etcd_check_slots_update(&check->slots);

    if (rc == NGX_OK) {
        ngx_etcd_check_counted(check);
    }

    return rc;
}


/* Most connections of the worker are for requests. */

static ngx_uint_t
ngx_etcd_check_room(ngx_etcd_check_t *check)
{
    return check->conf->running < ngx_min(NGX_ETCD_CHECK_PROBES,
                                          ngx_cycle->connection_n / 4 + 1);
}


static void
ngx_etcd_check_note(ngx_etcd_check_t *check, ngx_etcd_check_probe_t *probe,
    ngx_uint_t ok)
{
    ngx_etcd_note_t        *note;
    ngx_etcd_member_set_t  *set;

    set = check->set;

    (void) __atomic_fetch_add(&set->checks.done, 1, __ATOMIC_RELAXED);

    if (!ok) {
        (void) __atomic_fetch_add(&set->checks.failed, 1, __ATOMIC_RELAXED);
    }

    note = ngx_etcd_member_set_own_note(set, probe->slot);
    if (note == NULL) {
        return;
    }

    if (note->result == NGX_ETCD_CHECK_NONE
        || (note->result == NGX_ETCD_CHECK_OK) != ok)
    {
        note->since = (uint32_t) ngx_time();
        note->row = 0;
    }

    note->result = probe->result;
    note->status = (uint16_t) probe->status;
    note->took = probe->took;
    note->row++;
    note->checks++;
}


static void
ngx_etcd_check_verdict(ngx_etcd_check_t *check, ngx_uint_t n, ngx_uint_t old,
    ngx_uint_t verdict)
{
    ngx_etcd_slot_t  *member;

    member = ngx_etcd_member_set_slot(check->set, n);

    /* before the verdict: a worker may pick the member right after it */

    if ((old & ~verdict)
        && (member->started != 0 || (old & NGX_ETCD_VERDICT_FAILED)))
    {
        member->started = ngx_etcd_slot_now();
    }

    (void) ngx_etcd_counter_bits(&member->verdict, check->slots.slot[n].uid,
                                 verdict, old & ~verdict);

    ngx_etcd_check_slots_count(&check->slots, n, verdict);

    ngx_etcd_check_share_changed(&check->observer);
}


static void
ngx_etcd_check_passed(ngx_etcd_check_t *check, ngx_etcd_check_probe_t *probe,
    ngx_uint_t old)
{
    if (old & NGX_ETCD_VERDICT_FAILED) {
        ngx_log_error(NGX_LOG_NOTICE, check->log, 0,
                      "etcd: upstream \"%V\": the check of member %V succeeds "
                      "again", &check->service->conf->name,
                      ngx_etcd_shown(&probe->name));
    }

    if (old & NGX_ETCD_VERDICT_UNPROVEN) {
        ngx_log_error(NGX_LOG_INFO, check->log, 0,
                      "etcd: upstream \"%V\": the first check of member %V "
                      "has succeeded", &check->service->conf->name,
                      ngx_etcd_shown(&probe->name));

        /* requests that wait for a member look again */

        check->service->diff.batch.changed = 1;
        ngx_etcd_service_post(check->service);
    }
}


/* The next tick comes in so many ms, or earlier. */

static void
ngx_etcd_check_delay(ngx_etcd_check_t *check, ngx_msec_t wait)
{
    ngx_event_t  *tick;

    tick = &check->tick;

    if (tick->timer_set
        && (ngx_msec_int_t) (tick->timer.key - ngx_current_msec)
           <= (ngx_msec_int_t) wait)
    {
        return;
    }

    ngx_etcd_event_move(tick, wait);
}


/*
 * The delay is 0, or that of all others.  Without memory the member is checked
 * at its turn.
 */

static void
ngx_etcd_check_again(ngx_etcd_check_t *check, ngx_uint_t n, ngx_msec_t delay)
{
    ngx_etcd_check_slot_t   *slot;
    ngx_etcd_check_again_t  *again;

    slot = &check->slots.slot[n];

    if (slot->again) {
        return;
    }

    again = ngx_alloc(sizeof(ngx_etcd_check_again_t), check->log);
    if (again == NULL) {
        return;
    }

    again->slot = n;
    again->uid = slot->uid;
    again->due = ngx_current_msec + delay;

    slot->again = 1;

    if (delay == 0) {
        ngx_queue_insert_head(&check->again, &again->queue);

    } else {
        ngx_queue_insert_tail(&check->again, &again->queue);
    }

    ngx_etcd_check_delay(check, delay);
}


/* Without the mutex the result does not count: the member has another turn. */

static void
ngx_etcd_check_judge(ngx_etcd_check_t *check, ngx_etcd_check_probe_t *probe,
    ngx_str_t *text)
{
    u_char                  buf[NGX_ETCD_CHECK_RESULT_TEXT];
    ngx_str_t               reason;
    ngx_uint_t              ok, old, verdict;
    ngx_etcd_slot_t        *member;
    ngx_etcd_check_slot_t  *slot;

    if (ngx_etcd_zone_lock_owned(check->slots.conf->zone, 0) != NGX_OK) {
        return;
    }

    slot = &check->slots.slot[probe->slot];
    member = ngx_etcd_member_set_slot(check->set, probe->slot);

    ok = (probe->result == NGX_ETCD_CHECK_OK);

    ngx_etcd_check_note(check, probe, ok);

    old = ngx_etcd_counter_get(&member->verdict, probe->uid)
          & NGX_ETCD_VERDICT_CHECKS;
    verdict = ngx_etcd_check_result_count(check->conf, &slot->row, ok, old);

    if (verdict != old) {
        ngx_etcd_check_verdict(check, probe->slot, old, verdict);
    }

    ngx_etcd_zone_unlock(check->slots.conf->zone);

    slot->contrary = (ok == slot->told);
    slot->judged |= (ok | slot->failed);

    slot->found = ((slot->found && verdict == old)
                   || (ok != slot->failed && slot->failed != slot->told));

    if (verdict & ~old) {
        ngx_etcd_check_result_text(probe->result, probe->status, buf, &reason);

        ngx_log_error(NGX_LOG_WARN, check->log, 0,
                      "etcd: upstream \"%V\": the check of member %V has "
                      "failed, %ui in a row: %V%s%V",
                      &check->service->conf->name, ngx_etcd_shown(&probe->name),
                      check->conf->fails, &reason, text->len ? ", " : "",
                      ngx_etcd_shown(text));

        ngx_etcd_check_counted(check);

    } else if (verdict != old) {
        ngx_etcd_check_passed(check, probe, old & ~verdict);
        ngx_etcd_check_counted(check);

    } else if (check->conf->fast != 0
               && ngx_etcd_check_result_open(&slot->row, verdict))
    {
        ngx_etcd_check_again(check, probe->slot, check->conf->fast);
    }
}


static void
ngx_etcd_check_done(ngx_etcd_check_probe_t *probe, ngx_str_t *text)
{
    ngx_int_t               rc;
    ngx_etcd_check_t       *check;
    ngx_etcd_check_slot_t  *slot;

    check = probe->data;

    ngx_queue_remove(&probe->queue);

    rc = ngx_etcd_check_update(check);

    slot = &check->slots.slot[probe->slot];

    if (slot->uid != probe->uid) {

        /* the member is gone, or down */

        return;
    }

    slot->running = 0;
    check->slots.poor = (probe->result == NGX_ETCD_CHECK_NONE);
    slot->judged &= !check->slots.poor;

    /* a process that ends breaks its connections itself */

    if (rc != NGX_OK
        || probe->result == NGX_ETCD_CHECK_NONE
        || ngx_quit || ngx_terminate || ngx_exiting)
    {
        return;
    }

    ngx_etcd_check_judge(check, probe, text);
}


static void
ngx_etcd_check_start(ngx_etcd_check_t *check, ngx_uint_t n)
{
    ngx_etcd_check_slot_t   *slot;
    ngx_etcd_check_probe_t  *probe;

    slot = &check->slots.slot[n];

    check->slots.nfresh -= slot->fresh;
    slot->fresh = 0;

    /* an interval may be shorter than the time of a check */

    if (slot->running) {
        return;
    }

    probe = ngx_etcd_check_probe_create(check->conf, &check->quiet);
    if (probe == NULL) {
        return;
    }

    probe->done = ngx_etcd_check_done;
    probe->data = check;
    probe->uid = slot->uid;
    probe->slot = n;

    if (ngx_etcd_check_probe_member(probe, check->service->conf) != NGX_OK) {
        check->conf->running--;
        ngx_free(probe);
        return;
    }

    slot->running = 1;
    ngx_queue_insert_tail(&check->probes, &probe->queue);

    ngx_etcd_check_probe_start(probe);
}


/*
 * A member may fail requests and pass its checks: between two turns it is
 * checked once for that.
 */

static void
ngx_etcd_check_suspect(void *data, ngx_uint_t n)
{
    ngx_etcd_check_t *check = data;

    ngx_etcd_check_slot_t  *slot;

    slot = &check->slots.slot[n];

    if (!slot->hastened && !slot->fresh) {
        slot->hastened = 1;
        ngx_etcd_check_again(check, n, 0);
    }
}


/*
 * Begins checks of members that are on the way to another state; returns the
 * ms until the next one.
 */

static ngx_msec_t
ngx_etcd_check_repeat(ngx_etcd_check_t *check, ngx_uint_t *left)
{
    ngx_queue_t             *q;
    ngx_msec_int_t           wait;
    ngx_etcd_check_slot_t   *slot;
    ngx_etcd_check_again_t  *again;

    while (!ngx_queue_empty(&check->again)) {
        q = ngx_queue_head(&check->again);
        again = ngx_queue_data(q, ngx_etcd_check_again_t, queue);

        wait = (ngx_msec_int_t) (again->due - ngx_current_msec);

        if (wait > 0) {
            return wait;
        }

        if (*left == 0 || !ngx_etcd_check_room(check)) {
            return 0;
        }

        slot = &check->slots.slot[again->slot];

        if (slot->uid == again->uid) {
            slot->again = 0;

            (*left)--;
            ngx_etcd_check_start(check, again->slot);
        }

        ngx_queue_remove(q);
        ngx_free(again);
    }

    return NGX_TIMER_INFINITE;
}


/* Begins the checks whose turn it is; returns the ms until the next one. */

static ngx_msec_t
ngx_etcd_check_turns(ngx_etcd_check_t *check, ngx_uint_t *left)
{
    ngx_msec_t                  wait;
    ngx_etcd_check_slot_t      *slot;
    ngx_etcd_check_slots_t     *slots;
    ngx_etcd_check_schedule_t  *schedule;

    slots = &check->slots;
    schedule = &check->schedule;

    for ( ;; ) {

        if (check->next >= slots->nslots) {
            wait = ngx_etcd_check_schedule_left(schedule, ngx_current_msec);

            if (wait != 0 || slots->nslots == 0) {
                return wait;
            }

            ngx_etcd_check_schedule_round(schedule, ngx_current_msec,
                                          check->conf->interval,
                                          check->conf->jitter, ngx_random());
            check->next = 0;

            slots->noted &= !slots->full;

            if (check->conf->ssl != NULL) {
                ngx_etcd_ssl_refresh(check->conf->ssl, "upstream",
                                     &check->service->conf->name, check->log);
            }

            if (slots->nmembers == 0) {
                return schedule->length;
            }
        }

        slot = &slots->slot[check->next];

        if (slot->uid == 0
            || (check->observer.role == NGX_ETCD_CHECK_FOLLOWS
                && slot->judged && !slot->contrary))
        {
            slot->hastened = 0;
            check->next++;
            continue;
        }

        wait = ngx_etcd_check_schedule_wait(schedule, ngx_current_msec,
                                            slots->nmembers);
        if (wait != 0) {
            return wait;
        }

        if (*left == 0 || !ngx_etcd_check_room(check)) {
            return 0;
        }

        (*left)--;
        schedule->done++;

        slot->hastened = 0;

        ngx_etcd_check_start(check, check->next++);
    }
}


/* Returns the ms until there is something to do. */

static ngx_msec_t
ngx_etcd_check_run(ngx_etcd_check_t *check)
{
    ngx_uint_t               n, left;
    ngx_msec_t               wait, time;
    ngx_etcd_check_slots_t  *slots;

    slots = &check->slots;
    left = NGX_ETCD_CHECK_BATCH;

    /* the first checks of members */

    for (n = 0; n < slots->nslots && slots->nfresh != 0; n++) {

        if (!slots->slot[n].fresh) {
            continue;
        }

        if (left == 0 || !ngx_etcd_check_room(check)) {
            break;
        }

        left--;
        ngx_etcd_check_start(check, n);
    }

    wait = NGX_TIMER_INFINITE;

    if (check->conf->fast != 0) {

        /* members that have failed requests are checked soon */

        wait = ngx_etcd_check_slots_suspects(slots, ngx_etcd_check_suspect,
                                             check)
               ? check->conf->fast : 0;
    }

    time = ngx_etcd_check_repeat(check, &left);
    wait = ngx_min(wait, time);

    time = ngx_etcd_check_turns(check, &left);
    wait = ngx_min(wait, time);

    if (slots->nfresh != 0) {
        wait = 0;
    }

    return ngx_max(wait, NGX_ETCD_CHECK_TICK);
}


static void
ngx_etcd_check_tick(ngx_event_t *ev)
{
    ngx_int_t          rc;
    ngx_msec_t         wait, share;
    ngx_etcd_check_t  *check;

    check = ev->data;
    rc = ngx_etcd_check_update(check);

    /* an agent that owns the zone no longer leaves soon */

    wait = (rc == NGX_BUSY) ? NGX_ETCD_CHECK_TICK : NGX_ETCD_CHECK_DORMANT;

    if (rc == NGX_OK) {

        if (check->slots.left != 0) {
            wait = NGX_ETCD_CHECK_TICK;

        } else {
            share = ngx_etcd_check_share(&check->observer);

            if (check->slots.slot != NULL
                && ngx_etcd_service_used(check->service))
            {
                wait = ngx_etcd_check_run(check);
            }

            wait = ngx_min(wait, share);
        }
    }

    ngx_etcd_check_delay(check, wait);
}


static void
ngx_etcd_check_wake(void *data)
{
    ngx_etcd_check_delay(data, NGX_ETCD_CHECK_TICK);
}


/* The observer's verdict is that of this nginx, until it has one of its own. */

static ngx_int_t
ngx_etcd_check_told(void *data, ngx_uint_t n, ngx_uint_t failed,
    ngx_str_t *host)
{
    ngx_etcd_check_t *check = data;

    u_char                   name[NGX_ETCD_MEMBER_NAME_LEN];
    ngx_str_t                shown;
    ngx_int_t                rc;
    ngx_uint_t               old, verdict;
    ngx_etcd_slot_t         *member;
    ngx_etcd_check_slot_t   *slot;
    ngx_etcd_member_pack_t   record;

    rc = ngx_etcd_zone_lock_owned(check->slots.conf->zone, 0);
    if (rc != NGX_OK) {
        return rc;
    }

    slot = &check->slots.slot[n];
    member = ngx_etcd_member_set_slot(check->set, n);

    old = ngx_etcd_counter_get(&member->verdict, slot->uid)
          & NGX_ETCD_VERDICT_CHECKS;
    verdict = failed ? old | NGX_ETCD_VERDICT_FAILED
                     : old & ~NGX_ETCD_VERDICT_FAILED;

    if (verdict == old || member->entry == NULL || member->uid != slot->uid) {
        ngx_etcd_zone_unlock(check->slots.conf->zone);
        return NGX_OK;
    }

    ngx_etcd_check_verdict(check, n, old, verdict);

    ngx_etcd_member_pack_read(&record, ngx_etcd_entry_payload(member->entry));

    shown.data = name;
    shown.len = record.name.len;
    ngx_memcpy(name, record.name.data, record.name.len);

    ngx_etcd_zone_unlock(check->slots.conf->zone);

    slot->row.ok = !failed;
    slot->row.row = failed ? check->conf->fails : check->conf->rises;

    ngx_etcd_check_counted(check);

    if (!failed) {
        ngx_log_error(NGX_LOG_NOTICE, check->log, 0,
                      "etcd: upstream \"%V\": the check of member %V succeeds "
                      "again, says the observer on %V",
                      &check->service->conf->name, ngx_etcd_shown(&shown),
                      ngx_etcd_shown(host));

        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_WARN, check->log, 0,
                  "etcd: upstream \"%V\": the check of member %V has failed, "
                  "says the observer on %V", &check->service->conf->name,
                  ngx_etcd_shown(&shown), ngx_etcd_shown(host));

    ngx_etcd_check_again(check, n, 0);

    return NGX_OK;
}


static void
ngx_etcd_check_observe(ngx_etcd_check_t *check)
{
    ngx_etcd_check_observer_t  *observer;

    observer = &check->observer;

    observer->conf = check->conf->share;
    observer->service = check->service;
    observer->slots = &check->slots;
    observer->interval = check->conf->interval;
    observer->wake = ngx_etcd_check_wake;
    observer->told = ngx_etcd_check_told;
    observer->data = check;

    ngx_etcd_check_share_init(observer);
}


static void *
ngx_etcd_check_create(ngx_etcd_service_t *service, void *conf,
    ngx_pool_t *pool)
{
    ngx_etcd_check_t  *check;

    check = ngx_pcalloc(pool, sizeof(ngx_etcd_check_t));
    if (check == NULL) {
        return NULL;
    }

    check->service = service;
    check->conf = conf;
    check->set = service->conf->set;
    check->log = service->log;
    check->quiet = *service->log;

    if (check->quiet.log_level == NGX_LOG_INFO) {
        check->quiet.log_level = NGX_LOG_NOTICE;
    }

    check->slots.conf = service->conf;
    check->slots.log = check->log;

    ngx_queue_init(&check->probes);
    ngx_queue_init(&check->again);

    ngx_etcd_check_observe(check);

    ngx_etcd_event_init_timer(&check->tick, ngx_etcd_check_tick, check,
                              check->log);

    /* the service has not read the set yet, and may have to wait for that */

    ngx_add_timer(&check->tick, NGX_ETCD_CHECK_TICK);

    return check;
}


static void
ngx_etcd_check_destroy(void *data)
{
    ngx_etcd_check_t *check = data;

    ngx_queue_t  *q;

    while (!ngx_queue_empty(&check->probes)) {
        q = ngx_queue_head(&check->probes);
        ngx_queue_remove(q);

        ngx_etcd_check_probe_stop(ngx_queue_data(q, ngx_etcd_check_probe_t,
                                                 queue));
    }

    while (!ngx_queue_empty(&check->again)) {
        q = ngx_queue_head(&check->again);
        ngx_queue_remove(q);

        ngx_free(ngx_queue_data(q, ngx_etcd_check_again_t, queue));
    }

    ngx_etcd_check_share_done(&check->observer);
    ngx_etcd_event_stop(&check->tick);

    if (check->slots.slot != NULL) {
        ngx_free(check->slots.slot);
    }
}


static void
ngx_etcd_check_published(void *data)
{
    ngx_etcd_check_t *check = data;

    if (ngx_etcd_check_slots_changed(&check->slots)) {
        ngx_etcd_check_delay(check, NGX_ETCD_CHECK_TICK);
    }
}


void
ngx_etcd_check_attend(ngx_etcd_service_conf_t *service,
    ngx_etcd_check_conf_t *conf)
{
    ngx_etcd_attendant_t  attendant;

    attendant.create = ngx_etcd_check_create;
    attendant.destroy = ngx_etcd_check_destroy;
    attendant.published = ngx_etcd_check_published;
    attendant.conf = conf;
    attendant.verdicts = NGX_ETCD_VERDICT_CHECKS;

    ngx_etcd_attendant_add(&service->attendants, &attendant);

    service->mandatory = conf->mandatory;

    if (conf->share != NULL) {
        service->observed = &((ngx_etcd_check_share_t *) conf->share)->zone;
    }
}
