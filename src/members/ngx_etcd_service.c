
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_drain.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_member_drain.h>
#include <ngx_etcd_member_resolve.h>
#include <ngx_etcd_reload.h>
#include <ngx_etcd_service.h>


/* The time is one of another process: it may be later than this one's. */

ngx_uint_t
ngx_etcd_service_used(ngx_etcd_service_t *service)
{
    ngx_msec_t      used;
    ngx_msec_int_t  idle;

    idle = service->owner->idle;
    used = service->conf->set->used;

    return idle == 0
           || (used != 0 && (ngx_msec_int_t) (ngx_current_msec - used) < idle);
}


static void
ngx_etcd_service_publish_handler(ngx_event_t *ev)
{
    ngx_etcd_service_publish(ev->data);
}


static ngx_int_t
ngx_etcd_service_index(ngx_etcd_service_t *service, uint64_t until)
{
    ngx_etcd_service_conf_t      *conf;
    ngx_etcd_member_set_adopt_t   adopt;

    conf = service->conf;
    adopt.distrust = 0;

    if (!service->diff.opening) {
        adopt.params = conf->params;
        adopt.verdicts = ngx_etcd_attendant_verdicts(&conf->attendants);
        adopt.mandatory = conf->mandatory;

        if (ngx_etcd_member_set_inherit_adopt(conf->zone, conf->set, &adopt)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        service->relist |= adopt.relist;
    }

    return ngx_etcd_member_diff_open(&service->diff, adopt.distrust, until);
}


/*
 * Makes the index from the set as it is, and an empty batch.  The values of
 * ngx_etcd_member_diff_open().
 */

static ngx_int_t
ngx_etcd_service_open(ngx_etcd_service_t *service, uint64_t until)
{
    ngx_int_t                rc;
    ngx_etcd_member_diff_t  *diff;

    diff = &service->diff;
    rc = NGX_OK;

    if (!diff->indexed || diff->opening) {
        rc = ngx_etcd_service_index(service, until);
    }

    if (rc == NGX_OK) {
        rc = ngx_etcd_member_resolve_adopt(diff, until);
    }

    if (rc == NGX_OK) {
        ngx_etcd_guard_opened(&service->guard);
        ngx_etcd_member_diff_statics(diff);
        ngx_etcd_service_post(service);
    }

    return rc;
}


/*
 * Index and set may differ, or the zone was full: reads the set again, and
 * lists the prefix.
 */

static void
ngx_etcd_service_reopen(ngx_etcd_service_t *service)
{
    ngx_log_error(NGX_LOG_INFO, service->log, 0,
                  "etcd: upstream \"%V\": comparing all members again",
                  &service->conf->name);

    ngx_etcd_member_diff_close(&service->diff);

    if (ngx_etcd_service_open(service, 0) != NGX_OK) {
        service->diff.broken = 1;
        ngx_add_timer(&service->retry, NGX_ETCD_SERVICE_BUSY);
        return;
    }

    service->diff.broken = 0;

    ngx_etcd_mirror_again(&service->mirror, 0);
}


static void
ngx_etcd_service_retry(ngx_event_t *ev)
{
    ngx_etcd_service_t  *service;

    service = ev->data;

    if (service->diff.broken) {
        ngx_etcd_service_reopen(service);
        return;
    }

    if (service->diff.skipped) {
        service->diff.skipped = 0;
        ngx_etcd_mirror_again(&service->mirror, 0);
        return;
    }

    ngx_etcd_service_post(service);
}


/*
 * Addresses of a host name have changed, or keys are not held any more: the
 * difference is published.
 */

static void
ngx_etcd_service_resolved(void *data)
{
    ngx_etcd_service_t *service = data;

    ngx_etcd_service_post(service);
}


static void
ngx_etcd_service_diff(ngx_etcd_service_t *service)
{
    ngx_etcd_member_diff_t   *diff;
    ngx_etcd_service_conf_t  *conf;

    diff = &service->diff;
    conf = service->conf;

    diff->name = &conf->name;
    diff->prefix = &conf->prefix;
    diff->member = &conf->member;
    diff->statics = &conf->statics;
    diff->guard = &service->guard;
    diff->keep = conf->keep;
    diff->strict = service->source->strict;

    diff->zone = conf->zone;
    diff->set = conf->set;
    diff->mirror = service->source->indexed ? &service->mirror : NULL;
    diff->mirrored = &service->mirror;
    diff->log = service->log;

    diff->report.leader = conf->leader;
    diff->report.once = conf->catalog ? &service->owner->reported : NULL;

    diff->hosts.resolved = ngx_etcd_service_resolved;
    diff->hosts.data = service;
}


static void
ngx_etcd_service_guard(ngx_etcd_service_t *service)
{
    ngx_etcd_guard_t         *guard;
    ngx_etcd_service_conf_t  *conf;

    guard = &service->guard;
    conf = service->conf;

    guard->conf = &conf->guard;
    guard->index = &service->diff.index;
    guard->mirror = &service->mirror;
    guard->zone = conf->zone;
    guard->set = conf->set;
    guard->name = &conf->name;
    guard->prefix = &conf->prefix;
    guard->log = service->log;
    guard->told_at = conf->catalog ? &service->owner->told_at : NULL;
    guard->released = ngx_etcd_service_resolved;
    guard->data = service;

    ngx_etcd_guard_init(guard);
}


static ngx_uint_t
ngx_etcd_service_wants(ngx_etcd_mirror_t *mirror, ngx_str_t *key)
{
    ngx_etcd_service_t  *service = mirror->data;

    ngx_str_t  address;

    if (service->source->wants(service->conf, key)
        || ngx_etcd_guard_is_release(&service->guard, key)
        || ngx_etcd_drain_address(&service->conf->prefix, key, &address))
    {
        return 1;
    }

    ngx_etcd_key_report_ignored(&service->diff.report, key);

    return 0;
}


static void
ngx_etcd_service_list(ngx_etcd_mirror_t *mirror)
{
    ngx_etcd_service_t  *service = mirror->data;

    /* a member that had no room is read again */

    if (service->diff.skipped) {
        service->diff.skipped = 0;
        mirror->distrust = 1;
    }
}


static void
ngx_etcd_service_arrived(ngx_etcd_service_t *service)
{
    if (service->arrived == 0 && !service->mirror.listing) {
        service->arrived = ngx_etcd_time_budget_now();
    }
}


static void
ngx_etcd_service_changed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_service_t  *service = mirror->data;

    if (ngx_etcd_guard_is_release(&service->guard, &entry->key)) {

        /* a list may have a key that was written long ago */

        if (!mirror->listing) {
            ngx_etcd_guard_release(&service->guard);
        }

        return;
    }

    ngx_etcd_service_arrived(service);

    if (!ngx_etcd_member_drain(&service->diff, entry, 1)) {
        service->source->changed(service, entry);
    }

    if (service->diff.broken) {

        /* the list may not end: publish() starts it again soon */

        ngx_etcd_service_post(service);
    }
}


