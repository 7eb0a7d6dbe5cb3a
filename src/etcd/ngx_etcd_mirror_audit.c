
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_mirror_audit.h>
#include <ngx_etcd_str.h>


typedef enum {
    NGX_ETCD_MIRROR_AUDIT_ASKING = 0,   /* the revision is requested */
    NGX_ETCD_MIRROR_AUDIT_REACHING,     /* until the endpoint has reached the
                                           revision */
    NGX_ETCD_MIRROR_AUDIT_SETTLING,     /* until its events have come, or
                                           should have */
    NGX_ETCD_MIRROR_AUDIT_LISTING
} ngx_etcd_mirror_audit_state_e;


struct ngx_etcd_mirror_audit_run_s {
    ngx_etcd_mirror_audit_state_e  state;
    ngx_pool_t                    *pool;       /* of this structure */
    ngx_etcd_range_t               range;
    ngx_etcd_list_t                list;
    ngx_uint_t                     creates;    /* watch->creates when the audit
                                                  began */
    int64_t                        revision;
    uint64_t                       asked;      /* ngx_etcd_clock() of the
                                                  answer */

    ngx_rbtree_t                   deleted;    /* keys */
    ngx_rbtree_node_t              sentinel;
    ngx_uint_t                     ndeleted;

    ngx_etcd_mirror_entry_t       *entry;      /* the next one to look at;
                                                  NULL: end */
    unsigned                       looking:1;  /* for entries whose keys are not
                                                  in etcd */

    ngx_uint_t                     found;      /* number of differences */
    size_t                         first_len;
    u_char                         first[NGX_ETCD_MIRROR_AUDIT_SHOWN];
};


/* after another create, the watch may repeat events, or lack some */

static ngx_uint_t
ngx_etcd_mirror_audit_undisturbed(ngx_etcd_mirror_audit_t *audit)
{
    return audit->revision(audit->data) != 0
           && ngx_etcd_watch_active(audit->watch)
           && audit->watch->creates == audit->run->creates;
}


/*
 * Shortens the interval by up to a quarter, at random: the audits of many
 * mirrors and instances do not coincide.
 */

static void
ngx_etcd_mirror_audit_schedule(ngx_etcd_mirror_audit_t *audit)
{
    ngx_msec_t  interval;

    ngx_etcd_mirror_audit_stop(audit);

    interval = audit->watch->stream->cluster->conf->audit_interval;

    if (interval != 0) {
        interval -= (ngx_msec_t) ngx_random() % (interval / 4 + 1);
        ngx_add_timer(&audit->timer, ngx_max(interval, 1));
    }
}


static void
ngx_etcd_mirror_audit_list(ngx_etcd_mirror_audit_t *audit)
{
    ngx_etcd_mirror_audit_run_t  *run;

    if (!ngx_etcd_mirror_audit_undisturbed(audit)) {
        ngx_etcd_mirror_audit_schedule(audit);
        return;
    }

    run = audit->run;

    run->state = NGX_ETCD_MIRROR_AUDIT_LISTING;
    run->list.pinned = run->revision;

    ngx_etcd_list_start(&run->list);
}


/*
 * All events before the revision should have arrived, unless the endpoint
 * itself has not reached the revision: such an endpoint is alive all the same.
 * One that has just reached it tells each watch in a message of its own.
 */

static void
ngx_etcd_mirror_audit_settled(ngx_etcd_mirror_audit_t *audit)
{
    ngx_etcd_mirror_audit_run_t  *run;

    run = audit->run;

    if (audit->revision(audit->data) >= run->revision) {
        ngx_etcd_mirror_audit_list(audit);
        return;
    }

    if (audit->watch->stream->cluster->proved < run->asked
        || audit->watch->stream->reached < run->revision)
    {
        ngx_log_debug2(NGX_LOG_DEBUG_EVENT, audit->log, 0,
                       "etcd mirror \"%V\": audit put off, nothing proves "
                       "that the watch has passed revision %L",
                       &audit->watch->prefix, run->revision);

        ngx_etcd_mirror_audit_schedule(audit);
        return;
    }

    if (run->state == NGX_ETCD_MIRROR_AUDIT_REACHING) {
        run->state = NGX_ETCD_MIRROR_AUDIT_SETTLING;
        ngx_add_timer(&audit->timer, NGX_ETCD_MIRROR_AUDIT_SETTLE);
        return;
    }

    ngx_etcd_mirror_audit_list(audit);
}


