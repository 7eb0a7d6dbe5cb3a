
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_escape.h>
#include <ngx_etcd_service.h>
#include <ngx_etcd_clock.h>


static void ngx_etcd_audit_schedule(ngx_etcd_audit_t *audit);
static void ngx_etcd_audit_timer(ngx_event_t *ev);
static void ngx_etcd_audit_begin(ngx_etcd_audit_t *audit);
static void ngx_etcd_audit_answer(ngx_etcd_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response, ngx_pool_t *pool);
static void ngx_etcd_audit_settled(ngx_etcd_audit_t *audit);
static void ngx_etcd_audit_list(ngx_etcd_audit_t *audit);
static ngx_uint_t ngx_etcd_audit_undisturbed(ngx_etcd_audit_t *audit);

static void ngx_etcd_audit_list_begin(ngx_etcd_list_t *list);
static ngx_int_t ngx_etcd_audit_list_keys(ngx_etcd_list_t *list,
    Etcd__KeyValue **kvs, size_t n);
static void ngx_etcd_audit_list_done(ngx_etcd_list_t *list,
    ngx_etcd_grpc_status_e status, ngx_str_t *text, int64_t revision);
static void ngx_etcd_audit_key(ngx_etcd_audit_t *audit, Etcd__KeyValue *kv);
static ngx_uint_t ngx_etcd_audit_known(ngx_etcd_audit_t *audit,
    ngx_str_t *name, uint64_t *created, uint64_t *modified);
static void ngx_etcd_audit_missing(ngx_etcd_audit_t *audit);
static void ngx_etcd_audit_candidates(ngx_etcd_audit_t *audit);
static void ngx_etcd_audit_part(void *data, ngx_etcd_part_t *part,
    ngx_str_t *path);
static void ngx_etcd_audit_found(ngx_etcd_audit_t *audit, ngx_str_t *key);
static void ngx_etcd_audit_repair(ngx_etcd_audit_t *audit);


void
ngx_etcd_audit_init(ngx_etcd_audit_t *audit, ngx_etcd_service_t *service)
{
    audit->service = service;

    audit->timer.handler = ngx_etcd_audit_timer;
    audit->timer.data = audit;
    audit->timer.log = service->log;
    audit->timer.cancelable = 1;

    audit->range.done = ngx_etcd_audit_answer;
    audit->range.data = audit;

    ngx_etcd_watch_set_list(&service->watch, &audit->list);

    audit->list.keys_only = 1;
    audit->list.begin = ngx_etcd_audit_list_begin;
    audit->list.keys = ngx_etcd_audit_list_keys;
    audit->list.done = ngx_etcd_audit_list_done;
    audit->list.data = audit;

    ngx_etcd_audit_schedule(audit);
}


void
ngx_etcd_audit_done(ngx_etcd_audit_t *audit)
{
    switch (audit->state) {

    case NGX_ETCD_AUDIT_ASKING:
        ngx_etcd_range_cancel(&audit->range);
        break;

    case NGX_ETCD_AUDIT_LISTING:
        ngx_etcd_list_cancel(&audit->list);
        break;

    default:
        break;
    }

    audit->state = NGX_ETCD_AUDIT_IDLE;

    if (audit->timer.timer_set) {
        ngx_del_timer(&audit->timer);
    }

    if (audit->pool != NULL) {
        ngx_destroy_pool(audit->pool);
        audit->pool = NULL;
    }
}


void
ngx_etcd_audit_void(ngx_etcd_audit_t *audit)
{
    if (audit->state != NGX_ETCD_AUDIT_IDLE) {
        ngx_etcd_audit_schedule(audit);
    }
}


/* a quarter of chance: many instances, and services, spread over the time */

static void
ngx_etcd_audit_schedule(ngx_etcd_audit_t *audit)
{
    ngx_msec_t  interval;

    ngx_etcd_audit_done(audit);

    interval = audit->list.cluster->conf->audit_interval;

    if (interval != 0) {
        interval -= (ngx_msec_t) ngx_random() % (interval / 4 + 1);
        ngx_add_timer(&audit->timer, ngx_max(interval, 1));
    }
}


