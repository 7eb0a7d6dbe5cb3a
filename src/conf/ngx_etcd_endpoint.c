
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_endpoint.h>


char *
ngx_etcd_endpoint_list(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_etcd_conf_t *ecf = conf;

    char                 *rv;
    ngx_str_t            *value;
    ngx_uint_t            i;
    ngx_array_t          *endpoints;
    ngx_etcd_endpoint_t  *endpoint;

    endpoints = &ecf->client.endpoints;

    if (endpoints->nelts != 0) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts - 1 > NGX_ETCD_ZONE_MAX_ENDPOINTS) {
        return "has more than 16 URLs";
    }

    if (ngx_array_init(endpoints, cf->pool, cf->args->nelts - 1,
                       sizeof(ngx_etcd_endpoint_t))
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    for (i = 1; i < cf->args->nelts; i++) {
        endpoint = ngx_array_push(endpoints);
        ngx_memzero(endpoint, sizeof(ngx_etcd_endpoint_t));

        endpoint->url = value[i];

        rv = ngx_etcd_url_parse(cf->pool, endpoint);

        if (rv != NULL) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid endpoint \"%V\": %s", &value[i], rv);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


char *
ngx_etcd_endpoint_resolver(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_etcd_conf_t *ecf = conf;

    ngx_str_t  *value;

    if (ecf->client.resolver != NULL) {
        return "is duplicate";
    }

    value = cf->args->elts;

    ecf->client.resolver = ngx_resolver_create(cf, &value[1],
                                               cf->args->nelts - 1);

    return (ecf->client.resolver != NULL) ? NGX_CONF_OK : NGX_CONF_ERROR;
}


ngx_int_t
ngx_etcd_endpoint_done(ngx_conf_t *cf, ngx_etcd_conf_t *ecf)
{
    ngx_uint_t                i;
    ngx_etcd_endpoint_t      *endpoint;
    ngx_etcd_cluster_conf_t  *client;

    client = &ecf->client;
    endpoint = client->endpoints.elts;

    if (client->endpoints.nelts == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "etcd cluster \"%V\" has no \"endpoints\"",
                           &ecf->name);
        return NGX_ERROR;
    }

    for (i = 0; i < client->endpoints.nelts; i++) {

        if (endpoint[i].addr.sockaddr == NULL && client->resolver == NULL) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "etcd cluster \"%V\" has the host name \"%V\" "
                               "among its \"endpoints\" and no \"resolver\"",
                               &ecf->name, &endpoint[i].host);
            return NGX_ERROR;
        }
    }

    ngx_conf_init_msec_value(client->resolver_timeout, 5000);
    ngx_conf_init_msec_value(client->rebalance, 120000);
    ngx_conf_init_msec_value(client->auto_sync, 0);

    return NGX_OK;
}