static void
ngx_etcd_mirror_audit_answer(ngx_etcd_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response, ngx_pool_t *pool)
{
    ngx_etcd_mirror_audit_t      *audit;
    ngx_etcd_mirror_audit_run_t  *run;

    audit = range->data;
    run = audit->run;

    run->state = NGX_ETCD_MIRROR_AUDIT_REACHING;
    run->asked = ngx_etcd_clock();

    if (response != NULL) {

        if (response->header != NULL) {
            run->revision = response->header->revision;
        }

        ngx_destroy_pool(pool);
    }

    if (run->revision <= 0) {
        ngx_log_error(NGX_LOG_INFO, audit->log, 0,
                      "%V: no audit: %s: %V", audit->name,
                      ngx_etcd_grpc_status_name(status), text);

        ngx_etcd_mirror_audit_schedule(audit);
        return;
    }

    if (audit->revision(audit->data) >= run->revision) {
        ngx_etcd_mirror_audit_list(audit);
        return;
    }

    ngx_etcd_fresh_ask(&audit->watch->stream->fresh);
    ngx_add_timer(&audit->timer, NGX_ETCD_MIRROR_AUDIT_SETTLE);
}


static void
ngx_etcd_mirror_audit_found(ngx_etcd_mirror_audit_run_t *run, ngx_str_t *key)
{
    if (run->found++ == 0) {
        run->first_len = ngx_min(key->len, NGX_ETCD_MIRROR_AUDIT_SHOWN);
        ngx_memcpy(run->first, key->data, run->first_len);
    }
}


static void
ngx_etcd_mirror_audit_look(ngx_etcd_mirror_audit_t *audit)
{
    ngx_etcd_mirror_entry_t      *entry;
    ngx_etcd_mirror_audit_run_t  *run;

    run = audit->run;
    entry = run->entry;

    if (entry->audited != audit->mark && entry->mod_revision <= run->revision) {
        ngx_etcd_mirror_audit_found(run, &entry->key);
    }

    run->entry = audit->next(audit->data, entry);
}


/*
 * Finds the entries whose keys are not in etcd.  NGX_AGAIN: others are left.
 * Events may come in between.
 */

static ngx_int_t
ngx_etcd_mirror_audit_missing(ngx_etcd_mirror_audit_t *audit)
{
    uint64_t                      until;
    ngx_uint_t                    n;
    ngx_etcd_mirror_audit_run_t  *run;

    run = audit->run;

    if (!run->looking) {
        run->looking = 1;
        run->entry = audit->next(audit->data, NULL);
    }

    until = ngx_etcd_time_budget_now() + NGX_ETCD_TIME_BUDGET;

    for (n = 1; run->entry != NULL; n++) {

        ngx_etcd_mirror_audit_look(audit);

        if (n == audit->piece || ngx_etcd_time_budget_now() >= until) {
            return NGX_AGAIN;
        }
    }

    return NGX_OK;
}


static void
ngx_etcd_mirror_audit_key(ngx_etcd_mirror_audit_t *audit, Etcd__KeyValue *kv)
{
    uint32_t                      hash;
    ngx_str_t                     key;
    ngx_etcd_mirror_entry_t      *entry;
    ngx_etcd_mirror_audit_run_t  *run;

    run = audit->run;

    key = ngx_etcd_bytes_str(&kv->key);

    if (!audit->wants(audit->data, &key)) {
        return;
    }

    entry = audit->find(audit->data, &key);

    if (entry == NULL) {
        hash = ngx_murmur_hash2(key.data, key.len);

        if (ngx_str_rbtree_lookup(&run->deleted, &key, hash) == NULL) {
            ngx_etcd_mirror_audit_found(run, &key);
        }

        return;
    }

    entry->audited = audit->mark;

    if (entry->mod_revision <= run->revision
        && (entry->mod_revision != kv->mod_revision
            || (entry->create_revision != 0
                && entry->create_revision != kv->create_revision)))
    {
        ngx_etcd_mirror_audit_found(run, &key);
    }
}


