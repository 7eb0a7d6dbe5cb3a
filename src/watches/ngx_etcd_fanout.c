
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_fanout.h>


#define ngx_etcd_fanout_part(q)                                               \
    (ngx_queue_data(q, ngx_etcd_fanout_part_t, queue))

#define ngx_etcd_fanout_turn(q)                                               \
    (ngx_queue_data(q, ngx_etcd_fanout_part_t, turn))


static void
ngx_etcd_fanout_end(ngx_etcd_fanout_t *fanout, ngx_etcd_fanout_part_t *part)
{
    ngx_etcd_watch_t  *watch;

    ngx_queue_remove(&part->turn);
    part->listed = 0;

    watch = &part->mirror->watch;
    watch->revision = fanout->list_revision;
    watch->foreign = 0;

    watch->listed(watch, fanout->list_revision);
}


static void
ngx_etcd_fanout_report(ngx_etcd_fanout_t *fanout, int64_t revision)
{
    ngx_etcd_mirror_allowed(&fanout->causes, &fanout->name, &fanout->watch,
                            fanout->log);

    fanout->complete(fanout, revision);
}


/* Ends the list for some parts at a time. */

static void
ngx_etcd_fanout_finish(ngx_event_t *ev)
{
    uint64_t            until;
    ngx_etcd_fanout_t  *fanout;

    fanout = ev->data;
    until = ngx_etcd_time_budget_now() + NGX_ETCD_TIME_BUDGET;

    while (!ngx_queue_empty(&fanout->listed)) {

        ngx_etcd_fanout_end(fanout, ngx_etcd_fanout_turn(
                                        ngx_queue_head(&fanout->listed)));

        if (ngx_etcd_time_budget_now() >= until
            && !ngx_queue_empty(&fanout->listed))
        {
            ngx_post_event(ev, &ngx_posted_next_events);
            return;
        }
    }

    if (fanout->synced) {
        ngx_etcd_fanout_report(fanout, fanout->revision);
    }
}


static void
ngx_etcd_fanout_list(ngx_etcd_watch_t *watch)
{
    ngx_queue_t             *q;
    ngx_etcd_fanout_t       *fanout;
    ngx_etcd_fanout_part_t  *part;

    fanout = watch->data;

    ngx_etcd_mirror_audit_void(&fanout->audit);

    fanout->round++;
    fanout->sweep = NULL;
    fanout->listing = 1;
    fanout->synced = 0;

    /* the end of an earlier list is void */

    while (!ngx_queue_empty(&fanout->listed)) {
        q = ngx_queue_head(&fanout->listed);
        part = ngx_etcd_fanout_turn(q);

        ngx_queue_remove(q);
        part->listed = 0;
    }

    if (fanout->list != NULL) {
        fanout->list(fanout);
    }
}


static void
ngx_etcd_fanout_begin(ngx_etcd_fanout_t *fanout, ngx_etcd_fanout_part_t *part)
{
    ngx_etcd_watch_t  *watch;

    if (part->round == fanout->round) {
        return;
    }

    part->round = fanout->round;

    watch = &part->mirror->watch;
    watch->foreign = fanout->watch.foreign;

    watch->list(watch);
}


/* Removes keys of some parts at a time. */

static ngx_int_t
ngx_etcd_fanout_sweep(ngx_etcd_fanout_t *fanout)
{
    uint64_t                 until;
    ngx_etcd_watch_t        *watch;
    ngx_etcd_fanout_part_t  *part;

    until = ngx_etcd_time_budget_now() + NGX_ETCD_TIME_BUDGET;

    if (fanout->sweep == NULL) {
        fanout->sweep = ngx_queue_head(&fanout->parts);
    }

    while (fanout->sweep != ngx_queue_sentinel(&fanout->parts)) {

        if (ngx_etcd_time_budget_now() >= until) {
            return NGX_AGAIN;
        }

        part = ngx_etcd_fanout_part(fanout->sweep);
        watch = &part->mirror->watch;

        ngx_etcd_fanout_begin(fanout, part);

        if (watch->keys(watch, NULL, 0) == NGX_AGAIN) {
            return NGX_AGAIN;
        }

        fanout->sweep = ngx_queue_next(fanout->sweep);
    }

    return NGX_OK;
}


/* Keys of a part come one after another: passes runs of keys. */

