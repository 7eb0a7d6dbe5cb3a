
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_campaign.h>
#include <ngx_etcd_server_faults.h>
#include <ngx_etcd_server_version.h>
#include <ngx_etcd_server_versions.h>
#include <ngx_etcd_service.h>
#include <ngx_etcd_shown.h>
#include <ngx_etcd_value_map.h>


static void ngx_etcd_server_faults_known(void *data, ngx_str_t *url,
    uint64_t version);
static ngx_uint_t ngx_etcd_server_faults_matter(ngx_etcd_conf_t *conf);
static ngx_uint_t ngx_etcd_server_faults_secrets(ngx_etcd_conf_t *conf);
static void ngx_etcd_server_faults_untold(ngx_etcd_conf_t *conf,
    ngx_str_t *url);
static void ngx_etcd_server_faults_warn(ngx_etcd_conf_t *conf, ngx_str_t *url,
    uint64_t version, char *fault, char *what, uint64_t mended);


ngx_int_t
ngx_etcd_server_faults_ask(ngx_etcd_cluster_t *cluster, ngx_etcd_conf_t *conf)
{
    return ngx_etcd_server_version_ask(cluster, ngx_etcd_server_faults_known,
                                       conf);
}


static void
ngx_etcd_server_faults_known(void *data, ngx_str_t *url, uint64_t version)
{
    ngx_etcd_conf_t *conf = data;

    char      *fault;
    uint64_t   mended;

    if (version == 0) {
        ngx_etcd_server_faults_untold(conf, url);
        return;
    }

    ngx_etcd_server_versions_set(&conf->zone, url, version);

    fault = ngx_etcd_server_version_fault(version, &mended);

    if (fault != NULL
        && ngx_etcd_server_faults_matter(conf)
        && ngx_etcd_server_versions_first(&conf->zone,
                                          NGX_ETCD_SERVER_VERSIONS_FAULT))
    {
        ngx_etcd_server_faults_warn(conf, url, version, fault,
                                    "leaders, elections and locks", mended);
    }

    fault = ngx_etcd_server_version_advisory(version, &mended);

    if (fault != NULL
        && ngx_etcd_server_faults_secrets(conf)
        && ngx_etcd_server_versions_first(&conf->zone,
                                          NGX_ETCD_SERVER_VERSIONS_ADVISORY))
    {
        ngx_etcd_server_faults_warn(conf, url, version, fault,
                                    "\"user\" and \"type=pem\"", mended);
    }
}


/*
 * A registration harms nobody when it stays too long, nor does a stale member.
 * The proof of a leader is a read.
 */

static ngx_uint_t
ngx_etcd_server_faults_matter(ngx_etcd_conf_t *conf)
{
    ngx_uint_t                 i;
    ngx_etcd_campaign_t      **campaigns;
    ngx_etcd_service_conf_t  **services;

    if (conf->locks.nelts != 0) {
        return 1;
    }

    services = conf->services.elts;

    for (i = 0; i < conf->services.nelts; i++) {
        if (services[i]->leader != NULL) {
            return 1;
        }
    }

    campaigns = conf->campaigns.elts;

    for (i = 0; i < conf->campaigns.nelts; i++) {
        if (campaigns[i]->kind == NGX_ETCD_ELECTION_SLOT_ELECTION) {
            return 1;
        }
    }

    return 0;
}


/* Returns 1 if rights in etcd matter, or private keys are there. */

static ngx_uint_t
ngx_etcd_server_faults_secrets(ngx_etcd_conf_t *conf)
{
    ngx_uint_t                   i;
    ngx_etcd_value_map_conf_t  **maps;

    maps = conf->value_maps.elts;

    for (i = 0; i < conf->value_maps.nelts; i++) {
        if (maps[i]->secret) {
            return 1;
        }
    }

    return conf->client.user.len != 0;
}


static void
ngx_etcd_server_faults_untold(ngx_etcd_conf_t *conf, ngx_str_t *url)
{
    if ((ngx_etcd_server_faults_matter(conf)
         || ngx_etcd_server_faults_secrets(conf))
        && ngx_etcd_server_versions_first(&conf->zone,
                                          NGX_ETCD_SERVER_VERSIONS_UNTOLD))
    {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "etcd cluster \"%V\": endpoint %V does not tell its "
                      "version, which is not checked",
                      &conf->name, ngx_etcd_shown(url));
    }
}


static void
ngx_etcd_server_faults_warn(ngx_etcd_conf_t *conf, ngx_str_t *url,
    uint64_t version, char *fault, char *what, uint64_t mended)
{
    u_char  has[NGX_ETCD_SERVER_VERSION_LEN + 1];
    u_char  needs[NGX_ETCD_SERVER_VERSION_LEN + 1];

    *ngx_etcd_server_version_text(has, version) = '\0';
    *ngx_etcd_server_version_text(needs, mended) = '\0';

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "etcd cluster \"%V\": endpoint %V runs etcd %s, in which %s: "
                  "for %s upgrade it to %s or later",
                  &conf->name, ngx_etcd_shown(url), has, fault, what,
                  needs);
}
