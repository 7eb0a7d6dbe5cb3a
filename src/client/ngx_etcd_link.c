
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_link.h>


static void ngx_etcd_link_resolve(ngx_etcd_link_t *link);
static void ngx_etcd_link_resolved(void *data);
static void ngx_etcd_link_foreign(ngx_etcd_link_t *link);
static ngx_int_t ngx_etcd_link_dial(ngx_etcd_link_t *link);
static ngx_int_t ngx_etcd_link_dial_next(ngx_etcd_link_t *link,
    ngx_str_t *reason);
static void ngx_etcd_link_secure(ngx_etcd_link_t *link,
    ngx_etcd_endpoint_t *endpoint);
static void ngx_etcd_link_refused(ngx_event_t *ev);
static void ngx_etcd_link_ready(void *data);
static void ngx_etcd_link_alive(void *data);
static void ngx_etcd_link_pong(void *data, uint64_t sent);
static void ngx_etcd_link_draining(void *data);
static void ngx_etcd_link_closed(void *data, ngx_str_t *reason);
static void ngx_etcd_link_fail(ngx_etcd_link_t *link, ngx_str_t *reason);
static void ngx_etcd_link_pings(ngx_etcd_link_t *link);


void
ngx_etcd_link_open(ngx_etcd_link_t *link, ngx_etcd_place_t *place)
{
    ngx_etcd_endpoint_t  *endpoint;

    link->place = place;
    link->pings = 0;
    link->tried = 0;

    link->refused.handler = ngx_etcd_link_refused;
    link->refused.data = link;
    link->refused.log = link->cluster->log;

    ngx_etcd_roster_connecting(&link->cluster->roster, place);

    endpoint = place->endpoint;

    if (endpoint->addr.sockaddr == NULL) {
        ngx_etcd_link_resolve(link);
        return;
    }

    link->addrs = &endpoint->addr;
    link->naddrs = 1;

    if (ngx_etcd_link_dial(link) != NGX_OK) {
        ngx_post_event(&link->refused, &ngx_posted_events);
    }
}


void
ngx_etcd_link_close(ngx_etcd_link_t *link)
{
    ngx_uint_t         ready;
    ngx_etcd_http2_t  *h2;

    if (link->state == NGX_ETCD_LINK_CLOSED) {
        return;
    }

    ready = (link->state == NGX_ETCD_LINK_READY);
    h2 = link->h2;

    /* calls that end now find the link closed */

    link->state = NGX_ETCD_LINK_CLOSED;
    link->h2 = NULL;

    ngx_etcd_lookup_cancel(&link->lookup);

    if (link->refused.posted) {
        ngx_delete_posted_event(&link->refused);
    }

    ngx_etcd_roster_left(&link->cluster->roster, link->place, ready);

    if (h2 != NULL) {
        ngx_etcd_http2_close(h2);
    }
}


static void
ngx_etcd_link_resolve(ngx_etcd_link_t *link)
{
    ngx_etcd_lookup_t        *lookup;
    ngx_etcd_endpoint_t      *endpoint;
    ngx_etcd_cluster_conf_t  *conf;

    conf = link->cluster->conf;
    endpoint = link->place->endpoint;

    link->state = NGX_ETCD_LINK_RESOLVING;

    lookup = &link->lookup;

    lookup->resolver = conf->resolver;
    lookup->timeout = conf->resolver_timeout;
    lookup->name = endpoint->host;
    lookup->port = endpoint->port;
    lookup->done = ngx_etcd_link_resolved;
    lookup->data = link;

    ngx_etcd_lookup_start(lookup, link->cluster->log);
}


static void
ngx_etcd_link_resolved(void *data)
{
    ngx_etcd_link_t *link = data;

    ngx_str_t  reason;

    link->addrs = link->lookup.addrs;
    link->naddrs = link->lookup.naddrs;

    if (link->naddrs == 0) {
        ngx_etcd_link_fail(link, &link->lookup.reason);
        return;
    }

    ngx_etcd_link_foreign(link);

    if (link->naddrs == 0) {
        ngx_str_set(&reason, "it leads to the own machine");
        ngx_etcd_link_fail(link, &reason);
        return;
    }

    if (ngx_etcd_link_dial(link) == NGX_OK) {
        return;
    }

    ngx_str_set(&reason, "connect() failed");

    if (ngx_etcd_link_dial_next(link, &reason) != NGX_OK) {
        ngx_etcd_link_fail(link, &reason);
    }
}


/* a name that was advertised means what it does on the member, or nothing */

static void
ngx_etcd_link_foreign(ngx_etcd_link_t *link)
{
    ngx_uint_t  i, n;

    if (!ngx_etcd_roster_learned(link->place)
        || ngx_etcd_cluster_local(link->cluster->conf))
    {
        return;
    }

    n = 0;

    for (i = 0; i < link->naddrs; i++) {
        if (!ngx_etcd_url_local(link->addrs[i].sockaddr)) {
            link->addrs[n++] = link->addrs[i];
        }
    }

    link->naddrs = n;
}