static ngx_int_t
ngx_etcd_fanout_keys(ngx_etcd_watch_t *watch, Etcd__KeyValue **kvs, size_t n)
{
    size_t                   i, from;
    ngx_int_t                rc;
    ngx_str_t                key;
    ngx_etcd_fanout_t       *fanout;
    ngx_etcd_fanout_part_t  *part, *next;

    fanout = watch->data;
    part = NULL;
    from = 0;

    if (n == 0) {
        return ngx_etcd_fanout_sweep(fanout);
    }

    for (i = 0; i <= n; i++) {
        next = NULL;

        if (i < n) {
            key = ngx_etcd_bytes_str(&kvs[i]->key);
            next = fanout->find(fanout, &key, 1);
        }

        if (next == part && i < n) {
            continue;
        }

        if (part != NULL) {
            ngx_etcd_fanout_begin(fanout, part);

            rc = part->mirror->watch.keys(&part->mirror->watch, &kvs[from],
                                          i - from);
            if (rc != NGX_OK) {
                return rc;
            }
        }

        part = next;
        from = i;
    }

    return NGX_OK;
}


static void
ngx_etcd_fanout_listed(ngx_etcd_watch_t *watch, int64_t revision)
{
    ngx_queue_t             *q;
    ngx_etcd_fanout_t       *fanout;
    ngx_etcd_fanout_part_t  *part;

    fanout = watch->data;

    fanout->listing = 0;
    fanout->synced = 1;
    fanout->revision = revision;
    fanout->list_revision = revision;

    for (q = ngx_queue_head(&fanout->parts);
         q != ngx_queue_sentinel(&fanout->parts);
         q = ngx_queue_next(q))
    {
        part = ngx_etcd_fanout_part(q);
        part->listed = 1;

        ngx_queue_insert_tail(&fanout->listed, &part->turn);
    }

    ngx_etcd_fanout_finish(&fanout->finish);
}


static ngx_int_t
ngx_etcd_fanout_event(ngx_etcd_fanout_t *fanout, Etcd__Event *event)
{
    ngx_str_t                key;
    ngx_uint_t               deleted;
    ngx_etcd_fanout_part_t  *part;

    key = ngx_etcd_bytes_str(&event->kv->key);

    deleted = (event->type == ETCD__EVENT__EVENT_TYPE__DELETE);

    ngx_etcd_mirror_audit_event(&fanout->audit, event->kv->mod_revision);

    part = fanout->find(fanout, &key, !deleted);

    if (part == NULL) {
        return NGX_OK;
    }

    if (part->listed) {
        ngx_etcd_fanout_end(fanout, part);
    }

    if (!part->touched) {
        part->touched = 1;
        ngx_queue_insert_tail(&fanout->touched, &part->turn);
    }

    return ngx_etcd_mirror_event(part->mirror, event);
}


/*
 * Only parts with events are told of a revision; 0: some events are missing,
 * and parts are told at the end of the next list.
 */

static void
ngx_etcd_fanout_passed(ngx_etcd_fanout_t *fanout, int64_t revision)
{
    ngx_queue_t             *q;
    ngx_etcd_fanout_part_t  *part;

    while (!ngx_queue_empty(&fanout->touched)) {
        q = ngx_queue_head(&fanout->touched);
        part = ngx_etcd_fanout_turn(q);

        ngx_queue_remove(q);
        part->touched = 0;

        if (revision != 0) {
            ngx_etcd_mirror_passed(part->mirror, revision);
        }
    }
}


static void
ngx_etcd_fanout_refuse(ngx_etcd_fanout_t *fanout,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_etcd_mirror_denied(&fanout->causes, &fanout->name, &fanout->watch,
                           status, text, fanout->log);

    fanout->denied(fanout, status);
}


static void
ngx_etcd_fanout_events(ngx_etcd_watch_t *watch, Etcd__Event **events, size_t n,
    int64_t revision)
{
    size_t              i;
    ngx_str_t           text;
    ngx_etcd_fanout_t  *fanout;

    fanout = watch->data;

    for (i = 0; i < n; i++) {
        if (ngx_etcd_fanout_event(fanout, events[i]) != NGX_OK) {

            /* ngx_etcd_fanout_again() may free the events */

            ngx_etcd_fanout_again(fanout, NGX_ETCD_MIRROR_AGAIN);
            ngx_etcd_fanout_passed(fanout, 0);

            ngx_str_set(&text, "no memory");
            ngx_etcd_fanout_refuse(fanout, NGX_ETCD_GRPC_INTERNAL, &text);
            return;
        }
    }

    ngx_etcd_fanout_passed(fanout, revision);

    if (fanout->synced) {
        fanout->revision = ngx_max(fanout->revision, revision);

        if (ngx_queue_empty(&fanout->listed)) {
            ngx_etcd_fanout_report(fanout, fanout->revision);
        }
    }
}


/* A list that failed is void: parts that it has reached wait for the next. */

