
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_learn.h>
#include <ngx_etcd_str.h>


static char *
ngx_etcd_learn_unfit(ngx_etcd_learn_t *learn, ngx_etcd_endpoint_t *endpoint)
{
    ngx_uint_t                i, plain;
    ngx_etcd_endpoint_t      *configured;
    ngx_etcd_cluster_conf_t  *conf;

    conf = learn->cluster->conf;
    plain = (conf->srv.len != 0 && conf->ssl == NULL);
    configured = conf->endpoints.elts;

    for (i = 0; i < conf->endpoints.nelts; i++) {
        plain |= !configured[i].secure;
    }

    if (ngx_etcd_endpoint_unix(endpoint)) {
        return "it is a UNIX socket";
    }

    if (endpoint->addr.sockaddr == NULL && conf->resolver == NULL) {
        return "it has a host name, and there is no \"resolver\"";
    }

    if (endpoint->secure && conf->ssl == NULL) {
        return "it is https, and there is no \"ssl_trusted_certificate\"";
    }

    /*
     * a token must not be sent in plain text unless the configuration does so
     */

    if (!endpoint->secure && !plain) {
        return (conf->srv.len != 0)
               ? "it is not https, which the block has \"ssl_\" directives for"
               : "it is not https, as all \"endpoints\" are";
    }

    /* a local address means another host here than on the member */

    if (learn->source == NGX_ETCD_ENDPOINT_ADVERTISED
        && endpoint->local && !ngx_etcd_cluster_local(conf))
    {
        return "it is an address of the local machine";
    }

    return NULL;
}


/*
 * Returns NULL if the endpoints have taken over the pool, or why the URL cannot
 * be used.
 */

static char *
ngx_etcd_learn_take(ngx_etcd_learn_t *learn, ngx_pool_t *pool, u_char *data,
    size_t len)
{
    char                 *reason;
    ngx_etcd_endpoint_t  *endpoint;

    if (len == 0 || len > NGX_ETCD_URL_MAX) {
        return "it is empty or too long";
    }

    endpoint = ngx_pcalloc(pool, sizeof(ngx_etcd_endpoint_t));
    if (endpoint == NULL) {
        return "no memory";
    }

    endpoint->url.len = len;
    endpoint->url.data = ngx_pnalloc(pool, len);
    if (endpoint->url.data == NULL) {
        return "no memory";
    }

    ngx_memcpy(endpoint->url.data, data, len);

    reason = ngx_etcd_endpoint_parse(pool, endpoint);

    if (reason == NULL) {
        reason = ngx_etcd_learn_unfit(learn, endpoint);
    }

    if (reason == NULL
        && ngx_etcd_endpoints_merge_add(&learn->cluster->endpoints, pool,
                                        endpoint, learn->source)
           != NGX_OK)
    {
        reason = "there are too many endpoints";
    }

    return reason;
}


static void
ngx_etcd_learn_report(ngx_etcd_learn_t *learn, u_char *data, size_t len,
    char *reason)
{
    uint32_t             crc;
    ngx_uint_t           n;
    ngx_etcd_cluster_t  *cluster;

    crc = ngx_crc32_long(data, len);

    for (n = 0; n < learn->nreported; n++) {
        if (learn->reported[n] == crc) {
            return;
        }
    }

    if (n == NGX_ETCD_LEARN_REPORTS) {
        return;
    }

    learn->reported[learn->nreported++] = crc;

    cluster = learn->cluster;

    if (learn->source == NGX_ETCD_ENDPOINT_SRV) {
        ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                      "etcd cluster \"%V\": SRV target \"%V\" is ignored: %s",
                      &cluster->conf->name, ngx_etcd_shown_bytes(data, len),
                      reason);
        return;
    }

    ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                  "etcd cluster \"%V\": advertised URL \"%V\" is ignored: %s",
                  &cluster->conf->name, ngx_etcd_shown_bytes(data, len),
                  reason);
}


ngx_uint_t
ngx_etcd_learn_url(ngx_etcd_learn_t *learn, u_char *data, size_t len)
{
    char        *reason;
    ngx_pool_t  *pool;

    pool = ngx_create_pool(1024, learn->cluster->log);
    if (pool == NULL) {
        return 0;
    }

    reason = ngx_etcd_learn_take(learn, pool, data, len);

    if (reason == NULL) {
        return 1;
    }

    ngx_destroy_pool(pool);
    ngx_etcd_learn_report(learn, data, len, reason);

    return 0;
}
