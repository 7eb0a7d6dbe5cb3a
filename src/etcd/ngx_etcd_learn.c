
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_learn.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_channel.h>


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


static void
ngx_etcd_srv_targets(void *data, ngx_resolver_srv_name_t *targets,
    ngx_uint_t n)
{
    ngx_etcd_srv_query_t *query = data;

    u_char           url[NGX_ETCD_URL_MAX + 1], *p;
    ngx_uint_t       i;
    ngx_etcd_srv_t  *srv;

    srv = query->srv;

    for (i = 0; i < n && srv->targets < NGX_ETCD_SRV_TARGETS; i++) {

        /* RFC 2782: the target "." says that there is no such service */

        if (targets[i].name.len == 0) {
            continue;
        }

        /* a URL that was cut is too long, which is what will be said of it */

        p = ngx_snprintf(url, NGX_ETCD_URL_MAX + 1, "%s://%V:%ui",
                         query->scheme, &targets[i].name,
                         (ngx_uint_t) targets[i].port);

        srv->targets++;
        srv->usable += ngx_etcd_learn_url(&srv->learn, url, p - url);
    }
}


static void
ngx_etcd_srv_failed(ngx_etcd_srv_t *srv)
{
    ngx_str_t            reason;
    ngx_etcd_cluster_t  *cluster;

    cluster = srv->cluster;

    if (srv->broken != NULL) {
        reason = *srv->broken;

    } else if (srv->targets != 0) {
        ngx_str_set(&reason, "no SRV target can be used");

    } else {
        ngx_str_set(&reason, "there are no SRV records");
    }

    if (srv->failures != 0) {
        ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                      "etcd cluster \"%V\": still no answer for \"srv:%V\": %V",
                      &cluster->conf->name, &cluster->conf->srv, &reason);

    } else if (ngx_etcd_endpoints_count(&cluster->endpoints) == 0) {
        ngx_log_error(NGX_LOG_ERR, cluster->log, 0,
                      "etcd cluster \"%V\": no endpoints by \"srv:%V\": %V, "
                      "trying again",
                      &cluster->conf->name, &cluster->conf->srv, &reason);

    } else {
        ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                      "etcd cluster \"%V\": endpoints by \"srv:%V\" stay as "
                      "they are: %V",
                      &cluster->conf->name, &cluster->conf->srv, &reason);
    }
}


static void
ngx_etcd_srv_learned(ngx_etcd_srv_t *srv)
{
    ngx_etcd_cluster_t  *cluster;

    cluster = srv->cluster;

    if (srv->failures != 0) {
        srv->failures = 0;

        ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                      "etcd cluster \"%V\": endpoints by \"srv:%V\" are known "
                      "again",
                      &cluster->conf->name, &cluster->conf->srv);
    }

    /* the targets of a query that has failed are not known */

    if (srv->broken == NULL) {
        ngx_etcd_endpoints_merge_end(&cluster->endpoints,
                                     NGX_ETCD_ENDPOINT_SRV);
    }

    ngx_etcd_channel_learned(cluster->streams);
    ngx_etcd_channel_learned(cluster->reads);

    /* the home may have changed */

    ngx_etcd_channel_settle(cluster->streams);

    cluster->changed(cluster->data);
}


static void
ngx_etcd_srv_answered(void *data)
{
    ngx_etcd_srv_query_t *query = data;

    ngx_msec_t           delay;
    ngx_etcd_srv_t      *srv;
    ngx_etcd_lookup_t   *lookup;

    srv = query->srv;
    lookup = &query->lookup;

    if (lookup->reason.len == 0) {
        srv->valid = (srv->valid == 0) ? lookup->valid
                                       : ngx_min(srv->valid, lookup->valid);

    } else if (!lookup->missing) {
        srv->broken = &lookup->reason;
    }

    if (--srv->open != 0) {
        return;
    }

    if (srv->usable == 0) {
        ngx_etcd_srv_failed(srv);

        delay = ngx_etcd_backoff(srv->cluster, srv->failures++);

    } else {
        ngx_etcd_srv_learned(srv);

        delay = (srv->valid < ngx_time())
                ? 0 : (ngx_msec_t) (srv->valid - ngx_time() + 1) * 1000;
        delay = ngx_max(delay, NGX_ETCD_SRV_AGAIN);
    }

    ngx_add_timer(&srv->timer, delay);
}


static void
ngx_etcd_srv_ask(ngx_event_t *ev)
{
    ngx_uint_t       i;
    ngx_etcd_srv_t  *srv;

    srv = ev->data;

    if (ngx_exiting) {
        return;
    }

    srv->open = 2;
    srv->targets = 0;
    srv->usable = 0;
    srv->broken = NULL;
    srv->valid = 0;

    for (i = 0; i < 2; i++) {
        ngx_etcd_lookup_start(&srv->queries[i].lookup, srv->cluster->log);
    }
}


ngx_etcd_srv_t *
ngx_etcd_srv_create(ngx_etcd_cluster_t *cluster)
{
    ngx_uint_t             i;
    ngx_etcd_srv_t        *srv;
    ngx_etcd_lookup_t     *lookup;
    ngx_etcd_srv_query_t  *query;

    srv = ngx_pcalloc(cluster->pool, sizeof(ngx_etcd_srv_t));
    if (srv == NULL) {
        return NULL;
    }

    srv->cluster = cluster;
    srv->learn.cluster = cluster;
    srv->learn.source = NGX_ETCD_ENDPOINT_SRV;

    query = srv->queries;

    query[0].scheme = "https";
    ngx_str_set(&query[0].lookup.service, "_etcd-client-ssl._tcp");

    query[1].scheme = "http";
    ngx_str_set(&query[1].lookup.service, "_etcd-client._tcp");

    for (i = 0; i < 2; i++) {
        query[i].srv = srv;

        lookup = &query[i].lookup;

        lookup->resolver = cluster->conf->resolver;
        lookup->timeout = cluster->conf->resolver_timeout;
        lookup->name = cluster->conf->srv;
        lookup->targets = ngx_etcd_srv_targets;
        lookup->done = ngx_etcd_srv_answered;
        lookup->data = &query[i];
    }

    ngx_etcd_event_init_timer(&srv->timer, ngx_etcd_srv_ask, srv,
                              cluster->log);

    ngx_add_timer(&srv->timer, 1);

    return srv;
}


void
ngx_etcd_srv_destroy(ngx_etcd_srv_t *srv)
{
    ngx_uint_t  i;

    ngx_etcd_event_stop(&srv->timer);

    for (i = 0; i < 2; i++) {
        ngx_etcd_lookup_cancel(&srv->queries[i].lookup);
    }
}
