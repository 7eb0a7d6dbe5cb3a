
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_maintenance.h>
#include <ngx_etcd_server_faults.h>
#include <ngx_etcd_str.h>


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


static void
ngx_etcd_server_faults_known(void *data, ngx_str_t *url, uint64_t version)
{
    ngx_etcd_conf_t *conf = data;

    char        *fault;
    uint64_t     mended;
    ngx_uint_t   secrets;

    /* there are private keys, or rights in etcd matter */

    secrets = (conf->secrets || ngx_etcd_cluster_authenticates(&conf->client));

    if (version == 0) {
        if ((conf->coordinates || secrets)
            && ngx_etcd_server_versions_first(&conf->zone,
                                              NGX_ETCD_SERVER_VERSIONS_UNTOLD))
        {
            ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                          "etcd cluster \"%V\": endpoint %V does not tell its "
                          "version, which is not checked",
                          &conf->name, ngx_etcd_shown(url));
        }

        return;
    }

    ngx_etcd_server_versions_set(&conf->zone, url, version);

    fault = ngx_etcd_server_version_fault(version, 0, &mended);

    if (fault != NULL
        && conf->coordinates
        && ngx_etcd_server_versions_first(&conf->zone,
                                          NGX_ETCD_SERVER_VERSIONS_FAULT))
    {
        ngx_etcd_server_faults_warn(conf, url, version, fault,
                                    "leaders, elections and locks", mended);
    }

    fault = ngx_etcd_server_version_fault(version, 1, &mended);

    if (fault != NULL
        && secrets
        && ngx_etcd_server_versions_first(&conf->zone,
                                          NGX_ETCD_SERVER_VERSIONS_ADVISORY))
    {
        ngx_etcd_server_faults_warn(conf, url, version, fault,
                                    "\"user\" and \"type=pem\"", mended);
    }
}


ngx_int_t
ngx_etcd_server_faults_ask(ngx_etcd_cluster_t *cluster, ngx_etcd_conf_t *conf)
{
    return ngx_etcd_server_version_ask(cluster, ngx_etcd_server_faults_known,
                                       conf);
}
