
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_agent.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_service.h>
#include <ngx_etcd_status_cluster.h>
#include <ngx_etcd_value_map.h>


static void
ngx_etcd_status_cluster_blame(ngx_etcd_status_culprit_t *culprit, char *kind,
    ngx_str_t *name, ngx_str_t *prefix)
{
    culprit->kind = kind;
    culprit->name = *name;
    culprit->prefix = *prefix;
}


static ngx_etcd_status_cluster_state_e
ngx_etcd_status_cluster_set(ngx_etcd_member_set_state_e state)
{
    switch (state) {

    case NGX_ETCD_MEMBER_SET_LOADING:
        return NGX_ETCD_STATUS_SYNCING;

    case NGX_ETCD_MEMBER_SET_DENIED:
        return NGX_ETCD_STATUS_DENIED;

    case NGX_ETCD_MEMBER_SET_FULL:
        return NGX_ETCD_STATUS_FULL;

    default: /* NGX_ETCD_MEMBER_SET_SYNCED */
        return NGX_ETCD_STATUS_SYNCED;
    }
}


static ngx_etcd_status_cluster_state_e
ngx_etcd_status_cluster_leader(ngx_etcd_service_conf_t *service,
    int64_t age)
{
    ngx_msec_t  stale;

    if (!service->source->verified) {
        return NGX_ETCD_STATUS_SYNCED;
    }

    stale = service->rules.max_stale ? service->rules.max_stale
                                     : NGX_ETCD_SERVICE_STALE;

    return (age < 0) ? NGX_ETCD_STATUS_SYNCING
           : (age > (int64_t) stale) ? NGX_ETCD_STATUS_STALE
           : NGX_ETCD_STATUS_SYNCED;
}


static ngx_etcd_status_cluster_state_e
ngx_etcd_status_cluster_leaders(ngx_etcd_conf_t *ecf,
    ngx_etcd_status_culprit_t *culprit)
{
    int64_t                           age;
    ngx_uint_t                        i;
    ngx_etcd_service_conf_t         **services;
    ngx_etcd_catalog_conf_t         **catalogs;
    ngx_etcd_status_cluster_state_e   state;

    services = ecf->services.elts;

    for (i = 0; i < ecf->services.nelts; i++) {
        age = ngx_etcd_member_set_staleness(services[i]->set);
        state = ngx_etcd_status_cluster_leader(services[i], age);

        if (state != NGX_ETCD_STATUS_SYNCED) {
            ngx_etcd_status_cluster_blame(culprit, "upstream",
                                          &services[i]->name,
                                          &services[i]->prefix);
            return state;
        }
    }

    catalogs = ecf->catalogs.elts;

    for (i = 0; i < ecf->catalogs.nelts; i++) {
        age = ngx_etcd_zone_since(&catalogs[i]->map->verified);
        state = ngx_etcd_status_cluster_leader(&catalogs[i]->service, age);

        if (state != NGX_ETCD_STATUS_SYNCED) {
            ngx_etcd_status_cluster_blame(culprit, "upstream",
                                          &catalogs[i]->service.name,
                                          &catalogs[i]->pattern.text);
            return state;
        }
    }

    return NGX_ETCD_STATUS_SYNCED;
}


/* Everything was read: checks the age of the proofs. */

static ngx_etcd_status_cluster_state_e
ngx_etcd_status_cluster_fresh(ngx_etcd_conf_t *ecf,
    ngx_etcd_status_culprit_t *culprit)
{
    int64_t     age;
    ngx_uint_t  patience;

    age = ngx_etcd_zone_staleness(&ecf->zone);
    patience = ecf->zone.sh->cluster.patience;

    /* without watches there are no proofs */

    if (age < 0
        && ecf->services.nelts + ecf->catalogs.nelts + ecf->value_maps.nelts
           != 0)
    {
        return NGX_ETCD_STATUS_SYNCING;
    }

    if (patience != 0 && age > (int64_t) patience) {
        return NGX_ETCD_STATUS_STALE;
    }

    return ngx_etcd_status_cluster_leaders(ecf, culprit);
}


/* The worst state of the values of keys. */

static ngx_etcd_status_cluster_state_e
ngx_etcd_status_cluster_values(ngx_etcd_conf_t *ecf,
    ngx_etcd_status_culprit_t *culprit)
{
    ngx_uint_t                   i;
    ngx_etcd_value_map_conf_t  **maps;

    maps = ecf->value_maps.elts;

    for (i = 0; i < ecf->value_maps.nelts; i++) {

        if (maps[i]->map->state == NGX_ETCD_VALUE_SYNCED) {
            continue;
        }

        ngx_etcd_status_cluster_blame(culprit, "variable", &maps[i]->name,
                                      &maps[i]->literal);

        return (maps[i]->map->state == NGX_ETCD_VALUE_DENIED)
               ? NGX_ETCD_STATUS_DENIED : NGX_ETCD_STATUS_SYNCING;
    }

    return ngx_etcd_status_cluster_fresh(ecf, culprit);
}