static void
ngx_etcd_fanout_failed(ngx_etcd_watch_t *watch, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_etcd_fanout_t  *fanout;

    fanout = watch->data;

    if (watch->revision == 0) {
        fanout->synced = 0;
        fanout->listing = 0;

    } else if (fanout->listing) {
        ngx_etcd_fanout_again(fanout, NGX_ETCD_MIRROR_AGAIN);
    }

    ngx_etcd_fanout_refuse(fanout, status, text);
}


static int64_t
ngx_etcd_fanout_known_revision(void *data)
{
    ngx_etcd_fanout_t *fanout = data;

    return (fanout->synced && ngx_queue_empty(&fanout->listed))
           ? fanout->revision : 0;
}


static void
ngx_etcd_fanout_differs(void *data)
{
    ngx_etcd_fanout_again(data, 0);
}


void
ngx_etcd_fanout_init(ngx_etcd_fanout_t *fanout, ngx_log_t *log)
{
    ngx_etcd_watch_t         *watch;
    ngx_etcd_mirror_audit_t  *audit;

    ngx_queue_init(&fanout->parts);
    ngx_queue_init(&fanout->touched);
    ngx_queue_init(&fanout->listed);

    fanout->log = log;

    ngx_etcd_event_init(&fanout->finish, ngx_etcd_fanout_finish, fanout, log);

    watch = &fanout->watch;

    watch->list = ngx_etcd_fanout_list;
    watch->keys = ngx_etcd_fanout_keys;
    watch->listed = ngx_etcd_fanout_listed;
    watch->events = ngx_etcd_fanout_events;
    watch->failed = ngx_etcd_fanout_failed;
    watch->data = fanout;

    audit = &fanout->audit;

    audit->name = &fanout->name;
    audit->watch = watch;
    audit->log = log;
    audit->wants = fanout->wants;
    audit->sum = &fanout->sum;
    audit->revision = ngx_etcd_fanout_known_revision;
    audit->differs = ngx_etcd_fanout_differs;
    audit->data = fanout;
}


ngx_int_t
ngx_etcd_fanout_start(ngx_etcd_fanout_t *fanout,
    ngx_etcd_watch_stream_t *stream)
{
    ngx_queue_t       *q;
    ngx_etcd_watch_t  *watch;

    watch = &fanout->watch;

    fanout->revision = watch->revision;
    fanout->synced = (watch->revision != 0);

    watch->stream = stream;

    for (q = ngx_queue_head(&fanout->parts);
         q != ngx_queue_sentinel(&fanout->parts);
         q = ngx_queue_next(q))
    {
        ngx_etcd_mirror_feed(ngx_etcd_fanout_part(q)->mirror, stream,
                             watch->revision);
    }

    if (ngx_etcd_watch_add(stream, watch) != NGX_OK) {
        return NGX_ERROR;
    }

    fanout->started = 1;

    ngx_etcd_mirror_audit_start(&fanout->audit);

    return NGX_OK;
}


void
ngx_etcd_fanout_stop(ngx_etcd_fanout_t *fanout)
{
    if (fanout->started) {
        fanout->started = 0;
        ngx_etcd_mirror_audit_stop(&fanout->audit);
    }

    ngx_etcd_event_stop(&fanout->finish);
}


void
ngx_etcd_fanout_add(ngx_etcd_fanout_t *fanout, ngx_etcd_fanout_part_t *part)
{
    part->touched = 0;
    part->listed = 0;

    /* a part that comes during a list begins with this list */

    part->round = fanout->synced ? fanout->round : fanout->round - 1;

    ngx_queue_insert_tail(&fanout->parts, &part->queue);

    fanout->sum += part->mirror->entries.own;
    part->mirror->entries.sum = &fanout->sum;

    part->mirror->relist = ngx_etcd_fanout_again;
    part->mirror->fanout = fanout;

    if (fanout->started) {
        ngx_etcd_mirror_feed(part->mirror, fanout->watch.stream,
                             fanout->synced ? fanout->revision : 0);
    }
}


void
ngx_etcd_fanout_remove(ngx_etcd_fanout_t *fanout, ngx_etcd_fanout_part_t *part)
{
    if (fanout->sweep == &part->queue) {
        fanout->sweep = ngx_queue_next(&part->queue);
    }

    ngx_queue_remove(&part->queue);

    if (part->touched || part->listed) {
        ngx_queue_remove(&part->turn);
    }
}


void
ngx_etcd_fanout_again(void *data, ngx_msec_t delay)
{
    ngx_etcd_fanout_t *fanout = data;

    if (!fanout->started) {
        return;
    }

    fanout->synced = 0;
    fanout->listing = 0;

    ngx_etcd_mirror_audit_void(&fanout->audit);
    ngx_etcd_watch_again(&fanout->watch, delay);
}