static void
ngx_etcd_service_removed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_service_t  *service = mirror->data;

    ngx_etcd_service_arrived(service);

    (void) ngx_etcd_member_drain(&service->diff, entry, 0);
    service->source->removed(service, entry);

    if (service->diff.broken) {
        ngx_etcd_service_post(service);
    }
}


static void
ngx_etcd_service_complete(ngx_etcd_mirror_t *mirror, int64_t revision)
{
    ngx_etcd_service_t  *service = mirror->data;

    if (!service->diff.broken) {
        service->diff.batch.revision = revision;

        if (service->source->complete != NULL) {
            service->source->complete(service);
        }

        if (mirror->relisted) {
            service->guard.listed = 1;
        }
    }

    ngx_etcd_service_post(service);
}


static void
ngx_etcd_service_denied(ngx_etcd_mirror_t *mirror,
    ngx_etcd_grpc_status_e status)
{
    ngx_etcd_service_t  *service = mirror->data;

    if (status == NGX_ETCD_GRPC_PERMISSION_DENIED
        && ngx_etcd_zone_lock_owned(service->diff.zone, 0) == NGX_OK)
    {
        service->diff.set->state = NGX_ETCD_MEMBER_SET_DENIED;
        ngx_etcd_zone_unlock(service->diff.zone);
    }
}


static void
ngx_etcd_service_foreign(ngx_etcd_mirror_t *mirror)
{
    ngx_etcd_service_t  *service = mirror->data;

    service->guard.foreign = 1;
}


static void
ngx_etcd_service_verified(ngx_etcd_watch_t *watch, uint64_t time)
{
    ngx_etcd_mirror_t   *mirror;
    ngx_etcd_service_t  *service;

    mirror = watch->data;
    service = mirror->data;
    service->verified = time;

    if (!ngx_etcd_service_pending(service)
        && ngx_etcd_zone_lock_owned(service->diff.zone, 0) == NGX_OK)
    {
        ngx_etcd_zone_prove(&service->diff.set->verified, time);
        ngx_etcd_zone_unlock(service->diff.zone);
    }
}


