
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_mirror.h>


void
ngx_etcd_mirror_denied(ngx_etcd_causes_t *causes, ngx_str_t *name,
    ngx_etcd_watch_t *watch, ngx_etcd_grpc_status_e status, ngx_str_t *text,
    ngx_log_t *log)
{
    ngx_uint_t  level;

    /* the user's fault concerns the whole cluster, and was logged for it */

    level = (status == NGX_ETCD_GRPC_UNAUTHENTICATED)
            ? NGX_LOG_DEBUG : ngx_etcd_cause_level(causes, status, text);

    ngx_log_error(level, log, 0, "%V: %s \"%V\" cannot be read: %s: %V", name,
                  watch->range.exact ? "key" : "prefix", &watch->range.prefix,
                  ngx_etcd_grpc_status_name(status), text);
}


void
ngx_etcd_mirror_allowed(ngx_etcd_causes_t *causes, ngx_str_t *name,
    ngx_etcd_watch_t *watch, ngx_log_t *log)
{
    if (!ngx_etcd_cause_forget(causes)) {
        return;
    }

    ngx_log_error(NGX_LOG_NOTICE, log, 0, "%V: %s \"%V\" can be read again",
                  name, watch->range.exact ? "key" : "prefix",
                  &watch->range.prefix);
}


static ngx_uint_t
ngx_etcd_mirror_wanted(void *data, ngx_str_t *key)
{
    ngx_etcd_mirror_t *mirror = data;

    return mirror->wants == NULL || mirror->wants(mirror, key);
}


static int64_t
ngx_etcd_mirror_known_revision(void *data)
{
    ngx_etcd_mirror_t *mirror = data;

    return mirror->synced ? mirror->revision : 0;
}


static void
ngx_etcd_mirror_differs(void *data)
{
    ngx_etcd_mirror_again(data, 0);
}


void
ngx_etcd_mirror_init(ngx_etcd_mirror_t *mirror, ngx_log_t *log)
{
    ngx_etcd_mirror_audit_t  *audit;

    ngx_etcd_mirror_entry_init(&mirror->entries, log);

    audit = &mirror->audit;

    audit->name = &mirror->name;
    audit->watch = &mirror->watch;
    audit->log = log;
    audit->wants = ngx_etcd_mirror_wanted;
    audit->sum = &mirror->entries.own;
    audit->revision = ngx_etcd_mirror_known_revision;
    audit->differs = ngx_etcd_mirror_differs;
    audit->data = mirror;
}


ngx_etcd_mirror_entry_t *
ngx_etcd_mirror_seed(ngx_etcd_mirror_t *mirror, ngx_str_t *key,
    int64_t mod_revision)
{
    ngx_etcd_mirror_entry_t  *entry;

    entry = ngx_etcd_mirror_entry_create(&mirror->entries, key);

    if (entry != NULL) {
        entry->mod_revision = mod_revision;
        ngx_etcd_mirror_entry_place(&mirror->entries, entry);
        mirror->entries.n++;
    }

    return entry;
}


void
ngx_etcd_mirror_revise(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry, int64_t mod_revision)
{
    ngx_etcd_mirror_entry_unplace(&mirror->entries, entry);
    entry->mod_revision = mod_revision;
    ngx_etcd_mirror_entry_place(&mirror->entries, entry);
}


static void
ngx_etcd_mirror_list(ngx_etcd_watch_t *watch)
{
    ngx_etcd_mirror_t   *mirror;
    ngx_etcd_cluster_t  *cluster;

    mirror = watch->data;
    cluster = watch->stream->cluster;

    ngx_etcd_mirror_audit_void(&mirror->audit);

    mirror->sweep.generation++;
    mirror->sweep.next = NULL;
    mirror->listing = 1;
    mirror->synced = 0;

    if (mirror->list != NULL) {
        mirror->list(mirror);
    }

    if (watch->foreign) {
        mirror->distrust = 1;
    }

    if (mirror->history != cluster->history.changes) {
        mirror->distrust = 1;

        if (mirror->foreign != NULL) {
            mirror->foreign(mirror);
        }
    }
}


/* removed() may hold the entry: it is not freed then */

