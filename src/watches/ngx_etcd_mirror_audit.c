
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_mirror_audit.h>


struct ngx_etcd_mirror_audit_run_s {
    ngx_etcd_list_t                list;
    ngx_uint_t                     creates;    /* watch->creates when the audit
                                                  began */
    int64_t                        revision;   /* of the list; 0: not known */
    uint64_t                       sum;        /* of the listed keys */
    uint64_t                       known;      /* of the entries, before the
                                                  first later event */
    uint64_t                       asked;      /* when a proof was asked for; 0:
                                                  there is no difference so
                                                  far */

    unsigned                       late:1;     /* the list is older than the
                                                  entries */
    unsigned                       passed:1;   /* "known" is set */
    unsigned                       reached:1;  /* the endpoint has reached the
                                                  revision: its events have
                                                  come, or should have, when the
                                                  timer expires */
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


/*
 * Compares the sums, at once, and again when events that are missing have had
 * the time to come.  They should have arrived, unless the endpoint itself has
 * not reached the revision: such an endpoint is alive all the same.  One that
 * has just reached it tells each watch in a message of its own.
 */

static void
ngx_etcd_mirror_audit_compare(ngx_etcd_mirror_audit_t *audit)
{
    ngx_etcd_cluster_t           *cluster;
    ngx_etcd_mirror_audit_run_t  *run;

    run = audit->run;
    cluster = run->list.cluster;

    if (!ngx_etcd_mirror_audit_undisturbed(audit)) {
        ngx_etcd_mirror_audit_schedule(audit);
        return;
    }

    if (run->sum == (run->passed ? run->known : *audit->sum)) {
        ngx_log_error(NGX_LOG_INFO, audit->log, 0,
                      "%V: audit at revision %L found nothing", audit->name,
                      run->revision);

        ngx_etcd_mirror_audit_schedule(audit);
        return;
    }

    if (!run->passed && audit->revision(audit->data) < run->revision) {

        if (run->asked == 0) {
            run->asked = ngx_etcd_clock();

            ngx_etcd_proof_ask(&audit->watch->stream->proof);
            ngx_add_timer(&audit->timer, NGX_ETCD_MIRROR_AUDIT_SETTLE);
            return;
        }

        if (cluster->proved < run->asked
            || audit->watch->stream->reached < run->revision)
        {
            ngx_log_debug2(NGX_LOG_DEBUG_EVENT, audit->log, 0,
                           "etcd mirror \"%V\": audit put off, nothing proves "
                           "that the watch has passed revision %L",
                           &audit->watch->range.prefix, run->revision);

            ngx_etcd_mirror_audit_schedule(audit);
            return;
        }

        if (!run->reached) {
            run->reached = 1;
            ngx_add_timer(&audit->timer, NGX_ETCD_MIRROR_AUDIT_SETTLE);
            return;
        }
    }

    ngx_log_error(NGX_LOG_WARN, audit->log, 0,
                  "%V: %s \"%V\" differs from etcd at revision %L, "
                  "listing again", audit->name,
                  audit->watch->range.exact ? "key" : "prefix",
                  &audit->watch->range.prefix, run->revision);

    cluster->counts.repairs++;
    cluster->changed(cluster->data);

    /* calls ngx_etcd_mirror_audit_void(), which ends this audit */

    audit->differs(audit->data);
}


/* The list may begin again at another revision. */

static void
ngx_etcd_mirror_audit_list_begin(ngx_etcd_list_t *list)
{
    ngx_etcd_mirror_audit_t      *audit;
    ngx_etcd_mirror_audit_run_t  *run;

    audit = list->data;
    run = audit->run;

    if (list->pinned == 0) {
        run->revision = list->revision;
        run->late = (audit->last > list->revision);
        run->passed = 0;
    }

    run->sum = 0;
}


static ngx_int_t
ngx_etcd_mirror_audit_list_keys(ngx_etcd_list_t *list, Etcd__KeyValue **kvs,
    size_t n)
{
    size_t                    i;
    ngx_str_t                 key;
    ngx_etcd_mirror_audit_t  *audit;

    audit = list->data;

    if (audit->run->late || !ngx_etcd_mirror_audit_undisturbed(audit)) {
        return NGX_ERROR;
    }

    for (i = 0; i < n; i++) {
        ngx_etcd_watch_range_strip(&audit->watch->range, &kvs[i]->key);
        key = ngx_etcd_bytes_str(&kvs[i]->key);

        if (audit->wants(audit->data, &key)) {
            audit->run->sum += ngx_etcd_mirror_entry_sum(&key,
                                                         kvs[i]->mod_revision);
        }
    }

    return NGX_OK;
}


static void
ngx_etcd_mirror_audit_list_done(ngx_etcd_list_t *list,
    ngx_etcd_grpc_status_e status, ngx_str_t *text, int64_t revision)
{
    ngx_etcd_mirror_audit_t      *audit;
    ngx_etcd_mirror_audit_run_t  *run;

    audit = list->data;
    run = audit->run;

    if (status == NGX_ETCD_GRPC_OK) {
        ngx_etcd_mirror_audit_compare(audit);
        return;
    }

    if (run->late) {

        /* list at the revision of the entries */

        run->late = 0;
        run->passed = 0;
        run->revision = ngx_max(audit->last, audit->revision(audit->data));
        list->pinned = run->revision;

        ngx_etcd_list_start(list);
        return;
    }

    ngx_log_error(NGX_LOG_INFO, audit->log, 0,
                  "%V: audit at revision %L was not completed: %s: %V",
                  audit->name, run->revision,
                  ngx_etcd_grpc_status_name(status), text);

    ngx_etcd_mirror_audit_schedule(audit);
}


static void
ngx_etcd_mirror_audit_begin(ngx_etcd_mirror_audit_t *audit)
{
    ngx_etcd_mirror_audit_run_t  *run;

    run = ngx_calloc(sizeof(ngx_etcd_mirror_audit_run_t), audit->log);
    audit->run = run;

    if (run != NULL) {
        run->creates = audit->watch->creates;
    }

    if (run == NULL || !ngx_etcd_mirror_audit_undisturbed(audit)) {
        ngx_etcd_mirror_audit_schedule(audit);
        return;
    }

    run->list.cluster = audit->watch->stream->cluster;
    run->list.key = audit->watch->range.key;
    run->list.range_end = audit->watch->range.range_end;
    run->list.keys_only = 1;
    run->list.limit = NGX_ETCD_MIRROR_AUDIT_PAGE;
    run->list.begin = ngx_etcd_mirror_audit_list_begin;
    run->list.keys = ngx_etcd_mirror_audit_list_keys;
    run->list.done = ngx_etcd_mirror_audit_list_done;
    run->list.data = audit;

    ngx_etcd_list_start(&run->list);
}


static void
ngx_etcd_mirror_audit_timer(ngx_event_t *ev)
{
    ngx_etcd_mirror_audit_t *audit = ev->data;

    if (audit->run != NULL) {
        ngx_etcd_mirror_audit_compare(audit);

    } else {
        ngx_etcd_mirror_audit_begin(audit);
    }
}


void
ngx_etcd_mirror_audit_start(ngx_etcd_mirror_audit_t *audit)
{
    ngx_etcd_event_init_timer(&audit->timer, ngx_etcd_mirror_audit_timer,
                              audit, audit->log);

    ngx_etcd_mirror_audit_schedule(audit);
}


void
ngx_etcd_mirror_audit_stop(ngx_etcd_mirror_audit_t *audit)
{
    ngx_etcd_mirror_audit_run_t  *run;

    ngx_etcd_event_stop(&audit->timer);

    run = audit->run;

    if (run != NULL) {
        audit->run = NULL;

        ngx_etcd_list_cancel(&run->list);

        ngx_free(run);
    }
}


void
ngx_etcd_mirror_audit_void(ngx_etcd_mirror_audit_t *audit)
{
    /* the list may be of another history */

    audit->last = 0;

    if (audit->run != NULL) {
        ngx_etcd_mirror_audit_schedule(audit);
    }
}


void
ngx_etcd_mirror_audit_event(ngx_etcd_mirror_audit_t *audit, int64_t revision)
{
    ngx_etcd_mirror_audit_run_t  *run;

    run = audit->run;
    audit->last = revision;

    if (run != NULL
        && run->revision != 0
        && revision > run->revision
        && !run->passed)
    {
        run->known = *audit->sum;
        run->passed = 1;
    }
}