static ngx_int_t
ngx_etcd_mirror_audit_list_keys(ngx_etcd_list_t *list, Etcd__KeyValue **kvs,
    size_t n)
{
    size_t                    i;
    ngx_etcd_mirror_audit_t  *audit;

    audit = list->data;

    if (!ngx_etcd_mirror_audit_undisturbed(audit)) {
        return NGX_ERROR;
    }

    if (n == 0) {
        return ngx_etcd_mirror_audit_missing(audit);
    }

    for (i = 0; i < n; i++) {
        ngx_etcd_watch_range_strip(&audit->watch->range, &kvs[i]->key);
        ngx_etcd_mirror_audit_key(audit, kvs[i]);
    }

    return NGX_OK;
}


static void
ngx_etcd_mirror_audit_repair(ngx_etcd_mirror_audit_t *audit)
{
    ngx_etcd_cluster_t           *cluster;
    ngx_etcd_mirror_audit_run_t  *run;

    run = audit->run;
    cluster = audit->watch->stream->cluster;

    ngx_log_error(NGX_LOG_WARN, audit->log, 0,
                  "%V: %s \"%V\": %ui keys differ from etcd at revision %L, "
                  "first \"%V\", listing again", audit->name,
                  audit->watch->exact ? "key" : "prefix",
                  &audit->watch->prefix, run->found, run->revision,
                  ngx_etcd_shown_bytes(run->first, run->first_len));

    cluster->repairs += run->found;
    cluster->changed(cluster->data);

    /* calls ngx_etcd_mirror_audit_void(), which ends this audit */

    audit->differs(audit->data);
}


static void
ngx_etcd_mirror_audit_list_done(ngx_etcd_list_t *list,
    ngx_etcd_grpc_status_e status, ngx_str_t *text, int64_t revision)
{
    ngx_etcd_mirror_audit_t      *audit;
    ngx_etcd_mirror_audit_run_t  *run;

    audit = list->data;
    run = audit->run;

    if (status != NGX_ETCD_GRPC_OK
        || !ngx_etcd_mirror_audit_undisturbed(audit))
    {
        ngx_log_error(NGX_LOG_INFO, audit->log, 0,
                      "%V: audit at revision %L was not completed: %s: %V",
                      audit->name, run->revision,
                      ngx_etcd_grpc_status_name(status), text);

        ngx_etcd_mirror_audit_schedule(audit);
        return;
    }

    if (run->found != 0) {
        ngx_etcd_mirror_audit_repair(audit);
        return;
    }

    ngx_log_error(NGX_LOG_INFO, audit->log, 0,
                  "%V: audit at revision %L found nothing", audit->name,
                  run->revision);

    ngx_etcd_mirror_audit_schedule(audit);
}