static void
ngx_etcd_audit_timer(ngx_event_t *ev)
{
    ngx_etcd_audit_t  *audit;

    audit = ev->data;

    if (audit->state == NGX_ETCD_AUDIT_SETTLING) {
        ngx_etcd_audit_settled(audit);
        return;
    }

    ngx_etcd_audit_begin(audit);
}


static void
ngx_etcd_audit_begin(ngx_etcd_audit_t *audit)
{
    audit->creates = audit->service->watch.creates;

    if (ngx_etcd_audit_undisturbed(audit)) {
        audit->pool = ngx_create_pool(1024, audit->service->log);
    }

    if (audit->pool == NULL) {
        ngx_etcd_audit_schedule(audit);
        return;
    }

    ngx_rbtree_init(&audit->deleted, &audit->sentinel,
                    ngx_str_rbtree_insert_value);

    audit->ndeleted = 0;
    audit->found = 0;
    audit->mark++;

    audit->state = NGX_ETCD_AUDIT_ASKING;

    ngx_etcd_watch_set_range(&audit->service->watch, &audit->range);
    audit->range.request.count_only = 1;

    ngx_etcd_range_start(&audit->range);
}


static void
ngx_etcd_audit_answer(ngx_etcd_range_t *range, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, Etcd__RangeResponse *response, ngx_pool_t *pool)
{
    ngx_etcd_audit_t  *audit;

    audit = range->data;
    audit->state = NGX_ETCD_AUDIT_SETTLING;
    audit->revision = 0;
    audit->asked = ngx_etcd_clock();

    if (response != NULL) {

        if (response->header != NULL) {
            audit->revision = response->header->revision;
        }

        ngx_destroy_pool(pool);
    }

    if (audit->revision <= 0) {
        ngx_log_error(NGX_LOG_INFO, audit->service->log, 0,
                      "etcd: upstream \"%V\": no audit: %s: %V",
                      &audit->service->conf->name,
                      ngx_etcd_grpc_status_name(status), text);

        ngx_etcd_audit_schedule(audit);
        return;
    }

    if (audit->service->watch.revision >= audit->revision) {
        ngx_etcd_audit_list(audit);
        return;
    }

    ngx_etcd_fresh_ask(&audit->service->watch.watcher->fresh);
    ngx_add_timer(&audit->timer, NGX_ETCD_AUDIT_SETTLE);
}


/* all that was sent before the revision was asked for should be here */

static void
ngx_etcd_audit_settled(ngx_etcd_audit_t *audit)
{
    if (audit->service->watch.revision < audit->revision
        && audit->list.cluster->proved < audit->asked)
    {
        ngx_log_debug2(NGX_LOG_DEBUG_EVENT, audit->service->log, 0,
                       "etcd audit \"%V\": put off, nothing proves that the "
                       "watch has passed revision %L",
                       &audit->service->conf->name, audit->revision);

        ngx_etcd_audit_schedule(audit);
        return;
    }

    ngx_etcd_audit_list(audit);
}


static void
ngx_etcd_audit_list(ngx_etcd_audit_t *audit)
{
    if (!ngx_etcd_audit_undisturbed(audit)) {
        ngx_etcd_audit_schedule(audit);
        return;
    }

    audit->state = NGX_ETCD_AUDIT_LISTING;
    audit->list.pinned = audit->revision;
    audit->list.limit = NGX_ETCD_AUDIT_PAGE;

    ngx_etcd_list_start(&audit->list);
}


/*
 * What the watch has passed it may have to go through again; and a set that is
 * not complete is known to differ.
 */

static ngx_uint_t
ngx_etcd_audit_undisturbed(ngx_etcd_audit_t *audit)
{
    ngx_etcd_service_t  *service;

    service = audit->service;

    return !service->broken
           && service->set->state == NGX_ETCD_SET_SYNCED
           && ngx_etcd_watch_active(&service->watch)
           && service->watch.creates == audit->creates;
}


static void
ngx_etcd_audit_list_begin(ngx_etcd_list_t *list)
{
    /* nothing is kept of a list */
}