static ngx_etcd_status_cluster_state_e
ngx_etcd_status_cluster_sets(ngx_etcd_conf_t *ecf,
    ngx_etcd_status_culprit_t *culprit)
{
    ngx_uint_t                        i;
    ngx_etcd_service_conf_t         **services;
    ngx_etcd_catalog_conf_t         **catalogs;
    ngx_etcd_status_cluster_state_e   state;

    services = ecf->services.elts;

    for (i = 0; i < ecf->services.nelts; i++) {
        state = ngx_etcd_status_cluster_set(services[i]->set->state);

        if (state != NGX_ETCD_STATUS_SYNCED) {
            ngx_etcd_status_cluster_blame(culprit, "upstream",
                                          &services[i]->name,
                                          &services[i]->prefix);
            return state;
        }
    }

    catalogs = ecf->catalogs.elts;

    for (i = 0; i < ecf->catalogs.nelts; i++) {
        state = ngx_etcd_status_cluster_set(catalogs[i]->map->state);

        if (state != NGX_ETCD_STATUS_SYNCED) {
            ngx_etcd_status_cluster_blame(culprit, "upstream",
                                          &catalogs[i]->service.name,
                                          &catalogs[i]->pattern.text);
            return state;
        }
    }

    return ngx_etcd_status_cluster_values(ecf, culprit);
}


ngx_etcd_status_cluster_state_e
ngx_etcd_status_cluster_state(ngx_etcd_conf_t *ecf,
    ngx_etcd_status_culprit_t *culprit)
{
    ngx_memzero(culprit, sizeof(ngx_etcd_status_culprit_t));

    switch (ecf->zone.sh->cluster.state) {

    case NGX_ETCD_CLUSTER_IDLE:
        return NGX_ETCD_STATUS_IDLE;

    case NGX_ETCD_CLUSTER_CONNECTING:
        return NGX_ETCD_STATUS_CONNECTING;

    case NGX_ETCD_CLUSTER_UNAUTHORIZED:
        return NGX_ETCD_STATUS_UNAUTHORIZED;

    default:
        return ngx_etcd_status_cluster_sets(ecf, culprit);
    }
}


/* The endpoint in use or tried last, or else the first one that has failed. */

static ngx_etcd_zone_endpoint_t *
ngx_etcd_status_cluster_endpoint(ngx_etcd_zone_endpoints_t *endpoints)
{
    ngx_int_t  i;

    i = endpoints->current;

    if (i >= 0 && endpoints->list[i].error_len != 0) {
        return &endpoints->list[i];
    }

    for (i = 0; i < (ngx_int_t) endpoints->n; i++) {
        if (endpoints->list[i].error_len != 0) {
            return &endpoints->list[i];
        }
    }

    return NULL;
}


u_char *
ngx_etcd_status_cluster_reason(u_char *p,
    ngx_etcd_status_cluster_state_e state, ngx_etcd_status_culprit_t *culprit,
    ngx_etcd_zone_endpoints_t *endpoints)
{
    u_char                    *last;
    ngx_etcd_zone_endpoint_t  *ep;

    static const char *texts[] = {
        [NGX_ETCD_STATUS_SYNCING] = "not read yet",
        [NGX_ETCD_STATUS_DENIED] = "etcd does not let the user read it",
        [NGX_ETCD_STATUS_FULL] = "the zone has no room for it",
        [NGX_ETCD_STATUS_STALE] = "not proved to be as in etcd",
        [NGX_ETCD_STATUS_SYNCED] = ""
    };

    last = p + NGX_ETCD_STATUS_REASON;

    switch (state) {

    case NGX_ETCD_STATUS_CONNECTING:
        ep = ngx_etcd_status_cluster_endpoint(endpoints);

        return (ep != NULL) ? ngx_slprintf(p, last, "endpoint %*s: %*s",
                                           ep->url_len, ep->url,
                                           ep->error_len, ep->error)
                            : p;

    case NGX_ETCD_STATUS_UNAUTHORIZED:
        return ngx_slprintf(p, last, "etcd refuses the user: %*s",
                            endpoints->refusal_len, endpoints->refusal);

    default:
        return (culprit->kind != NULL)
               ? ngx_slprintf(p, last, "\"%V\" of %s \"%V\": %s",
                              &culprit->prefix, culprit->kind, &culprit->name,
                              texts[state])
               : p;
    }
}
