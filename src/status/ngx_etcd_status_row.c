
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status_row.h>
#include <ngx_etcd_str.h>


/* a variable with different keys in different contexts: "$flag (2)" */

#define NGX_ETCD_STATUS_ROW_OTHER  (sizeof(" ()") + NGX_INT_T_LEN)


void *
ngx_etcd_status_row_nginx(ngx_etcd_status_t *status)
{
    if (status->row != 0) {
        return NULL;
    }

    ngx_etcd_status_object_nginx(&status->object.nginx, status->conf);

    return &status->object.nginx;
}


void *
ngx_etcd_status_row_zone(ngx_etcd_status_t *status)
{
    if (status->row != 0) {
        return NULL;
    }

    ngx_etcd_status_object_zone(&status->object.zone, status->conf);

    return &status->object.zone;
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


static ngx_uint_t
ngx_etcd_status_row_same(ngx_etcd_set_variable_t *one,
    ngx_etcd_set_variable_t *two)
{
    return one->value == two->value
           && one->map == two->map
           && ngx_etcd_str_equal(&one->key, &two->key)
           && ngx_etcd_str_equal(&one->otherwise, &two->otherwise);
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

        if (ngx_etcd_status_row_same(variables[i], variables[n])) {
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
