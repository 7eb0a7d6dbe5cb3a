
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_catalog.h>
#include <ngx_etcd_catalog_set.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_reload.h>


/* ms between looks for sets that have been empty for long enough */

#define NGX_ETCD_CATALOG_SWEEP  500


struct ngx_etcd_catalog_s {
    ngx_etcd_catalog_conf_t     *conf;
    ngx_etcd_zone_t             *zone;
    ngx_etcd_set_map_t          *map;
    ngx_etcd_fanout_t            fanout;
    ngx_etcd_hash_table_t        sets;         /* ngx_etcd_catalog_set_t */
    ngx_etcd_service_owner_t     owner;        /* of the services */
    ngx_etcd_dormant_t           dormant;

    ngx_queue_t                  publish;      /* sets to be published */
    ngx_queue_t                  empty;        /* sets that may go, the longest
                                                  empty first */
    ngx_event_t                  run;          /* posted: publishes sets */
    ngx_event_t                  sweep;        /* of empty sets */
    ngx_event_t                  again;        /* lists all keys again */

    uint32_t                     next;         /* of the map, while loading: of
                                                  ngx_etcd_set_map_walk() */
    ngx_etcd_catalog_set_t      *part;         /* the set being loaded, or
                                                  NULL */
    int64_t                      revision;     /* of the fan-out */
    int64_t                      resume;       /* from the map; 0: list */
    uint64_t                     verified;     /* ngx_etcd_clock() */
    ngx_uint_t                   npending;     /* sets that are not in the zone
                                                  yet */

    unsigned                     changed:1;    /* tell the workers */
    unsigned                     loading:1;
    unsigned                     retire:1;     /* a removed set is not freed
                                                  yet */

    ngx_etcd_catalog_report_t    report;
    void                       (*published)(void *data, ngx_uint_t changed);
};


static void
ngx_etcd_catalog_published(ngx_etcd_service_t *service, ngx_uint_t changed)
{
    ngx_etcd_catalog_t      *catalog;
    ngx_etcd_catalog_set_t  *set;

    if (!changed) {
        return;
    }

    set = ngx_etcd_catalog_set_of(service);
    catalog = set->catalog;

    catalog->changed = 1;

    ngx_etcd_catalog_report_changed(&catalog->report, set->conf.set);
}


/* A service has changes. */

static void
ngx_etcd_catalog_queue(ngx_etcd_service_t *service)
{
    ngx_etcd_catalog_t      *catalog;
    ngx_etcd_catalog_set_t  *set;

    set = ngx_etcd_catalog_set_of(service);
    catalog = set->catalog;

    /* a service that is being created is queued afterwards */

    if (catalog == NULL || set->queued) {
        return;
    }

    if (set->empty) {
        set->empty = 0;
        ngx_queue_remove(&set->queue);
    }

    set->queued = 1;
    ngx_queue_insert_tail(&catalog->publish, &set->queue);

    if (!set->pending) {
        set->pending = 1;
        catalog->npending++;
    }

    ngx_post_event(&catalog->run, &ngx_posted_events);
}


/* All that was reported is in the zone. */

static void
ngx_etcd_catalog_settled(ngx_etcd_catalog_t *catalog)
{
    if (!ngx_etcd_catalog_pending(catalog) && catalog->fanout.synced) {
        ngx_etcd_catalog_report_settled(&catalog->report, catalog->revision,
                                        catalog->verified);
    }
}


/* Called after an attempt to publish a set. */

static void
ngx_etcd_catalog_settle(ngx_etcd_catalog_set_t *set)
{
    ngx_etcd_catalog_t  *catalog;

    catalog = set->catalog;

    if (set->queued || ngx_etcd_service_pending(set->service)) {
        return;
    }

    if (set->pending) {
        set->pending = 0;
        catalog->npending--;

        ngx_etcd_catalog_settled(catalog);
    }

    if (set->empty || set->queued || !ngx_etcd_catalog_set_empty(set)) {
        return;
    }

    /*
     * The last key of a set is gone.  If requests wait for members
     * ("etcd_wait"), the set stays for as long as a request may wait.
     */

    set->empty = 1;
    set->emptied = ngx_current_msec;
    ngx_queue_insert_tail(&catalog->empty, &set->queue);

    if (!catalog->sweep.timer_set) {
        ngx_add_timer(&catalog->sweep, catalog->conf->linger == 0
                                       ? 1 : NGX_ETCD_CATALOG_SWEEP);
    }
}


