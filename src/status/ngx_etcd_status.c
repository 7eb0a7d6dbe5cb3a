
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_agent_view.h>
#include <ngx_etcd_stall.h>
#include <ngx_etcd_status.h>


static ngx_int_t ngx_etcd_status_list_upstreams(ngx_etcd_status_t *status);
static char *ngx_etcd_status_values_state(ngx_etcd_conf_t *ecf);
static char *ngx_etcd_status_fresh_state(ngx_etcd_conf_t *ecf);
static char *ngx_etcd_status_leaders_state(ngx_etcd_conf_t *ecf);


char  *ngx_etcd_status_cluster_states[] = {
    "idle", "connecting", "unauthorized", "syncing", "denied", "zone full",
    "stale", "synced", NULL
};

char  *ngx_etcd_status_member_states[] = {
    "up", "backup", "drain", "down", "unresolved"
};

char  *ngx_etcd_status_endpoint_states[4] = {
    "unused", "connecting", "connected", "failed"
};


ngx_etcd_status_t *
ngx_etcd_status_create(ngx_etcd_main_conf_t *conf,
    const ngx_etcd_status_pt *parts, ngx_buf_tag_t tag, ngx_pool_t *pool)
{
    ngx_etcd_status_t  *status;

    status = ngx_palloc(pool, sizeof(ngx_etcd_status_t));
    if (status == NULL) {
        return NULL;
    }

    ngx_memzero(status, offsetof(ngx_etcd_status_t, view));

    status->conf = conf;
    status->pool = pool;
    status->parts = parts;

    ngx_etcd_writer_init(&status->out, pool, tag);

    if (ngx_etcd_status_list_upstreams(status) != NGX_OK) {
        return NULL;
    }

    return status;
}