/* the address whose turn it is */

static ngx_int_t
ngx_etcd_link_dial(ngx_etcd_link_t *link)
{
    ngx_etcd_cluster_t       *cluster;
    ngx_etcd_endpoint_t      *endpoint;
    ngx_etcd_http2_conf_t    *conf;
    ngx_etcd_cluster_conf_t  *ccf;

    cluster = link->cluster;
    ccf = cluster->conf;
    conf = &link->conf;
    endpoint = link->place->endpoint;

    ngx_memzero(conf, sizeof(ngx_etcd_http2_conf_t));

    conf->addr = &link->addrs[link->tried];
    conf->authority = endpoint->authority;
    conf->name = endpoint->url;
    conf->connect_timeout = ccf->connect_timeout;
    conf->ping_interval = ngx_etcd_cluster_ping_interval(cluster);
    conf->ping_timeout = ccf->ping_timeout;
    conf->max_message_size = ccf->max_message_size;
    conf->ready = ngx_etcd_link_ready;
    conf->alive = ngx_etcd_link_alive;
    conf->pong = ngx_etcd_link_pong;
    conf->draining = ngx_etcd_link_draining;
    conf->closed = ngx_etcd_link_closed;
    conf->data = link;

    if (endpoint->secure) {
        ngx_etcd_link_secure(link, endpoint);
    }

    link->state = NGX_ETCD_LINK_CONNECTING;
    link->h2 = ngx_etcd_http2_connect(conf, cluster->log);

    return (link->h2 != NULL) ? NGX_OK : NGX_ERROR;
}


/* NGX_DECLINED: no further address */

static ngx_int_t
ngx_etcd_link_dial_next(ngx_etcd_link_t *link, ngx_str_t *reason)
{
    ngx_etcd_cluster_t  *cluster;

    cluster = link->cluster;

    while (link->tried + 1 < link->naddrs && !ngx_exiting) {

        ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                      "etcd cluster \"%V\": endpoint %V: %V failed: %V, "
                      "trying its next address",
                      &cluster->conf->name, &link->place->endpoint->url,
                      &link->addrs[link->tried].name, reason);

        link->tried++;

        if (ngx_etcd_link_dial(link) == NGX_OK) {
            return NGX_OK;
        }
    }

    return NGX_DECLINED;
}


static void
ngx_etcd_link_secure(ngx_etcd_link_t *link, ngx_etcd_endpoint_t *endpoint)
{
    ngx_etcd_ssl_t      *ssl;
    ngx_etcd_cluster_t  *cluster;

    cluster = link->cluster;
    ssl = cluster->conf->ssl;

    ngx_etcd_ssl_refresh(ssl, "cluster", &cluster->conf->name, cluster->log);

    link->conf.ssl = ssl;
    link->conf.ssl_name = ssl->name.len ? ssl->name : endpoint->host;
}


static void
ngx_etcd_link_refused(ngx_event_t *ev)
{
    ngx_str_t  reason;

    ngx_str_set(&reason, "connect() failed");

    ngx_etcd_link_fail(ev->data, &reason);
}


static void
ngx_etcd_link_ready(void *data)
{
    ngx_etcd_link_t *link = data;

    link->state = NGX_ETCD_LINK_READY;
    link->since = ngx_current_msec;

    ngx_etcd_roster_connected(&link->cluster->roster, link->place);

    link->ready(link);
}


static void
ngx_etcd_link_alive(void *data)
{
    ngx_etcd_link_t *link = data;

    link->alive(link);
}


static void
ngx_etcd_link_pong(void *data, uint64_t sent)
{
    ngx_etcd_link_t *link = data;

    link->pong(link, sent);
}


static void
ngx_etcd_link_draining(void *data)
{
    ngx_etcd_link_t *link = data;

    ngx_etcd_link_pings(link);

    link->draining(link);
}


static void
ngx_etcd_link_closed(void *data, ngx_str_t *reason)
{
    ngx_etcd_link_t *link = data;

    /* the GOAWAY may have come together with the end */

    ngx_etcd_link_pings(link);
    link->h2 = NULL;

    if (link->state == NGX_ETCD_LINK_CONNECTING
        && ngx_etcd_link_dial_next(link, reason) == NGX_OK)
    {
        return;
    }

    ngx_etcd_link_fail(link, reason);
}


static void
ngx_etcd_link_fail(ngx_etcd_link_t *link, ngx_str_t *reason)
{
    ngx_etcd_link_close(link);

    link->failed(link, reason);
}


/* once for a connection: the next one is to ping less often */

static void
ngx_etcd_link_pings(ngx_etcd_link_t *link)
{
    if (!link->pings && ngx_etcd_http2_too_many_pings(link->h2)) {
        link->pings = 1;
        link->cluster->too_many_pings++;
    }
}