/* Soon again, if the mutex is held. */

static void
ngx_etcd_catalog_store(ngx_etcd_catalog_t *catalog)
{
    if (ngx_etcd_catalog_report_store(&catalog->report) != NGX_OK
        && !catalog->sweep.timer_set)
    {
        ngx_add_timer(&catalog->sweep, NGX_ETCD_CATALOG_BUSY);
    }
}


/* Publishes sets, some at a time, and tells the workers once. */

static void
ngx_etcd_catalog_run(ngx_event_t *ev)
{
    uint64_t                 until;
    ngx_uint_t               changed;
    ngx_queue_t             *q;
    ngx_etcd_catalog_t      *catalog;
    ngx_etcd_catalog_set_t  *set;

    catalog = ev->data;
    until = ngx_etcd_time_budget_now() + NGX_ETCD_TIME_BUDGET;

    while (!ngx_queue_empty(&catalog->publish)) {
        q = ngx_queue_head(&catalog->publish);
        set = ngx_etcd_catalog_set_at(q);

        ngx_queue_remove(q);
        set->queued = 0;

        ngx_etcd_service_publish(set->service);
        ngx_etcd_catalog_settle(set);

        if (ngx_etcd_time_budget_now() >= until) {
            break;
        }
    }

    if (!ngx_queue_empty(&catalog->publish) && !ev->posted) {
        ngx_post_event(ev, &ngx_posted_next_events);
    }

    ngx_etcd_catalog_store(catalog);

    changed = catalog->changed;
    catalog->changed = 0;

    catalog->published(catalog->owner.data, changed);
}


static void
ngx_etcd_catalog_drop(ngx_etcd_catalog_set_t *set)
{
    ngx_etcd_catalog_t  *catalog;

    catalog = set->catalog;

    if (set->queued || set->empty) {
        ngx_queue_remove(&set->queue);
    }

    if (set->pending) {
        catalog->npending--;
    }

    ngx_etcd_dormant_remove(&set->dormant);
    ngx_etcd_fanout_remove(&catalog->fanout, &set->part);
    ngx_etcd_service_destroy(set->service);
    ngx_etcd_catalog_set_free(&catalog->sets, set);
}


static ngx_int_t
ngx_etcd_catalog_remove(ngx_etcd_catalog_set_t *set)
{
    ngx_etcd_catalog_t     *catalog;
    ngx_etcd_member_set_t  *former;

    catalog = set->catalog;
    former = set->conf.set;

    if (ngx_etcd_set_map_remove(catalog->zone, catalog->map, former)
        != NGX_OK)
    {
        return NGX_AGAIN;
    }

    ngx_etcd_catalog_drop(set);

    if (ngx_etcd_retire_one(catalog->zone, former,
                            ngx_etcd_time_budget_now() + NGX_ETCD_TIME_BUDGET)
        != NGX_OK)
    {
        catalog->retire = 1;
    }

    ngx_etcd_catalog_report_changed(&catalog->report, former);

    catalog->changed = 1;

    ngx_post_event(&catalog->run, &ngx_posted_events);

    /* there is room for a set that was beyond the limit */

    if (catalog->report.nover != 0 && !catalog->again.timer_set) {
        ngx_add_timer(&catalog->again, NGX_ETCD_CATALOG_FULL);
    }

    return NGX_OK;
}


static void
ngx_etcd_catalog_sweep(ngx_event_t *ev)
{
    uint64_t                 until;
    ngx_queue_t             *q;
    ngx_etcd_catalog_t      *catalog;
    ngx_etcd_catalog_set_t  *set;

    catalog = ev->data;
    until = ngx_etcd_time_budget_now() + NGX_ETCD_TIME_BUDGET;

    ngx_etcd_catalog_store(catalog);

    if (catalog->retire) {
        catalog->retire = (ngx_etcd_retire_sets(catalog->zone, until)
                           != NGX_OK);
    }

    while (!ngx_queue_empty(&catalog->empty)) {
        q = ngx_queue_head(&catalog->empty);
        set = ngx_etcd_catalog_set_at(q);

        if (ngx_current_msec - set->emptied < catalog->conf->linger
            || ngx_etcd_catalog_remove(set) != NGX_OK
            || ngx_etcd_time_budget_now() >= until)
        {
            break;
        }
    }

    if ((catalog->retire || !ngx_queue_empty(&catalog->empty))
        && !ev->timer_set)
    {
        ngx_add_timer(ev, ngx_queue_empty(&catalog->empty)
                          || catalog->conf->linger == 0
                          ? NGX_ETCD_CATALOG_BUSY : NGX_ETCD_CATALOG_SWEEP);
    }
}