static ngx_int_t
ngx_etcd_audit_list_keys(ngx_etcd_list_t *list, Etcd__KeyValue **kvs, size_t n)
{
    size_t             i;
    ngx_etcd_audit_t  *audit;

    audit = list->data;

    if (!ngx_etcd_audit_undisturbed(audit)) {
        return NGX_ERROR;
    }

    for (i = 0; i < n; i++) {
        ngx_etcd_watch_strip(&audit->service->watch, kvs[i]);
        ngx_etcd_audit_key(audit, kvs[i]);
    }

    return NGX_OK;
}


static void
ngx_etcd_audit_list_done(ngx_etcd_list_t *list, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, int64_t revision)
{
    ngx_etcd_audit_t  *audit;

    audit = list->data;

    if (status != NGX_ETCD_GRPC_OK || !ngx_etcd_audit_undisturbed(audit)) {
        ngx_log_error(NGX_LOG_INFO, audit->service->log, 0,
                      "etcd: upstream \"%V\": audit at revision %L was not "
                      "completed: %s: %V", &audit->service->conf->name,
                      audit->revision, ngx_etcd_grpc_status_name(status),
                      text);

        ngx_etcd_audit_schedule(audit);
        return;
    }

    if (audit->service->leader != NULL) {
        ngx_etcd_audit_candidates(audit);

    } else if (audit->service->groups != NULL) {
        ngx_etcd_groups_missing(audit->service->groups, audit->mark,
                                ngx_etcd_audit_part, audit);

    } else {
        ngx_etcd_audit_missing(audit);
    }

    if (audit->found != 0) {
        ngx_etcd_audit_repair(audit);

    } else {
        ngx_log_error(NGX_LOG_INFO, audit->service->log, 0,
                      "etcd: upstream \"%V\": audit at revision %L found "
                      "nothing", &audit->service->conf->name, audit->revision);
    }

    ngx_etcd_audit_schedule(audit);
}


static void
ngx_etcd_audit_key(ngx_etcd_audit_t *audit, Etcd__KeyValue *kv)
{
    uint32_t   hash;
    uint64_t   created, modified;
    ngx_str_t  name;

    name.data = kv->key.data;
    name.len = kv->key.len;

    if (audit->service->leader != NULL
        && !ngx_etcd_leader_wants(audit->service->leader, &name))
    {
        return;
    }

    if (audit->service->groups != NULL
        && !ngx_etcd_groups_wants(audit->service->groups, &name))
    {
        return;
    }

    if (!ngx_etcd_audit_known(audit, &name, &created, &modified)) {
        hash = ngx_murmur_hash2(name.data, name.len);

        if (ngx_str_rbtree_lookup(&audit->deleted, &name, hash) == NULL) {
            ngx_etcd_audit_found(audit, &name);
        }

        return;
    }

    if (modified > (uint64_t) audit->revision) {
        return;
    }

    if (modified != (uint64_t) kv->mod_revision
        || (created != 0 && created != (uint64_t) kv->create_revision))
    {
        ngx_etcd_audit_found(audit, &name);
    }
}


/*
 * 1 if the key is known, and as of which revisions: a create_revision of 0 is
 * not known.  Of a key that is invalid now, the members may be of an earlier
 * one.
 */

static ngx_uint_t
ngx_etcd_audit_known(ngx_etcd_audit_t *audit, ngx_str_t *name,
    uint64_t *created, uint64_t *modified)
{
    ngx_etcd_key_t         *key;
    ngx_etcd_part_t        *part;
    ngx_etcd_service_t     *service;
    ngx_etcd_leader_key_t  *candidate;

    service = audit->service;

    if (service->groups != NULL) {
        part = ngx_etcd_groups_find(service->groups, name);
        if (part == NULL) {
            return 0;
        }

        part->audited = audit->mark;
        *created = part->create_revision;
        *modified = part->mod_revision;

        return 1;
    }

    if (service->leader != NULL) {
        candidate = ngx_etcd_leader_find(service->leader, name);
        if (candidate == NULL) {
            return 0;
        }

        candidate->audited = audit->mark;
        *created = candidate->create_revision;
        *modified = candidate->mod_revision;

        return 1;
    }

    key = ngx_etcd_index_find(&service->index, name);
    if (key == NULL || key->gone) {
        return 0;
    }

    ngx_etcd_index_audited(&service->index, key, audit->mark);

    *created = (!key->invalid && key->regs != NULL)
               ? key->regs->entry->create_revision : 0;
    *modified = key->revision;

    return 1;
}


