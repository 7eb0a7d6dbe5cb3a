
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_near.h>
#include <ngx_etcd_status.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_version.h>


static ngx_int_t
ngx_etcd_status_list_upstreams(ngx_etcd_status_t *status)
{
    ngx_uint_t                   i, n;
    ngx_etcd_conf_t            **ecf;
    ngx_etcd_service_conf_t    **services;
    ngx_etcd_catalog_conf_t    **catalogs;
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

            ngx_etcd_status_object_upstream(upstream, ecf[i], services[n]);
            ngx_etcd_status_near_upstream(upstream);
        }

        catalogs = ecf[i]->catalogs.elts;

        for (n = 0; n < ecf[i]->catalogs.nelts; n++) {
            upstream = ngx_array_push(&status->upstreams);
            if (upstream == NULL) {
                return NGX_ERROR;
            }

            ngx_etcd_status_object_upstream(upstream, ecf[i],
                                            &catalogs[n]->service);
            ngx_etcd_status_near_upstream(upstream);
        }
    }

    return NGX_OK;
}


ngx_etcd_status_t *
ngx_etcd_status_create(ngx_etcd_main_conf_t *conf,
    const ngx_etcd_status_part_t *parts, ngx_buf_tag_t tag, ngx_pool_t *pool)
{
    ngx_etcd_status_t  *status;

    status = ngx_palloc(pool, sizeof(ngx_etcd_status_t));
    if (status == NULL) {
        return NULL;
    }

    ngx_memzero(status, offsetof(ngx_etcd_status_t, object));

    status->conf = conf;
    status->pool = pool;
    status->parts = parts;

    ngx_etcd_text_buffer_init(&status->out, pool, tag);

    if (ngx_etcd_status_list_upstreams(status) != NGX_OK) {
        return NULL;
    }

    return status;
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
    ngx_int_t                      rc;
    const ngx_etcd_status_part_t  *part;

    part = &status->parts[status->part];

    while (part->write != NULL) {

        rc = part->write(status, part->kind);

        if (status->out.failed) {
            return NGX_ERROR;
        }

        if (rc == NGX_OK) {
            ngx_etcd_status_destroy(status);

            part++;
            status->part++;
            status->row = 0;
            status->stage = 0;
            status->items = 0;
            status->begun = 0;

        } else if (rc != NGX_AGAIN) {
            return rc;
        }

        if (status->out.size >= size || ngx_etcd_time_budget_now() >= until) {
            break;
        }
    }

    return (part->write != NULL) ? NGX_AGAIN : NGX_OK;
}


ngx_uint_t
ngx_etcd_status_wanted(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_str_t  *only;

    only = &status->asked.only;

    return only->len == 0
           || ngx_etcd_str_equal(only, &upstream->name)
           || ngx_etcd_str_equal(only, &upstream->service->line.upstream);
}