static ngx_int_t
ngx_etcd_status_list_upstreams(ngx_etcd_status_t *status)
{
    ngx_uint_t                   i, n;
    ngx_etcd_conf_t            **ecf;
    ngx_etcd_service_conf_t    **services;
    ngx_etcd_status_upstream_t  *upstream;

    if (ngx_array_init(&status->upstreams, status->pool, 4,
                       sizeof(ngx_etcd_status_upstream_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ecf = status->conf->clusters.elts;

    for (i = 0; i < status->conf->clusters.nelts; i++) {
        services = ecf[i]->services.elts;

        for (n = 0; n < ecf[i]->services.nelts; n++) {
            upstream = ngx_array_push(&status->upstreams);
            if (upstream == NULL) {
                return NGX_ERROR;
            }

            ngx_memzero(upstream, sizeof(ngx_etcd_status_upstream_t));

            upstream->cluster = ecf[i];
            upstream->service = services[n];
        }
    }

    return NGX_OK;
}


void
ngx_etcd_status_destroy(ngx_etcd_status_t *status)
{
    if (status->temp != NULL) {
        ngx_destroy_pool(status->temp);
        status->temp = NULL;
    }
}


ngx_int_t
ngx_etcd_status_run(ngx_etcd_status_t *status, uint64_t until, size_t size)
{
    ngx_int_t  rc;

    while (status->parts[status->part] != NULL) {

        rc = status->parts[status->part](status);

        if (status->out.failed) {
            return NGX_ERROR;
        }

        if (rc == NGX_OK) {
            ngx_etcd_status_destroy(status);

            status->part++;
            status->row = 0;
            status->stage = 0;
            status->items = 0;
            status->begun = 0;

        } else if (rc != NGX_AGAIN) {
            return rc;
        }

        if (status->out.size >= size || ngx_etcd_stall_now() >= until) {
            break;
        }
    }

    return status->parts[status->part] ? NGX_AGAIN : NGX_OK;
}


ngx_etcd_conf_t *
ngx_etcd_status_cluster(ngx_etcd_status_t *status)
{
    ngx_etcd_conf_t  **ecf;

    if (status->row >= status->conf->clusters.nelts) {
        return NULL;
    }

    ecf = status->conf->clusters.elts;

    return ecf[status->row];
}


ngx_etcd_status_upstream_t *
ngx_etcd_status_upstream(ngx_etcd_status_t *status)
{
    ngx_etcd_status_upstream_t  *upstreams;

    if (status->row >= status->upstreams.nelts) {
        return NULL;
    }

    upstreams = status->upstreams.elts;

    return &upstreams[status->row];
}


ngx_etcd_campaign_t *
ngx_etcd_status_election(ngx_etcd_status_t *status)
{
    ngx_etcd_campaign_t  **campaigns;

    if (status->row >= status->conf->elections.nelts) {
        return NULL;
    }

    campaigns = status->conf->elections.elts;

    return campaigns[status->row];
}


ngx_etcd_lock_name_t *
ngx_etcd_status_lock_name(ngx_etcd_status_t *status)
{
    ngx_uint_t              i, row;
    ngx_etcd_conf_t       **ecf;
    ngx_etcd_lock_name_t  **names;

    ecf = status->conf->clusters.elts;
    row = status->row;

    for (i = 0; i < status->conf->clusters.nelts; i++) {

        if (row < ecf[i]->locks.nelts) {
            names = ecf[i]->locks.elts;
            return names[row];
        }

        row -= ecf[i]->locks.nelts;
    }

    return NULL;
}


ngx_int_t
ngx_etcd_status_lock(ngx_etcd_status_t *status, ngx_etcd_status_lock_t *lock)
{
    ngx_etcd_tally_t      *tally;
    ngx_etcd_lock_name_t  *name;

    name = ngx_etcd_status_lock_name(status);

    if (name == NULL) {
        return NGX_DECLINED;
    }

    tally = name->tally;

    lock->cluster = name->cluster;
    lock->name = name->name;
    lock->held = ngx_etcd_gauge_sum(&tally->held);
    lock->waiting = ngx_etcd_gauge_sum(&tally->waiting);
    lock->acquired = tally->acquired;
    lock->timeouts = tally->timeouts;
    lock->lost = tally->lost;
    lock->handoffs = tally->handoffs;

    return NGX_OK;
}


char *
ngx_etcd_status_cluster_state(ngx_etcd_conf_t *ecf)
{
    ngx_uint_t                 i;
    ngx_etcd_set_state_e       state;
    ngx_etcd_service_conf_t  **services;

    switch (ecf->zone.sh->cluster.state) {

    case NGX_ETCD_AGENT_IDLE:
        return ngx_etcd_status_cluster_states[0];

    case NGX_ETCD_AGENT_CONNECTING:
        return ngx_etcd_status_cluster_states[1];

    case NGX_ETCD_AGENT_UNAUTHORIZED:
        return ngx_etcd_status_cluster_states[2];

    default:
        break;
    }

    services = ecf->services.elts;

    for (i = 0; i < ecf->services.nelts; i++) {
        state = services[i]->set->state;

        switch (state) {

        case NGX_ETCD_SET_SYNCED:
            break;

        case NGX_ETCD_SET_LOADING:
            return ngx_etcd_status_cluster_states[3];

        case NGX_ETCD_SET_DENIED:
            return ngx_etcd_status_cluster_states[4];

        case NGX_ETCD_SET_FULL:
            return ngx_etcd_status_cluster_states[5];
        }
    }

    return ngx_etcd_status_values_state(ecf);
}


/* The worst state of the values of keys. */

static char *
ngx_etcd_status_values_state(ngx_etcd_conf_t *ecf)
{
    ngx_uint_t               i;
    ngx_etcd_value_conf_t  **values;

    values = ecf->values.elts;

    for (i = 0; i < ecf->values.nelts; i++) {

        switch (ngx_etcd_value_get(values[i])->state) {

        case NGX_ETCD_CELL_SYNCED:
            break;

        case NGX_ETCD_CELL_LOADING:
            return ngx_etcd_status_cluster_states[3];

        case NGX_ETCD_CELL_DENIED:
            return ngx_etcd_status_cluster_states[4];
        }
    }

    return ngx_etcd_status_fresh_state(ecf);
}


/* Everything was read: checks the age of the proofs. */

static char *
ngx_etcd_status_fresh_state(ngx_etcd_conf_t *ecf)
{
    int64_t     age;
    ngx_uint_t  patience;

    age = ngx_etcd_zone_staleness(&ecf->zone);
    patience = ecf->zone.sh->cluster.patience;

    /* without watches there are no proofs */

    if (age < 0 && (ecf->services.nelts != 0 || ecf->values.nelts != 0)) {
        return ngx_etcd_status_cluster_states[3];
    }

    if (patience != 0 && age > (int64_t) patience) {
        return ngx_etcd_status_cluster_states[6];
    }

    return ngx_etcd_status_leaders_state(ecf);
}


static char *
ngx_etcd_status_leaders_state(ngx_etcd_conf_t *ecf)
{
    int64_t                    age;
    ngx_uint_t                 i;
    ngx_msec_t                 stale;
    ngx_etcd_service_conf_t  **services;

    services = ecf->services.elts;

    for (i = 0; i < ecf->services.nelts; i++) {

        if (!services[i]->source->verified) {
            continue;
        }

        age = ngx_etcd_set_staleness(services[i]->set);

        if (age < 0) {
            return ngx_etcd_status_cluster_states[3];
        }

        stale = services[i]->rules.max_stale ? services[i]->rules.max_stale
                                             : NGX_ETCD_SERVICE_STALE;

        if (age > (int64_t) stale) {
            return ngx_etcd_status_cluster_states[6];
        }
    }

    return ngx_etcd_status_cluster_states[7];
}


ngx_etcd_status_state_e
ngx_etcd_status_member_state(ngx_etcd_table_t *table,
    ngx_etcd_member_pack_t *record)
{
    ngx_etcd_member_attr_t  *attr;

    attr = &record->attr;

    if (record->unresolved) {
        return NGX_ETCD_STATUS_UNRESOLVED;
    }

    if (attr->down) {
        return NGX_ETCD_STATUS_DOWN;
    }

    if (attr->drain) {
        return NGX_ETCD_STATUS_DRAIN;
    }

    return ngx_etcd_table_backup(table, attr) ? NGX_ETCD_STATUS_BACKUP
                                              : NGX_ETCD_STATUS_UP;
}


void
ngx_etcd_status_endpoints(ngx_etcd_conf_t *ecf,
    ngx_etcd_zone_endpoints_t *endpoints)
{
    ngx_uint_t                 i;
    ngx_etcd_endpoint_t       *configured;
    ngx_etcd_zone_endpoint_t  *ep;

    if (ngx_etcd_zone_get_endpoints(&ecf->zone, endpoints) == NGX_OK
        && endpoints->n != 0)
    {
        return;
    }

    configured = ecf->client.endpoints.elts;

    endpoints->n = ecf->client.endpoints.nelts;
    endpoints->current = -1;

    for (i = 0; i < endpoints->n; i++) {
        ep = &endpoints->list[i];

        ep->state = NGX_ETCD_ENDPOINT_UNUSED;
        ep->learned = 0;
        ep->url_len = ngx_min(configured[i].url.len, NGX_ETCD_ZONE_URL_LEN);

        ngx_memcpy(ep->url, configured[i].url.data, ep->url_len);
    }
}


ngx_int_t
ngx_etcd_status_open(ngx_etcd_status_t *status,
    ngx_etcd_service_conf_t *service)
{
    ngx_int_t  rc;

    /* the table knows the lowest priority: update it */

    (void) ngx_etcd_table_sync(&service->table);

    rc = ngx_etcd_view_open(&status->view, service->zone, service->set,
                            service->table.set_id);

    return (rc == NGX_AGAIN) ? NGX_BUSY : NGX_OK;
}


ngx_int_t
ngx_etcd_status_read(ngx_etcd_status_t *status)
{
    ngx_int_t  rc;

    rc = ngx_etcd_view_read(&status->view);

    switch (rc) {

    case NGX_AGAIN:
        return NGX_BUSY;

    case NGX_DECLINED:
        return NGX_DONE;

    default:
        return rc;
    }
}


ngx_uint_t
ngx_etcd_status_waiting(ngx_etcd_service_conf_t *service)
{
    ngx_etcd_gauge_t  *waiting;

    waiting = service->set->waiting;

    return waiting ? ngx_etcd_gauge_sum(waiting) : 0;
}
