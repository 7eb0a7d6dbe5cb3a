
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_leader_api.h>
#include <ngx_etcd_ssl_module.h>


ngx_int_t
ngx_etcd_leader_api_done(ngx_conf_t *cf, ngx_etcd_service_conf_t *service)
{
    ngx_etcd_ssl_t          *ssl;
    ngx_etcd_leader_conf_t  *leader;

    leader = service->leader;

    if (leader->api_verify == NGX_CONF_UNSET_UINT
        && leader->api_trusted.len == 0
        && leader->api_certificate.len == 0
        && leader->api_key.len == 0)
    {
        return NGX_OK;
    }

    ssl = ngx_etcd_ssl_module_create(cf);
    if (ssl == NULL) {
        return NGX_ERROR;
    }

    leader->api_ssl = ssl;

    ssl->verify = (leader->api_verify != 0);
    ssl->http1 = 1;

    if (ssl->verify && leader->api_trusted.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"etcd_leader\" has no "
                           "\"api_trusted_certificate=\" to verify APIs by");
        return NGX_ERROR;
    }

    if ((leader->api_certificate.len == 0) != (leader->api_key.len == 0)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"api_certificate=\" and "
                           "\"api_certificate_key=\" must be used together");
        return NGX_ERROR;
    }

    if (ngx_etcd_ssl_module_file(cf, &ssl->files[NGX_ETCD_SSL_TRUSTED],
                                 "api_trusted_certificate=",
                                 &leader->api_trusted)
        != NGX_OK
        || ngx_etcd_ssl_module_file(cf, &ssl->files[NGX_ETCD_SSL_CERTIFICATE],
                                    "api_certificate=",
                                    &leader->api_certificate)
           != NGX_OK
        || ngx_etcd_ssl_module_file(cf, &ssl->files[NGX_ETCD_SSL_KEY],
                                    "api_certificate_key=", &leader->api_key)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_etcd_ssl_module_load(cf, ssl);
}