/*
 * Keys that were listed have gone to the end of the queue, and new ones were
 * put there.
 */

static void
ngx_etcd_audit_missing(ngx_etcd_audit_t *audit)
{
    ngx_queue_t     *q;
    ngx_etcd_key_t  *key;

    for (q = ngx_queue_head(&audit->service->index.present);
         q != ngx_queue_sentinel(&audit->service->index.present);
         q = ngx_queue_next(q))
    {
        key = ngx_queue_data(q, ngx_etcd_key_t, queue);

        if (key->audited == audit->mark) {
            break;
        }

        if (key->revision <= (uint64_t) audit->revision) {
            ngx_etcd_audit_found(audit, &key->name);
        }
    }
}


static void
ngx_etcd_audit_candidates(ngx_etcd_audit_t *audit)
{
    ngx_queue_t            *q;
    ngx_etcd_leader_t      *leader;
    ngx_etcd_leader_key_t  *candidate;

    leader = audit->service->leader;

    for (q = ngx_queue_head(&leader->candidates);
         q != ngx_queue_sentinel(&leader->candidates);
         q = ngx_queue_next(q))
    {
        candidate = ngx_queue_data(q, ngx_etcd_leader_key_t, queue);

        if (candidate->audited != audit->mark
            && candidate->mod_revision <= (uint64_t) audit->revision)
        {
            ngx_etcd_audit_found(audit, &candidate->sn.str);
        }
    }
}


static void
ngx_etcd_audit_part(void *data, ngx_etcd_part_t *part, ngx_str_t *path)
{
    ngx_etcd_audit_t *audit = data;

    if (part->mod_revision <= (uint64_t) audit->revision) {
        ngx_etcd_audit_found(audit, path);
    }
}


static void
ngx_etcd_audit_found(ngx_etcd_audit_t *audit, ngx_str_t *key)
{
    if (audit->found++ == 0) {
        audit->first_len = ngx_min(key->len, NGX_ETCD_AUDIT_SHOWN);
        ngx_memcpy(audit->first, key->data, audit->first_len);
    }
}


static void
ngx_etcd_audit_repair(ngx_etcd_audit_t *audit)
{
    ngx_etcd_cluster_t  *cluster;
    ngx_etcd_service_t  *service;

    service = audit->service;

    ngx_log_error(NGX_LOG_WARN, service->log, 0,
                  "etcd: upstream \"%V\": prefix \"%V\": %ui keys were not "
                  "what etcd had at revision %L, first \"%V\", reading "
                  "all again", &service->conf->name, &service->watch.prefix,
                  audit->found, audit->revision,
                  ngx_etcd_shown_bytes(audit->first, audit->first_len));

    cluster = audit->list.cluster;
    cluster->repairs += audit->found;
    cluster->changed(cluster->data);

    service->watch.foreign = 1;
    ngx_etcd_watch_again(&service->watch, 0);
}


void
ngx_etcd_audit_deleted(ngx_etcd_audit_t *audit, ngx_str_t *key)
{
    ngx_str_node_t  *sn;

    if (audit->state == NGX_ETCD_AUDIT_IDLE) {
        return;
    }

    if (audit->ndeleted++ == NGX_ETCD_AUDIT_DELETED) {
        ngx_etcd_audit_schedule(audit);
        return;
    }

    sn = ngx_palloc(audit->pool, sizeof(ngx_str_node_t) + key->len);
    if (sn == NULL) {
        ngx_etcd_audit_schedule(audit);
        return;
    }

    sn->str.len = key->len;
    sn->str.data = (u_char *) (sn + 1);
    ngx_memcpy(sn->str.data, key->data, key->len);

    sn->node.key = ngx_murmur_hash2(key->data, key->len);

    ngx_rbtree_insert(&audit->deleted, &sn->node);
}