static void
ngx_etcd_mirror_remove(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry, int64_t revision)
{
    ngx_etcd_mirror_entry_unplace(&mirror->entries, entry);

    entry->mod_revision = revision;
    mirror->entries.n--;

    if (mirror->removed != NULL) {
        mirror->removed(mirror, entry);
    }

    ngx_etcd_mirror_entry_free(&mirror->entries, entry);
}


/*
 * Removes entries that are not in the list.  NGX_AGAIN: others are left.  No
 * event is applied in between, so mirror->sweep.next stays an entry.
 */

static ngx_int_t
ngx_etcd_mirror_sweep(ngx_etcd_mirror_t *mirror)
{
    uint64_t                  until;
    ngx_uint_t                left;
    ngx_queue_t              *q;
    ngx_etcd_mirror_entry_t  *entry;

    until = ngx_etcd_time_budget_now() + NGX_ETCD_TIME_BUDGET;
    left = (mirror->sweep.piece != 0) ? mirror->sweep.piece
                                      : NGX_ETCD_MIRROR_PIECE;

    q = (mirror->sweep.next != NULL) ? mirror->sweep.next
                                : ngx_queue_head(&mirror->entries.queue);

    while (q != ngx_queue_sentinel(&mirror->entries.queue)) {

        if (left == 0 || ngx_etcd_time_budget_now() >= until) {
            mirror->sweep.next = q;
            return NGX_AGAIN;
        }

        entry = ngx_queue_data(q, ngx_etcd_mirror_entry_t, queue);
        q = ngx_queue_next(q);

        if (entry->generation != mirror->sweep.generation) {
            ngx_etcd_mirror_remove(mirror, entry, entry->mod_revision);
            left--;
        }
    }

    mirror->sweep.next = q;

    return NGX_OK;
}


/*
 * Creates or updates the entry of a listed key or an event.  The entry is NULL
 * if there is none.
 */