ngx_int_t
ngx_etcd_status_open(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t                 rc;
    ngx_etcd_service_conf_t  *service;

    service = upstream->service;

    /* the table knows the lowest priority: update it */

    if (service->table != NULL) {
        (void) ngx_etcd_table_sync(service->table);
        upstream->lowest = service->table->priority;
    }

    rc = ngx_etcd_view_open(&status->view, service->zone, service->set,
                            service->set_id);

    if (rc == NGX_AGAIN) {
        return NGX_BUSY;
    }

    ngx_etcd_status_object_update(upstream, &status->view);
    ngx_etcd_status_near_share(upstream, service->table);

    return NGX_OK;
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


/* a variable with different keys in different contexts: "$flag (2)" */

#define NGX_ETCD_STATUS_ROW_OTHER  (sizeof(" ()") + NGX_INT_T_LEN)


void *
ngx_etcd_status_row_nginx(ngx_etcd_status_t *status)
{
    uint64_t                  owner;
    ngx_etcd_conf_t         **ecf;
    ngx_etcd_status_nginx_t  *nginx;

    if (status->row != 0) {
        return NULL;
    }

    ecf = status->conf->clusters.elts;
    owner = status->conf->clusters.nelts ? ngx_etcd_zone_owner(&ecf[0]->zone)
                                         : 0;
    nginx = &status->object.nginx;

    ngx_str_set(&nginx->version, NGX_ETCD_VERSION);
    ngx_str_set(&nginx->nginx, NGINX_VERSION);
    nginx->build = 1;
    nginx->agent.pid = ngx_etcd_zone_owner_pid(owner);
    nginx->agent.epoch = ngx_etcd_zone_owner_epoch(owner);

    return nginx;
}


void *
ngx_etcd_status_row_zone(ngx_etcd_status_t *status)
{
    ngx_uint_t               i;
    ngx_etcd_conf_t        **ecf;
    ngx_etcd_status_zone_t  *zone;

    if (status->row != 0) {
        return NULL;
    }

    zone = &status->object.zone;
    ngx_memzero(zone, sizeof(ngx_etcd_status_zone_t));

    ecf = status->conf->clusters.elts;

    for (i = 0; i < status->conf->clusters.nelts; i++) {
        zone->size += ecf[i]->zone_size;
        zone->used += ngx_etcd_zone_used(&ecf[i]->zone);
        zone->stall = ngx_max(zone->stall, (int64_t) ecf[i]->zone.sh->stall);
    }

    return zone;
}


void *
ngx_etcd_status_row_cluster(ngx_etcd_status_t *status)
{
    ngx_etcd_conf_t  **ecf;

    if (status->row >= status->conf->clusters.nelts) {
        return NULL;
    }

    ecf = status->conf->clusters.elts;

    ngx_etcd_status_object_cluster(&status->object.cluster, ecf[status->row]);

    return &status->object.cluster;
}


void *
ngx_etcd_status_row_endpoint(ngx_etcd_status_t *status)
{
    ngx_uint_t                  i, row;
    ngx_etcd_conf_t           **ecf;
    ngx_etcd_status_cluster_t  *cluster;

    ecf = status->conf->clusters.elts;
    row = status->row;

    for (i = 0; i < status->conf->clusters.nelts; i++) {
        cluster = &status->object.cluster;

        ngx_etcd_status_object_cluster(cluster, ecf[i]);

        if (row < cluster->endpoints.nelts) {
            return &cluster->list[row];
        }

        row -= cluster->endpoints.nelts;
    }

    return NULL;
}


void *
ngx_etcd_status_row_upstream(ngx_etcd_status_t *status)
{
    ngx_etcd_status_upstream_t  *upstreams;

    if (status->row >= status->upstreams.nelts) {
        return NULL;
    }

    upstreams = status->upstreams.elts;

    return &upstreams[status->row];
}


void *
ngx_etcd_status_row_election(ngx_etcd_status_t *status)
{
    ngx_etcd_campaign_t  **campaigns;

    if (status->row >= status->conf->elections.nelts) {
        return NULL;
    }

    campaigns = status->conf->elections.elts;

    ngx_etcd_status_object_election(&status->object.election,
                                    campaigns[status->row],
                                    status->remaining);

    return &status->object.election;
}


void *
ngx_etcd_status_row_lock(ngx_etcd_status_t *status)
{
    ngx_uint_t              i, row;
    ngx_etcd_conf_t       **ecf;
    ngx_etcd_lock_name_t  **names;

    ecf = status->conf->clusters.elts;
    row = status->row;

    for (i = 0; i < status->conf->clusters.nelts; i++) {

        if (row < ecf[i]->locks.nelts) {
            names = ecf[i]->locks.elts;

            ngx_etcd_status_object_lock(&status->object.lock, names[row]);

            return &status->object.lock;
        }

        row -= ecf[i]->locks.nelts;
    }

    return NULL;
}


/*
 * Returns the number, from 1, of a variable among those with the same name;
 * 0: the same variable with the same key has been shown.
 */

static ngx_uint_t
ngx_etcd_status_row_number(ngx_etcd_set_variable_t **variables, ngx_uint_t n)
{
    ngx_uint_t  i, number;

    number = 1;

    for (i = 0; i < n; i++) {

        if (!ngx_etcd_str_equal(&variables[i]->name, &variables[n]->name)) {
            continue;
        }

        if (variables[i]->map == variables[n]->map
            && ngx_etcd_str_equal(&variables[i]->key, &variables[n]->key)
            && ngx_etcd_str_equal(&variables[i]->otherwise,
                                  &variables[n]->otherwise))
        {
            return 0;
        }

        if (ngx_etcd_status_row_number(variables, i) != 0) {
            number++;
        }
    }

    return number;
}


static ngx_int_t
ngx_etcd_status_row_name(ngx_etcd_status_t *status, ngx_str_t *name,
    ngx_uint_t number)
{
    u_char  *p;

    if (number == 1) {
        return NGX_OK;
    }

    p = ngx_pnalloc(status->pool, name->len + NGX_ETCD_STATUS_ROW_OTHER);
    if (p == NULL) {
        return NGX_ERROR;
    }

    name->len = ngx_sprintf(p, "%V (%ui)", name, number) - p;
    name->data = p;

    return NGX_OK;
}


void *
ngx_etcd_status_row_variable(ngx_etcd_status_t *status)
{
    ngx_uint_t                 number;
    ngx_etcd_set_variable_t  **variables;

    variables = status->conf->set_variables.elts;

    for ( /* void */ ; status->row < status->conf->set_variables.nelts;
         status->row++)
    {
        number = ngx_etcd_status_row_number(variables, status->row);

        if (number == 0) {
            continue;
        }

        ngx_etcd_status_object_variable(&status->object.variable,
                                        variables[status->row]);

        if (ngx_etcd_status_row_name(status, &status->object.variable.name,
                                     number)
            != NGX_OK)
        {
            status->out.failed = 1;
            return NULL;
        }

        return &status->object.variable;
    }

    return NULL;
}


void
ngx_etcd_status_near_upstream(ngx_etcd_status_upstream_t *upstream)
{
    upstream->near.percent = NGX_ETCD_STATUS_ABSENT;
    upstream->near.ratio = NGX_ETCD_STATUS_ABSENT;

    if (upstream->service->rules.spill != 0) {
        ngx_etcd_prefer_text(&upstream->service->member.prefer,
                             &upstream->near.prefer);
    }
}


void
ngx_etcd_status_near_share(ngx_etcd_status_upstream_t *upstream,
    ngx_etcd_table_t *table)
{
    int64_t  share;

    if (table == NULL || upstream->service->rules.spill == 0) {
        return;
    }

    (void) ngx_etcd_table_sync(table);

    share = ngx_etcd_near_now(table);

    upstream->near.percent = (share * 100 + NGX_ETCD_NEAR_UNIT / 2)
                             / NGX_ETCD_NEAR_UNIT;
    upstream->near.ratio = share * 1000000 / NGX_ETCD_NEAR_UNIT;
}