static void
ngx_etcd_catalog_again(ngx_event_t *ev)
{
    ngx_etcd_catalog_t *catalog = ev->data;

    ngx_etcd_fanout_again(&catalog->fanout, 0);
}


static void
ngx_etcd_catalog_refused(ngx_etcd_catalog_t *catalog, ngx_str_t *prefix,
    ngx_int_t rc)
{
    if (rc == NGX_DECLINED) {
        ngx_etcd_catalog_report_over(&catalog->report, prefix);
        return;
    }

    if (rc == NGX_ERROR) {
        ngx_etcd_catalog_report_full(&catalog->report, prefix);
    }

    if (!catalog->again.timer_set) {
        ngx_add_timer(&catalog->again, (rc == NGX_ERROR)
                                       ? NGX_ETCD_CATALOG_FULL
                                       : NGX_ETCD_CATALOG_BUSY);
    }
}


/* A set of the map, with its service, which is not loaded yet. */

static ngx_etcd_catalog_set_t *
ngx_etcd_catalog_make(ngx_etcd_catalog_t *catalog, ngx_str_t *prefix,
    ngx_etcd_set_found_t *found)
{
    ngx_etcd_catalog_set_t  *set;

    set = ngx_etcd_catalog_set_create(&catalog->sets, prefix, found,
                                      &catalog->conf->service,
                                      &catalog->owner);
    if (set == NULL) {
        return NULL;
    }

    set->catalog = catalog;
    set->dormant.list = &catalog->dormant;

    ngx_etcd_fanout_add(&catalog->fanout, &set->part);

    return set;
}


static ngx_etcd_catalog_set_t *
ngx_etcd_catalog_add(ngx_etcd_catalog_t *catalog, ngx_str_t *prefix)
{
    ngx_int_t                rc;
    ngx_etcd_set_found_t     found;
    ngx_etcd_catalog_set_t  *set;

    rc = ngx_etcd_set_map_add(catalog->zone, catalog->map, prefix,
                              ngx_etcd_catalog_conf_waits(catalog->conf), 0,
                              &found);
    if (rc != NGX_OK) {
        ngx_etcd_catalog_refused(catalog, prefix, rc);
        return NULL;
    }

    set = ngx_etcd_catalog_make(catalog, prefix, &found);

    if (set == NULL) {

        /* the set stays in the map, and has no service until the next list */

        (void) ngx_etcd_set_map_remove(catalog->zone, catalog->map, found.set);
        ngx_etcd_catalog_refused(catalog, prefix, NGX_AGAIN);
        return NULL;
    }

    (void) ngx_etcd_service_load(set->service, 0);
    ngx_etcd_catalog_queue(set->service);

    return set;
}


static ngx_etcd_fanout_part_t *
ngx_etcd_catalog_find(ngx_etcd_fanout_t *fanout, ngx_str_t *key,
    ngx_uint_t create)
{
    ngx_str_t                prefix;
    ngx_etcd_catalog_t      *catalog;
    ngx_etcd_catalog_set_t  *set;

    catalog = fanout->data;

    prefix.data = key->data;
    prefix.len = ngx_etcd_pattern_match(&catalog->conf->pattern, key);

    if (prefix.len == 0) {
        if (create) {
            ngx_etcd_catalog_report_unmatched(&catalog->report, key);
        }

        return NULL;
    }

    set = ngx_etcd_hash_table_find(&catalog->sets, &prefix);

    if (set == NULL && create
        && ngx_etcd_catalog_conf_wants(catalog->conf, key, prefix.len))
    {
        set = ngx_etcd_catalog_add(catalog, &prefix);
    }

    return (set != NULL) ? &set->part : NULL;
}


/* The audit asks for keys that the catalog should have. */

static ngx_uint_t
ngx_etcd_catalog_wants(void *data, ngx_str_t *key)
{
    ngx_etcd_fanout_t *fanout = data;

    ngx_str_t            prefix;
    ngx_etcd_catalog_t  *catalog;

    catalog = fanout->data;

    prefix.data = key->data;
    prefix.len = ngx_etcd_pattern_match(&catalog->conf->pattern, key);

    if (prefix.len == 0
        || !ngx_etcd_catalog_conf_wants(catalog->conf, key, prefix.len))
    {
        return 0;
    }

    return catalog->report.nover == 0
           || ngx_etcd_hash_table_find(&catalog->sets, &prefix) != NULL;
}