static ngx_int_t
ngx_etcd_mirror_put(ngx_etcd_mirror_t *mirror, ngx_etcd_mirror_entry_t *entry,
    Etcd__KeyValue *kv, ngx_uint_t listed)
{
    ngx_str_t                   key, value;
    ngx_uint_t                  same;
    ngx_etcd_mirror_entries_t  *entries;

    entries = &mirror->entries;

    /* the entry may have what is listed */

    same = listed
           && entry != NULL
           && !mirror->distrust
           && entry->mod_revision == kv->mod_revision
           && (entry->create_revision == kv->create_revision
               || (entry->create_revision == 0 && entries->keep == 0));

    ngx_str_null(&value);

    if (!same
        && entries->keep != 0
        && ngx_etcd_mirror_entry_value(entries, &kv->value, &value) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (entry == NULL) {
        key = ngx_etcd_bytes_str(&kv->key);

        entry = ngx_etcd_mirror_entry_create(entries, &key);

        if (entry == NULL) {
            ngx_free(value.data);

            return NGX_ERROR;
        }

        entries->n++;

    } else {
        ngx_etcd_mirror_entry_unplace(entries, entry);
    }

    entry->create_revision = kv->create_revision;
    entry->mod_revision = kv->mod_revision;
    entry->lease = kv->lease;

    ngx_etcd_mirror_entry_place(entries, entry);

    if (listed) {
        entry->generation = mirror->sweep.generation;
    }

    if (same) {
        return NGX_OK;
    }

    if (entries->keep != 0) {
        ngx_etcd_mirror_entry_keep(entries, entry, &value);

    } else {
        entry->value = ngx_etcd_bytes_str(&kv->value);
    }

    if (mirror->changed != NULL) {
        mirror->changed(mirror, entry);
    }

    if (entries->keep == 0) {
        ngx_str_null(&entry->value);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_mirror_keys(ngx_etcd_watch_t *watch, Etcd__KeyValue **kvs, size_t n)
{
    size_t                    i;
    ngx_str_t                 key;
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_mirror_entry_t  *entry;

    mirror = watch->data;

    if (n == 0) {
        return ngx_etcd_mirror_sweep(mirror);
    }

    for (i = 0; i < n; i++) {
        key = ngx_etcd_bytes_str(&kvs[i]->key);

        if (!ngx_etcd_mirror_wanted(mirror, &key)) {
            continue;
        }

        entry = ngx_etcd_mirror_find(mirror, &key);

        if (ngx_etcd_mirror_put(mirror, entry, kvs[i], 1) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static void
ngx_etcd_mirror_report(ngx_etcd_mirror_t *mirror, int64_t revision)
{
    ngx_etcd_mirror_allowed(&mirror->causes, &mirror->name, &mirror->watch,
                            mirror->entries.table.log);

    mirror->refused = 0;
    mirror->revision = ngx_max(mirror->revision, revision);

    if (mirror->complete != NULL) {
        mirror->complete(mirror, mirror->revision);
    }
}


static void
ngx_etcd_mirror_listed(ngx_etcd_watch_t *watch, int64_t revision)
{
    ngx_etcd_mirror_t  *mirror;

    mirror = watch->data;

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, mirror->entries.table.log, 0,
                   "etcd mirror \"%V\": listed at revision %L, %ui keys",
                   &watch->range.prefix, revision, mirror->entries.n);

    mirror->listing = 0;
    mirror->synced = 1;
    mirror->distrust = 0;
    mirror->listed = revision;
    mirror->revision = 0;
    mirror->history = watch->stream->cluster->history.changes;

    mirror->relisted = 1;
    ngx_etcd_mirror_report(mirror, revision);
    mirror->relisted = 0;
}


static void
ngx_etcd_mirror_refuse(ngx_etcd_mirror_t *mirror, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_etcd_mirror_denied(&mirror->causes, &mirror->name, &mirror->watch,
                           status, text, mirror->entries.table.log);

    mirror->refused = 1;

    if (mirror->denied != NULL) {
        mirror->denied(mirror, status);
    }
}


static void
ngx_etcd_mirror_events(ngx_etcd_watch_t *watch, Etcd__Event **events, size_t n,
    int64_t revision)
{
    size_t              i;
    ngx_str_t           text;
    ngx_etcd_mirror_t  *mirror;

    mirror = watch->data;

    for (i = 0; i < n; i++) {
        if (ngx_etcd_mirror_event(mirror, events[i]) != NGX_OK) {

            /* mirror_again() may free the events */

            ngx_etcd_mirror_again(mirror, NGX_ETCD_MIRROR_AGAIN);

            ngx_str_set(&text, "no memory");
            ngx_etcd_mirror_refuse(mirror, NGX_ETCD_GRPC_INTERNAL, &text);
            return;
        }
    }

    ngx_etcd_mirror_passed(mirror, revision);
}


static void
ngx_etcd_mirror_failed(ngx_etcd_watch_t *watch, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_etcd_mirror_t  *mirror;

    mirror = watch->data;

    /* otherwise the watch continues at its revision, without a list */

    if (watch->revision == 0) {
        mirror->synced = 0;
        mirror->listing = 0;

    } else if (mirror->listing) {
        ngx_etcd_mirror_again(mirror, NGX_ETCD_MIRROR_AGAIN);
    }

    ngx_etcd_mirror_refuse(mirror, status, text);
}


static void
ngx_etcd_mirror_join(ngx_etcd_mirror_t *mirror,
    ngx_etcd_watch_stream_t *stream)
{
    ngx_etcd_watch_t  *watch;

    watch = &mirror->watch;

    watch->list = ngx_etcd_mirror_list;
    watch->keys = ngx_etcd_mirror_keys;
    watch->listed = ngx_etcd_mirror_listed;
    watch->events = ngx_etcd_mirror_events;
    watch->failed = ngx_etcd_mirror_failed;
    watch->data = mirror;

    mirror->synced = (watch->revision != 0);
    mirror->revision = watch->revision;
    mirror->history = stream->cluster->history.changes;
}


ngx_int_t
ngx_etcd_mirror_start(ngx_etcd_mirror_t *mirror,
    ngx_etcd_watch_stream_t *stream)
{
    ngx_etcd_mirror_join(mirror, stream);

    if (ngx_etcd_watch_add(stream, &mirror->watch) != NGX_OK) {
        return NGX_ERROR;
    }

    mirror->started = 1;

    ngx_etcd_mirror_audit_start(&mirror->audit);

    return NGX_OK;
}


void
ngx_etcd_mirror_feed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_watch_stream_t *stream, int64_t revision)
{
    mirror->watch.stream = stream;
    mirror->watch.revision = revision;

    ngx_etcd_mirror_join(mirror, stream);
}


void
ngx_etcd_mirror_again(ngx_etcd_mirror_t *mirror, ngx_msec_t delay)
{
    mirror->synced = 0;
    mirror->listing = 0;
    mirror->distrust = 1;

    if (mirror->relist != NULL) {
        mirror->relist(mirror->fanout, delay);
        return;
    }

    ngx_etcd_mirror_audit_void(&mirror->audit);
    ngx_etcd_watch_again(&mirror->watch, delay);
}


ngx_int_t
ngx_etcd_mirror_stop(ngx_etcd_mirror_t *mirror)
{
    if (mirror->started && ngx_etcd_watch_remove(&mirror->watch) != NGX_OK) {
        return NGX_AGAIN;
    }

    ngx_etcd_mirror_destroy(mirror);

    return NGX_OK;
}


void
ngx_etcd_mirror_destroy(ngx_etcd_mirror_t *mirror)
{
    if (mirror->started) {
        mirror->started = 0;
        ngx_etcd_mirror_audit_stop(&mirror->audit);
    }

    mirror->synced = 0;

    ngx_etcd_mirror_entry_done(&mirror->entries);
}


void
ngx_etcd_mirror_hold(ngx_etcd_mirror_t *mirror, ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_mirror_entry_detach(&mirror->entries, entry);

    entry->held = 1;
}


ngx_etcd_mirror_entry_t *
ngx_etcd_mirror_find(ngx_etcd_mirror_t *mirror, ngx_str_t *key)
{
    return ngx_etcd_hash_table_find(&mirror->entries.table, key);
}


ngx_uint_t
ngx_etcd_mirror_covers(ngx_etcd_mirror_t *mirror, int64_t revision)
{
    return mirror->synced
           && mirror->revision >= revision
           && mirror->history == mirror->watch.stream->cluster->history.changes;
}


ngx_etcd_mirror_entry_t *
ngx_etcd_mirror_first(ngx_etcd_mirror_t *mirror)
{
    return ngx_etcd_mirror_entry_first(&mirror->entries);
}


ngx_etcd_mirror_entry_t *
ngx_etcd_mirror_next(ngx_etcd_mirror_t *mirror, ngx_etcd_mirror_entry_t *entry)
{
    return ngx_etcd_mirror_entry_next(&mirror->entries, entry);
}


void
ngx_etcd_mirror_passed(ngx_etcd_mirror_t *mirror, int64_t revision)
{
    if (mirror->synced) {
        ngx_etcd_mirror_report(mirror, revision);
    }
}


/* Calls removed() for a deleted key without an entry. */

static void
ngx_etcd_mirror_unknown(ngx_etcd_mirror_t *mirror, Etcd__KeyValue *kv)
{
    ngx_etcd_mirror_entry_t  unknown;

    if (mirror->removed == NULL) {
        return;
    }

    ngx_memzero(&unknown, sizeof(ngx_etcd_mirror_entry_t));

    unknown.key = ngx_etcd_bytes_str(&kv->key);
    unknown.mod_revision = kv->mod_revision;

    mirror->removed(mirror, &unknown);
}


ngx_int_t
ngx_etcd_mirror_event(ngx_etcd_mirror_t *mirror, Etcd__Event *event)
{
    ngx_str_t                 key;
    ngx_uint_t                deleted;
    Etcd__KeyValue           *kv;
    ngx_etcd_mirror_entry_t  *entry;

    kv = event->kv;

    key = ngx_etcd_bytes_str(&kv->key);

    if (!ngx_etcd_mirror_wanted(mirror, &key)) {
        return NGX_OK;
    }

    entry = ngx_etcd_mirror_find(mirror, &key);
    deleted = (event->type == ETCD__EVENT__EVENT_TYPE__DELETE);

    if (kv->mod_revision <= mirror->listed) {
        if (deleted && entry == NULL) {
            ngx_etcd_mirror_unknown(mirror, kv);
        }

        return NGX_OK;
    }

    if (entry != NULL && entry->mod_revision >= kv->mod_revision) {
        return NGX_OK;
    }

    ngx_etcd_mirror_audit_event(&mirror->audit, kv->mod_revision);

    if (!deleted) {
        return ngx_etcd_mirror_put(mirror, entry, kv, 0);
    }

    if (entry != NULL) {
        ngx_etcd_mirror_remove(mirror, entry, kv->mod_revision);

    } else {
        ngx_etcd_mirror_unknown(mirror, kv);
    }

    return NGX_OK;
}