static ngx_etcd_mirror_audit_run_t *
ngx_etcd_mirror_audit_run(ngx_etcd_mirror_audit_t *audit)
{
    ngx_pool_t                   *pool;
    ngx_etcd_mirror_audit_run_t  *run;

    pool = ngx_create_pool(1024, audit->log);
    if (pool == NULL) {
        return NULL;
    }

    run = ngx_pcalloc(pool, sizeof(ngx_etcd_mirror_audit_run_t));
    if (run == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    run->pool = pool;
    run->creates = audit->watch->creates;

    run->range.cluster = audit->watch->stream->cluster;
    run->range.done = ngx_etcd_mirror_audit_answer;
    run->range.data = audit;

    run->list.cluster = run->range.cluster;
    run->list.key = audit->watch->range.key;
    run->list.range_end = audit->watch->range.range_end;

    run->list.keys_only = 1;
    run->list.limit = NGX_ETCD_MIRROR_AUDIT_PAGE;
    run->list.keys = ngx_etcd_mirror_audit_list_keys;
    run->list.done = ngx_etcd_mirror_audit_list_done;
    run->list.data = audit;

    ngx_rbtree_init(&run->deleted, &run->sentinel,
                    ngx_str_rbtree_insert_value);

    return run;
}


static void
ngx_etcd_mirror_audit_begin(ngx_etcd_mirror_audit_t *audit)
{
    ngx_etcd_mirror_audit_run_t  *run;

    run = ngx_etcd_mirror_audit_run(audit);
    audit->run = run;

    if (run == NULL || !ngx_etcd_mirror_audit_undisturbed(audit)) {
        ngx_etcd_mirror_audit_schedule(audit);
        return;
    }

    audit->mark++;

    etcd__range_request__init(&run->range.request);

    run->range.request.key = ngx_etcd_bytes(&run->list.key);
    run->range.request.range_end = ngx_etcd_bytes(&run->list.range_end);
    run->range.request.count_only = 1;

    ngx_etcd_range_start(&run->range);
}


static void
ngx_etcd_mirror_audit_timer(ngx_event_t *ev)
{
    ngx_etcd_mirror_audit_t  *audit;

    audit = ev->data;

    if (audit->run != NULL) {
        ngx_etcd_mirror_audit_settled(audit);
        return;
    }

    ngx_etcd_mirror_audit_begin(audit);
}


void
ngx_etcd_mirror_audit_start(ngx_etcd_mirror_audit_t *audit)
{
    ngx_etcd_event_init_timer(&audit->timer, ngx_etcd_mirror_audit_timer,
                              audit, audit->log);

    ngx_etcd_mirror_audit_schedule(audit);
}


static void
ngx_etcd_mirror_audit_end(ngx_etcd_mirror_audit_t *audit)
{
    ngx_etcd_mirror_audit_run_t  *run;

    run = audit->run;

    if (run != NULL) {
        audit->run = NULL;

        ngx_etcd_range_cancel(&run->range);
        ngx_etcd_list_cancel(&run->list);

        ngx_destroy_pool(run->pool);
    }
}


void
ngx_etcd_mirror_audit_stop(ngx_etcd_mirror_audit_t *audit)
{
    ngx_etcd_mirror_audit_end(audit);

    ngx_etcd_event_stop(&audit->timer);
}


void
ngx_etcd_mirror_audit_void(ngx_etcd_mirror_audit_t *audit)
{
    if (audit->run != NULL) {
        ngx_etcd_mirror_audit_schedule(audit);
    }
}


void
ngx_etcd_mirror_audit_deleted(ngx_etcd_mirror_audit_t *audit, ngx_str_t *key)
{
    ngx_str_node_t               *sn;
    ngx_etcd_mirror_audit_run_t  *run;

    run = audit->run;

    if (run == NULL) {
        return;
    }

    /* the entry will be freed */

    if (run->entry != NULL && ngx_etcd_str_equal(&run->entry->key, key)) {
        ngx_etcd_mirror_audit_look(audit);
    }

    if (run->ndeleted++ == NGX_ETCD_MIRROR_AUDIT_DELETED) {
        ngx_etcd_mirror_audit_schedule(audit);
        return;
    }

    sn = ngx_palloc(run->pool, sizeof(ngx_str_node_t) + key->len);
    if (sn == NULL) {
        ngx_etcd_mirror_audit_schedule(audit);
        return;
    }

    sn->str.len = key->len;
    sn->str.data = (u_char *) (sn + 1);
    ngx_memcpy(sn->str.data, key->data, key->len);

    sn->node.key = ngx_murmur_hash2(key->data, key->len);

    ngx_rbtree_insert(&run->deleted, &sn->node);
}