static void
ngx_etcd_catalog_list(ngx_etcd_fanout_t *fanout)
{
    ngx_etcd_catalog_t  *catalog;

    catalog = fanout->data;

    catalog->report.nover = 0;
    catalog->report.nunmatched = 0;
}


/* All keys of etcd were seen, unless a list is to come for lack of a lock. */

void
ngx_etcd_catalog_proved(ngx_etcd_catalog_t *catalog)
{
    ngx_etcd_set_map_t  *map;

    map = catalog->map;

    if (!catalog->fanout.synced
        || catalog->report.state == NGX_ETCD_MEMBER_SET_DENIED
        || catalog->again.timer_set
        || catalog->report.nover != 0
        || map->listed
        || map->over != 0
        || ngx_etcd_zone_lock_owned(catalog->zone, 0) != NGX_OK)
    {
        return;
    }

    __atomic_store_n(&map->listed, 1, __ATOMIC_RELEASE);

    ngx_etcd_zone_unlock(catalog->zone);

    /* requests may wait for this */

    catalog->changed = 1;
    ngx_post_event(&catalog->run, &ngx_posted_events);
}


static void
ngx_etcd_catalog_complete(ngx_etcd_fanout_t *fanout, int64_t revision)
{
    ngx_etcd_catalog_t  *catalog;

    catalog = fanout->data;
    catalog->revision = revision;

    ngx_etcd_catalog_report_listed(&catalog->report);
    ngx_etcd_catalog_store(catalog);

    if (fanout->list_revision != 0) {
        ngx_etcd_catalog_proved(catalog);
    }

    ngx_etcd_catalog_settled(catalog);

    /* also without a change: the position in etcd has moved */

    ngx_post_event(&catalog->run, &ngx_posted_events);
}


static void
ngx_etcd_catalog_denied(ngx_etcd_fanout_t *fanout,
    ngx_etcd_grpc_status_e status)
{
    ngx_etcd_catalog_t *catalog = fanout->data;

    if (status == NGX_ETCD_GRPC_PERMISSION_DENIED) {
        catalog->report.state = NGX_ETCD_MEMBER_SET_DENIED;
        ngx_etcd_catalog_store(catalog);
    }
}


static void
ngx_etcd_catalog_verified(ngx_etcd_watch_t *watch, uint64_t time)
{
    ngx_etcd_fanout_t   *fanout;
    ngx_etcd_catalog_t  *catalog;

    fanout = watch->data;
    catalog = fanout->data;

    catalog->verified = time;

    ngx_etcd_catalog_settled(catalog);
}


ngx_etcd_catalog_t *
ngx_etcd_catalog_create(ngx_etcd_catalog_conf_t *conf, ngx_pool_t *pool,
    ngx_etcd_catalog_published_pt published, void (*lost)(void *data),
    void *data, ngx_log_t *log)
{
    u_char              *p;
    ngx_str_t           *name;
    ngx_etcd_fanout_t   *fanout;
    ngx_etcd_catalog_t  *catalog;

    name = &conf->service.name;

    catalog = ngx_pcalloc(pool, sizeof(ngx_etcd_catalog_t));
    p = ngx_pnalloc(pool, sizeof("etcd: upstream \"\"") - 1 + name->len);

    if (catalog == NULL || p == NULL) {
        return NULL;
    }

    catalog->conf = conf;
    catalog->zone = conf->service.zone;
    catalog->map = conf->map;
    catalog->published = published;

    catalog->report.conf = conf;
    catalog->report.log = log;
    catalog->report.state = conf->map->state;
    catalog->report.nover = conf->map->over;
    catalog->report.nunmatched = conf->map->unmatched;

    catalog->owner.published = ngx_etcd_catalog_published;
    catalog->owner.queue = ngx_etcd_catalog_queue;
    catalog->owner.dormant = ngx_etcd_catalog_set_sleep;
    catalog->owner.idle = 2 * conf->idle;
    catalog->owner.lost = lost;
    catalog->owner.data = data;
    catalog->owner.log = log;

    ngx_etcd_hash_table_init(&catalog->sets, log);
    ngx_queue_init(&catalog->publish);
    ngx_queue_init(&catalog->empty);
    ngx_etcd_dormant_init(&catalog->dormant, catalog->map, log);

    ngx_etcd_event_init(&catalog->run, ngx_etcd_catalog_run, catalog, log);

    ngx_etcd_event_init_timer(&catalog->sweep, ngx_etcd_catalog_sweep, catalog,
                              log);

    ngx_etcd_event_init_timer(&catalog->again, ngx_etcd_catalog_again, catalog,
                              log);

    fanout = &catalog->fanout;

    fanout->name.data = p;
    fanout->name.len = ngx_sprintf(p, "etcd: upstream \"%V\"", name) - p;
    fanout->find = ngx_etcd_catalog_find;
    fanout->wants = ngx_etcd_catalog_wants;
    fanout->list = ngx_etcd_catalog_list;
    fanout->complete = ngx_etcd_catalog_complete;
    fanout->denied = ngx_etcd_catalog_denied;
    fanout->data = catalog;

    fanout->watch.range.prefix = conf->pattern.literal;
    fanout->watch.verified = ngx_etcd_catalog_verified;

    if (conf->service.source->verified) {
        fanout->watch.verify_interval =
                                  ngx_etcd_service_interval(&conf->service);
    }

    ngx_etcd_fanout_init(fanout, log);

    catalog->loading = 1;
    catalog->resume = conf->service.source->indexed ? conf->map->revision : 0;

    return catalog;
}


