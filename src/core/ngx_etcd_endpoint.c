
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_endpoint.h>


static char *ngx_etcd_endpoint(ngx_conf_t *cf, ngx_etcd_endpoint_t *endpoint);
static char *ngx_etcd_endpoint_host(ngx_conf_t *cf,
    ngx_etcd_endpoint_t *endpoint, ngx_str_t *host);


char *
ngx_etcd_endpoints(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
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

        rv = ngx_etcd_endpoint(cf, endpoint);

        if (rv == NGX_CONF_ERROR) {
            return rv;
        }

        if (rv != NULL) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid endpoint \"%V\": %s", &value[i], rv);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


/* "http[s]://host:port", "host:port": NULL, or what is wrong with it */

static char *
ngx_etcd_endpoint(ngx_conf_t *cf, ngx_etcd_endpoint_t *endpoint)
{
    u_char     *p;
    ngx_url_t   u;

    ngx_memzero(&u, sizeof(ngx_url_t));

    u.url = endpoint->url;
    u.default_port = 2379;
    u.no_resolve = 1;

    if (ngx_strncasecmp(u.url.data, (u_char *) "https://", 8) == 0) {
        endpoint->secure = 1;
        u.url.data += 8;
        u.url.len -= 8;

    } else if (ngx_strncasecmp(u.url.data, (u_char *) "http://", 7) == 0) {
        u.url.data += 7;
        u.url.len -= 7;
    }

    if (u.url.len != 0 && u.url.data[u.url.len - 1] == '/') {
        u.url.len--;
    }

    if (u.url.len == 0) {
        return "no host";
    }

    for (p = u.url.data; p < u.url.data + u.url.len; p++) {
        if (*p == '/' || *p == '@' || *p == '?' || *p == '#' || *p <= ' ') {
            return "it is not \"http://ADDRESS:PORT\"";
        }
    }

    if (ngx_parse_url(cf->pool, &u) != NGX_OK) {
        return u.err ? u.err : NGX_CONF_ERROR;
    }

    if (u.naddrs == 0) {
        return "a host name is not supported by this version, "
               "only IP addresses";
    }

    endpoint->addr = u.addrs[0];
    endpoint->authority = u.addrs[0].name;

    return ngx_etcd_endpoint_host(cf, endpoint, &u.host);
}


/* as certificates have it: without the brackets of an IPv6 address */

static char *
ngx_etcd_endpoint_host(ngx_conf_t *cf, ngx_etcd_endpoint_t *endpoint,
    ngx_str_t *host)
{
    ngx_str_t  name;

    name = *host;

    if (name.len > 2 && name.data[0] == '[') {
        name.data++;
        name.len -= 2;
    }

    endpoint->host.data = ngx_pnalloc(cf->pool, name.len + 1);
    if (endpoint->host.data == NULL) {
        return NGX_CONF_ERROR;
    }

    endpoint->host.len = name.len;
    *ngx_cpymem(endpoint->host.data, name.data, name.len) = '\0';

    return NULL;
}