static ngx_int_t
ngx_etcd_service_mirror(ngx_etcd_service_t *service, ngx_pool_t *pool)
{
    u_char             *p;
    ngx_str_t          *name;
    ngx_etcd_mirror_t  *mirror;

    name = &service->conf->name;
    mirror = &service->mirror;

    p = ngx_pnalloc(pool, sizeof("etcd: upstream \"\"") - 1 + name->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    mirror->name.data = p;
    mirror->name.len = ngx_sprintf(p, "etcd: upstream \"%V\"", name) - p;

    mirror->entries.keep = service->source->keep;
    mirror->entries.entry_size = service->source->entry_size;
    mirror->wants = service->source->wants ? ngx_etcd_service_wants : NULL;
    mirror->list = ngx_etcd_service_list;
    mirror->changed = ngx_etcd_service_changed;
    mirror->removed = ngx_etcd_service_removed;
    mirror->complete = ngx_etcd_service_complete;
    mirror->denied = ngx_etcd_service_denied;
    mirror->foreign = ngx_etcd_service_foreign;
    mirror->data = service;

    mirror->watch.range.prefix = service->conf->prefix;
    mirror->watch.verified = ngx_etcd_service_verified;

    ngx_etcd_mirror_init(mirror, service->log);

    return NGX_OK;
}


ngx_etcd_service_t *
ngx_etcd_service_create(ngx_etcd_service_conf_t *conf,
    ngx_etcd_service_owner_t *owner, ngx_pool_t *pool)
{
    ngx_uint_t             i;
    ngx_etcd_service_t    *service;
    ngx_etcd_attendant_t  *attendant;

    service = ngx_pcalloc(pool, sizeof(ngx_etcd_service_t));
    if (service == NULL) {
        return NULL;
    }

    service->loading = 1;
    service->conf = conf;
    service->source = conf->source;
    service->owner = owner;
    service->log = owner->log;

    ngx_etcd_event_init(&service->publish, ngx_etcd_service_publish_handler,
                        service, owner->log);

    ngx_etcd_event_init_timer(&service->retry, ngx_etcd_service_retry, service,
                              owner->log);

    ngx_etcd_service_diff(service);
    ngx_etcd_service_guard(service);

    if (ngx_etcd_service_mirror(service, pool) != NGX_OK
        || (service->source->create != NULL
            && service->source->create(service, pool) != NGX_OK)
        || ngx_etcd_member_resolve_create(&service->diff, pool) != NGX_OK)
    {
        return NULL;
    }

    for (i = 0; i < conf->attendants.n; i++) {
        attendant = &conf->attendants.list[i];
        service->attendants[i] = attendant->create(service, attendant->conf,
                                                   pool);

        if (service->attendants[i] == NULL) {
            ngx_etcd_service_destroy(service);
            return NULL;
        }
    }

    return service;
}


ngx_int_t
ngx_etcd_service_load(ngx_etcd_service_t *service, uint64_t until)
{
    ngx_int_t           rc;
    ngx_etcd_mirror_t  *mirror;

    if (!service->loading) {
        return NGX_OK;
    }

    rc = ngx_etcd_service_open(service, until);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    service->loading = 0;

    if (rc != NGX_OK) {

        /* the mutex was held, or there was no memory: tried again */

        service->diff.broken = 1;
        ngx_add_timer(&service->retry, NGX_ETCD_SERVICE_BUSY);
    }

    if (service->owner->stream == NULL) {
        return NGX_OK;
    }

    mirror = &service->mirror;

    mirror->watch.revision = service->source->indexed
                             ? ngx_etcd_service_revision(service) : 0;

    return ngx_etcd_mirror_start(mirror, service->owner->stream);
}


int64_t
ngx_etcd_service_revision(ngx_etcd_service_t *service)
{
    return (service->diff.broken || service->relist)
           ? 0 : service->diff.set->revision;
}


void
ngx_etcd_service_destroy(ngx_etcd_service_t *service)
{
    ngx_uint_t              i;
    ngx_etcd_attendants_t  *attendants;

    attendants = &service->conf->attendants;

    for (i = 0; i < attendants->n; i++) {
        if (service->attendants[i] != NULL) {
            attendants->list[i].destroy(service->attendants[i]);
        }
    }

    if (service->source->destroy != NULL) {
        service->source->destroy(service);
    }

    ngx_etcd_event_stop(&service->guard.tick);

    ngx_etcd_event_stop(&service->publish);
    ngx_etcd_event_stop(&service->retry);

    ngx_etcd_member_diff_destroy(&service->diff);
    ngx_etcd_mirror_destroy(&service->mirror);
}


static void
ngx_etcd_service_enqueue(ngx_etcd_service_t *service, ngx_queue_t *posted)
{
    if (service->owner->queue != NULL) {
        service->owner->queue(service);

    } else {
        ngx_post_event(&service->publish, posted);
    }
}


static void
ngx_etcd_service_commit(ngx_etcd_service_t *service, ngx_etcd_commit_t *commit)
{
    ngx_etcd_member_diff_t  *diff;

    diff = &service->diff;

    commit->ops = &diff->batch.ops;
    commit->done = diff->batch.done;
    commit->changed = diff->batch.changed;
    commit->force = 0;

    commit->revision = diff->batch.revision;
    commit->arrived = service->arrived;
    commit->params = service->conf->params;
    commit->verified = service->verified;

    commit->state = diff->skipped ? NGX_ETCD_MEMBER_SET_FULL
                    : diff->batch.revision ? NGX_ETCD_MEMBER_SET_SYNCED
                                     : NGX_ETCD_MEMBER_SET_LOADING;
}


static void
ngx_etcd_service_published(ngx_etcd_service_t *service, ngx_uint_t changed)
{
    ngx_uint_t               i;
    ngx_etcd_attendants_t   *attendants;
    ngx_etcd_member_diff_t  *diff;

    diff = &service->diff;
    attendants = &service->conf->attendants;

    ngx_etcd_member_diff_batch(diff);

    if (diff->skipped) {
        if (!service->full) {
            service->full = 1;
            ngx_etcd_key_report_full(&diff->report, diff->skipped);
        }

        if (!service->retry.timer_set) {
            ngx_add_timer(&service->retry, NGX_ETCD_SERVICE_FULL);
        }

    } else if (diff->batch.revision != 0) {
        service->full = 0;
    }

    if (ngx_etcd_key_report_published(&diff->report, &diff->index,
                                      &service->mirror, diff->drains)
        == NGX_BUSY)
    {
        ngx_add_timer(&service->retry, NGX_ETCD_SERVICE_BUSY);
    }

    for (i = 0; i < attendants->n; i++) {
        if (attendants->list[i].published != NULL) {
            attendants->list[i].published(service->attendants[i]);
        }
    }

    service->owner->published(service, changed);
}


/* Publishes the batch, in several rounds of the event loop if need be. */

void
ngx_etcd_service_publish(ngx_etcd_service_t *service)
{
    ngx_int_t                rc;
    ngx_etcd_commit_t        commit;
    ngx_etcd_member_diff_t  *diff;

    if (service->loading) {
        return;
    }

    diff = &service->diff;

    commit.until = ngx_etcd_time_budget_now() + NGX_ETCD_TIME_BUDGET;

    /* the guard looks at all keys that a list does not contain */

    if (!diff->broken
        && !(service->mirror.listing && service->conf->guard.hold != 0))
    {
        if ((service->source->proceed != NULL
             && service->source->proceed(service, commit.until) == NGX_AGAIN)
            || ngx_etcd_member_diff_gone(diff, commit.until) == NGX_AGAIN)
        {
            ngx_etcd_service_enqueue(service, &ngx_posted_next_events);
            return;
        }

        if (!diff->broken) {
            ngx_etcd_guard_passed(&service->guard);
        }
    }

    if (diff->broken) {
        ngx_add_timer(&service->retry, NGX_ETCD_SERVICE_BUSY);
        return;
    }

    ngx_etcd_service_commit(service, &commit);
    rc = ngx_etcd_guard_store(&service->guard);
    if (rc == NGX_OK) {
        rc = ngx_etcd_commit(diff->zone, diff->set, &commit);
    }

    diff->batch.done = commit.done;
    diff->batch.changed = commit.changed;
    service->busy = (rc == NGX_BUSY);

    switch (rc) {

    case NGX_OK:
        service->arrived = 0;
        ngx_etcd_service_published(service, commit.changed);
        return;

    case NGX_AGAIN:
        ngx_etcd_service_enqueue(service, &ngx_posted_next_events);
        return;

    case NGX_BUSY:
        ngx_add_timer(&service->retry, NGX_ETCD_SERVICE_BUSY);
        return;

    default: /* NGX_DECLINED */
        service->owner->lost(service->owner->data);
        return;
    }
}


ngx_uint_t
ngx_etcd_service_pending(ngx_etcd_service_t *service)
{
    return service->loading
           || service->publish.posted
           || service->busy
           || service->diff.broken;
}


void
ngx_etcd_service_post(ngx_etcd_service_t *service)
{
    ngx_etcd_service_enqueue(service, &ngx_posted_events);
}