/* Makes the next set of the map, or goes on with it; NGX_DONE: all are made. */

static ngx_int_t
ngx_etcd_catalog_load_set(ngx_etcd_catalog_t *catalog, uint64_t until)
{
    u_char                   buf[NGX_ETCD_PATTERN_PREFIX];
    ngx_int_t                rc;
    ngx_str_t                prefix;
    ngx_etcd_set_found_t     found;
    ngx_etcd_catalog_set_t  *set;

    set = catalog->part;

    if (set == NULL) {
        prefix.data = buf;

        rc = ngx_etcd_set_map_walk(catalog->zone, catalog->map, &catalog->next,
                                   &found, &prefix);
        if (rc != NGX_OK) {
            return rc;
        }

        set = ngx_etcd_catalog_make(catalog, &prefix, &found);
        if (set == NULL) {
            return NGX_ERROR;
        }

        catalog->part = set;
    }

    rc = ngx_etcd_service_load(set->service, until);

    if (rc != NGX_OK) {
        return rc;
    }

    catalog->part = NULL;

    if (ngx_etcd_service_revision(set->service) == 0) {
        catalog->resume = 0;
    }

    ngx_etcd_catalog_queue(set->service);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_catalog_load(ngx_etcd_catalog_t *catalog,
    ngx_etcd_watch_stream_t *stream, uint64_t until)
{
    ngx_int_t  rc;

    while (catalog->loading) {

        rc = ngx_etcd_catalog_load_set(catalog, until);

        if (rc == NGX_DONE) {
            break;
        }

        if (rc != NGX_OK) {
            return rc;
        }

        if (ngx_etcd_time_budget_now() >= until) {
            return NGX_AGAIN;
        }
    }

    if (!catalog->loading) {
        return NGX_OK;
    }

    catalog->loading = 0;

    /* a former owner may have been killed before it told the workers */

    catalog->report.missed = 1;

    catalog->revision = catalog->resume;
    catalog->fanout.watch.revision = catalog->resume;

    return ngx_etcd_fanout_start(&catalog->fanout, stream);
}


ngx_uint_t
ngx_etcd_catalog_pending(ngx_etcd_catalog_t *catalog)
{
    return catalog->loading
           || catalog->npending != 0
           || ngx_etcd_fanout_pending(&catalog->fanout);
}


void
ngx_etcd_catalog_destroy(ngx_etcd_catalog_t *catalog)
{
    ngx_queue_t             *q;
    ngx_etcd_catalog_set_t  *set;

    while (!ngx_queue_empty(&catalog->fanout.parts)) {
        q = ngx_queue_head(&catalog->fanout.parts);
        set = (ngx_etcd_catalog_set_t *)
              ((u_char *) q - offsetof(ngx_etcd_catalog_set_t, part.queue));

        ngx_etcd_catalog_drop(set);
    }

    ngx_etcd_hash_table_done(&catalog->sets);
    ngx_etcd_fanout_stop(&catalog->fanout);
    ngx_etcd_event_stop(&catalog->dormant.look);

    ngx_etcd_event_stop(&catalog->run);
    ngx_etcd_event_stop(&catalog->sweep);
    ngx_etcd_event_stop(&catalog->again);
}
