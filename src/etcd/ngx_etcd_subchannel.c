
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_proto.pb-c.h>
#include <ngx_etcd_subchannel.h>


/* calls of one connection: a watch, the renewal of leases, and another one */

#define NGX_ETCD_SUBCHANNEL_CALLS  3


static void ngx_etcd_subchannel_decide(void *data);
static void ngx_etcd_subchannel_leave(ngx_etcd_subchannel_t *subchannel,
    ngx_str_t *reason);


static void
ngx_etcd_subchannel_accept(ngx_etcd_subchannel_t *subchannel)
{
    uint32_t             n;
    ngx_etcd_cluster_t  *cluster;

    cluster = subchannel->cluster;

    subchannel->state = NGX_ETCD_SUBCHANNEL_READY;
    subchannel->since = ngx_current_msec;

    n = ngx_etcd_http2_max_calls(subchannel->h2);

    /* without this line, nothing would say why the third call does not begin */

    if (n < NGX_ETCD_SUBCHANNEL_CALLS) {
        ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                      "etcd endpoint %V accepts %uD calls at once on a "
                      "connection, nginx needs %d: increase "
                      "\"--max-concurrent-streams\" of etcd",
                      &subchannel->place->endpoint->url, n,
                      NGX_ETCD_SUBCHANNEL_CALLS);
    }

    if (subchannel->id != 0) {
        subchannel->place->foreign = 0;
        ngx_etcd_cluster_id_report(cluster, subchannel->place, 0);
    }

    ngx_etcd_endpoints_move(&cluster->endpoints, subchannel->place,
                            NGX_ETCD_ENDPOINT_CONNECTING,
                            NGX_ETCD_ENDPOINT_CONNECTED);

    subchannel->ready(subchannel);
}


static ngx_int_t
ngx_etcd_subchannel_identified(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool)
{
    ngx_etcd_subchannel_t  *subchannel;

    subchannel = call->data;

    subchannel->took = ngx_current_msec - subchannel->dialed;
    ngx_post_event(&subchannel->next, &ngx_posted_events);

    return NGX_OK;
}


/* An endpoint that refuses the call is a proxy: its answers show who it is. */

static void
ngx_etcd_subchannel_unidentified(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_etcd_subchannel_t  *subchannel;

    subchannel = call->data;

    if (subchannel->next.posted) {
        return;
    }

    if (!ngx_etcd_backoff_retriable(status)) {
        ngx_etcd_subchannel_decide(subchannel);
        return;
    }

    subchannel->late |= (status == NGX_ETCD_GRPC_DEADLINE_EXCEEDED);

    /* the end of the connection is reported by closed() */

    if (!ngx_etcd_http2_ended(subchannel->h2)) {
        ngx_etcd_subchannel_leave(subchannel, text);
    }
}


static ngx_int_t
ngx_etcd_subchannel_identify(ngx_etcd_subchannel_t *subchannel)
{
    ngx_etcd_grpc_call_t      *call;
    Etcd__WatchRequest         request;
    Etcd__WatchCreateRequest   create;

    call = &subchannel->identify;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = "/etcdserverpb.Watch/Watch";
    call->response = &etcd__watch_response__descriptor;
    call->timeout = subchannel->cluster->conf->connect_timeout
                    + subchannel->patience;
    call->message = ngx_etcd_subchannel_identified;
    call->done = ngx_etcd_subchannel_unidentified;
    call->data = subchannel;
    call->brief = 1;

    if (ngx_etcd_grpc_start(subchannel->h2, call) != NGX_OK) {
        return NGX_ERROR;
    }

    /* etcd takes no key for the key of one zero byte */

    etcd__watch_request__init(&request);
    etcd__watch_create_request__init(&create);

    request.request_union_case =
                             ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;

    return ngx_etcd_grpc_send(call, &request.base);
}


static void
ngx_etcd_subchannel_ready(void *data)
{
    ngx_etcd_subchannel_t *subchannel = data;

    ngx_str_t  reason;

    subchannel->state = NGX_ETCD_SUBCHANNEL_IDENTIFYING;
    subchannel->id = 0;

    if (ngx_etcd_subchannel_identify(subchannel) != NGX_OK) {
        ngx_str_set(&reason, "no memory");
        ngx_etcd_subchannel_leave(subchannel, &reason);
    }
}


/* A message of a connection in use tells another id only through a proxy. */

static ngx_int_t
ngx_etcd_subchannel_header(void *data, uint64_t id)
{
    ngx_etcd_subchannel_t *subchannel = data;

    ngx_int_t  rc;

    if (subchannel->state != NGX_ETCD_SUBCHANNEL_READY) {
        subchannel->id = id;
        return NGX_OK;
    }

    rc = ngx_etcd_cluster_id_check(subchannel->cluster, id);

    if (rc == NGX_AGAIN) {
        (void) ngx_etcd_cluster_id_adopt(subchannel->cluster, id);
        return NGX_OK;
    }

    if (rc != NGX_OK) {
        subchannel->place->foreign = id;
        ngx_post_event(&subchannel->next, &ngx_posted_events);
    }

    return rc;
}


/* counted once per connection: the next one sends PINGs less often */

static void
ngx_etcd_subchannel_pings(ngx_etcd_subchannel_t *subchannel)
{
    if (!subchannel->pings && ngx_etcd_http2_too_many_pings(subchannel->h2)) {
        subchannel->pings = 1;
        subchannel->cluster->counts.too_many_pings++;
    }
}


static void
ngx_etcd_subchannel_draining(void *data)
{
    ngx_etcd_subchannel_t *subchannel = data;

    ngx_etcd_subchannel_pings(subchannel);

    subchannel->draining(subchannel);
}


static void
ngx_etcd_subchannel_fail(ngx_etcd_subchannel_t *subchannel, ngx_str_t *reason)
{
    ngx_etcd_place_t  *place;

    place = subchannel->place;

    if (place->foreign != 0) {
        ngx_etcd_cluster_id_report(subchannel->cluster, place, place->foreign);
    }

    ngx_etcd_subchannel_close(subchannel);

    subchannel->failed(subchannel, reason);
}


static void
ngx_etcd_subchannel_closed(void *data, ngx_str_t *reason)
{
    ngx_etcd_subchannel_t *subchannel = data;

    /* the GOAWAY may have come together with the end of the connection */

    ngx_etcd_subchannel_pings(subchannel);
    subchannel->late |= ngx_etcd_http2_late(subchannel->h2);
    subchannel->h2 = NULL;

    if (subchannel->state == NGX_ETCD_SUBCHANNEL_READY) {
        ngx_etcd_subchannel_fail(subchannel, reason);
        return;
    }

    ngx_etcd_subchannel_leave(subchannel, reason);
}


/* Connects to addrs[tried]. */

static ngx_int_t
ngx_etcd_subchannel_dial(ngx_etcd_subchannel_t *subchannel)
{
    ngx_etcd_cluster_t       *cluster;
    ngx_etcd_endpoint_t      *endpoint;
    ngx_etcd_http2_conf_t    *conf;
    ngx_etcd_cluster_conf_t  *ccf;

    cluster = subchannel->cluster;
    ccf = cluster->conf;
    conf = &subchannel->conf;
    endpoint = subchannel->place->endpoint;

    ngx_memzero(conf, sizeof(ngx_etcd_http2_conf_t));

    conf->addr = &subchannel->target.addrs[subchannel->target.tried];
    conf->authority = endpoint->authority;
    conf->name = endpoint->url;
    conf->connect_timeout = ccf->connect_timeout;
    conf->patience = subchannel->patience;
    conf->ping_interval = ngx_etcd_cluster_ping_interval(cluster);
    conf->ping_timeout = ccf->ping_timeout;
    conf->max_message_size = ccf->max_message_size;
    conf->ready = ngx_etcd_subchannel_ready;
    conf->alive = subchannel->alive;
    conf->header = ngx_etcd_subchannel_header;
    conf->pong = subchannel->pong;
    conf->draining = ngx_etcd_subchannel_draining;
    conf->closed = ngx_etcd_subchannel_closed;
    conf->data = subchannel;

    if (endpoint->secure) {
        ngx_etcd_ssl_refresh(ccf->ssl, "cluster", &ccf->name, cluster->log);

        conf->ssl = ccf->ssl;
        conf->ssl_name = ccf->ssl->name.len ? ccf->ssl->name : endpoint->host;
    }

    subchannel->state = NGX_ETCD_SUBCHANNEL_CONNECTING;
    subchannel->dialed = ngx_current_msec;
    subchannel->took = 0;
    subchannel->h2 = ngx_etcd_http2_connect(conf, cluster->log);

    return (subchannel->h2 != NULL) ? NGX_OK : NGX_ERROR;
}


/* NGX_DECLINED: there is no further address */

static ngx_int_t
ngx_etcd_subchannel_dial_next(ngx_etcd_subchannel_t *subchannel,
    ngx_str_t *reason)
{
    ngx_etcd_cluster_t           *cluster;
    ngx_etcd_subchannel_addrs_t  *target;

    cluster = subchannel->cluster;
    target = &subchannel->target;

    while (target->tried + 1 < target->naddrs && !ngx_exiting) {

        ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                      "etcd cluster \"%V\": endpoint %V: %V failed: %V, "
                      "trying its next address",
                      &cluster->conf->name, &subchannel->place->endpoint->url,
                      &target->addrs[target->tried].name, reason);

        target->tried++;

        if (ngx_etcd_subchannel_dial(subchannel) == NGX_OK) {
            return NGX_OK;
        }
    }

    return NGX_DECLINED;
}


/* Goes to the next address of the endpoint. */

static void
ngx_etcd_subchannel_leave(ngx_etcd_subchannel_t *subchannel, ngx_str_t *reason)
{
    ngx_etcd_http2_t  *h2;

    h2 = subchannel->h2;

    subchannel->state = NGX_ETCD_SUBCHANNEL_CONNECTING;
    subchannel->h2 = NULL;

    ngx_etcd_grpc_cancel(&subchannel->identify);
    ngx_etcd_waiter_forget(&subchannel->undecided);
    ngx_etcd_event_stop(&subchannel->next);

    if (h2 != NULL) {
        ngx_etcd_http2_close(h2);
    }

    if (ngx_etcd_subchannel_dial_next(subchannel, reason) != NGX_OK) {
        ngx_etcd_subchannel_fail(subchannel, reason);
    }
}


static void
ngx_etcd_subchannel_decide(void *data)
{
    ngx_etcd_subchannel_t *subchannel = data;

    ngx_int_t            rc;
    ngx_str_t            reason;
    ngx_etcd_place_t    *place;
    ngx_etcd_cluster_t  *cluster;

    place = subchannel->place;
    cluster = subchannel->cluster;

    rc = ngx_etcd_cluster_id_check(cluster, subchannel->id);

    if (rc == NGX_AGAIN) {
        cluster->undecided(cluster, place, subchannel->id,
                           &subchannel->undecided);
        return;
    }

    if (rc == NGX_OK) {
        ngx_etcd_subchannel_accept(subchannel);
        return;
    }

    place->foreign = subchannel->id;

    ngx_str_set(&reason, "it belongs to another cluster");
    ngx_etcd_subchannel_leave(subchannel, &reason);
}


static void
ngx_etcd_subchannel_next(ngx_event_t *ev)
{
    ngx_str_t               reason;
    ngx_etcd_subchannel_t  *subchannel;

    subchannel = ev->data;

    if (subchannel->state == NGX_ETCD_SUBCHANNEL_IDENTIFYING) {
        ngx_etcd_grpc_cancel(&subchannel->identify);
        ngx_etcd_subchannel_decide(subchannel);
        return;
    }

    if (subchannel->state == NGX_ETCD_SUBCHANNEL_READY) {
        ngx_str_set(&reason, "it belongs to another cluster");

    } else {
        ngx_str_set(&reason, "connect() failed");
    }

    ngx_etcd_subchannel_fail(subchannel, &reason);
}


/*
 * An advertised name must not resolve to the local machine, which is another
 * host here than on the member: leaves out such addresses, unless a configured
 * endpoint is local.
 */

static void
ngx_etcd_subchannel_found(void *data, ngx_resolver_addr_t *addrs, ngx_uint_t n)
{
    ngx_etcd_subchannel_t *subchannel = data;

    ngx_uint_t                    i, k, foreign;
    ngx_addr_t                   *addr;
    ngx_sockaddr_t               *sockaddr;
    ngx_etcd_subchannel_addrs_t  *target;

    target = &subchannel->target;
    foreign = subchannel->place->source == NGX_ETCD_ENDPOINT_ADVERTISED
              && !ngx_etcd_cluster_local(subchannel->cluster->conf);

    for (i = 0; i < n && target->naddrs < NGX_ETCD_SUBCHANNEL_ADDRS; i++) {

        if (addrs[i].socklen > sizeof(ngx_sockaddr_t)
            || (foreign && ngx_etcd_url_local(addrs[i].sockaddr)))
        {
            continue;
        }

        k = target->naddrs++;

        addr = &target->found[k];
        sockaddr = &target->sockaddrs[k];

        ngx_memcpy(sockaddr, addrs[i].sockaddr, addrs[i].socklen);
        ngx_inet_set_port(&sockaddr->sockaddr,
                          subchannel->place->endpoint->port);

        addr->sockaddr = &sockaddr->sockaddr;
        addr->socklen = addrs[i].socklen;
        addr->name.data = target->names[k];
        addr->name.len = ngx_sock_ntop(addr->sockaddr, addr->socklen,
                                       addr->name.data, NGX_SOCKADDR_STRLEN,
                                       1);
    }
}


static void
ngx_etcd_subchannel_resolved(void *data)
{
    ngx_etcd_subchannel_t *subchannel = data;

    ngx_str_t  reason;

    if (subchannel->target.lookup.reason.len != 0) {
        ngx_etcd_subchannel_fail(subchannel, &subchannel->target.lookup.reason);
        return;
    }

    if (subchannel->target.naddrs == 0) {
        ngx_str_set(&reason, "it is an address of the local machine");
        ngx_etcd_subchannel_fail(subchannel, &reason);
        return;
    }

    if (ngx_etcd_subchannel_dial(subchannel) == NGX_OK) {
        return;
    }

    ngx_str_set(&reason, "connect() failed");

    if (ngx_etcd_subchannel_dial_next(subchannel, &reason) != NGX_OK) {
        ngx_etcd_subchannel_fail(subchannel, &reason);
    }
}


static void
ngx_etcd_subchannel_resolve(ngx_etcd_subchannel_t *subchannel)
{
    ngx_etcd_lookup_t        *lookup;
    ngx_etcd_cluster_conf_t  *conf;

    conf = subchannel->cluster->conf;

    subchannel->state = NGX_ETCD_SUBCHANNEL_RESOLVING;
    subchannel->target.addrs = subchannel->target.found;
    subchannel->target.naddrs = 0;

    lookup = &subchannel->target.lookup;

    lookup->resolver = conf->resolver;
    lookup->timeout = conf->resolver_timeout;
    lookup->name = subchannel->place->endpoint->host;
    lookup->found = ngx_etcd_subchannel_found;
    lookup->done = ngx_etcd_subchannel_resolved;
    lookup->data = subchannel;

    ngx_etcd_lookup_start(lookup, subchannel->cluster->log);
}


void
ngx_etcd_subchannel_open(ngx_etcd_subchannel_t *subchannel,
    ngx_etcd_place_t *place)
{
    ngx_etcd_endpoint_t  *endpoint;

    subchannel->place = place;
    subchannel->pings = 0;
    subchannel->late = 0;
    subchannel->target.tried = 0;

    ngx_etcd_event_init(&subchannel->next, ngx_etcd_subchannel_next, subchannel,
                        subchannel->cluster->log);

    subchannel->undecided.handler = ngx_etcd_subchannel_decide;
    subchannel->undecided.data = subchannel;

    ngx_etcd_endpoints_move(&subchannel->cluster->endpoints, place,
                            NGX_ETCD_ENDPOINT_UNUSED,
                            NGX_ETCD_ENDPOINT_CONNECTING);

    endpoint = place->endpoint;

    if (endpoint->addr.sockaddr == NULL) {
        ngx_etcd_subchannel_resolve(subchannel);
        return;
    }

    subchannel->target.addrs = endpoint->addrs ? endpoint->addrs
                                               : &endpoint->addr;
    subchannel->target.naddrs = endpoint->addrs ? endpoint->naddrs : 1;

    if (ngx_etcd_subchannel_dial(subchannel) != NGX_OK) {
        ngx_post_event(&subchannel->next, &ngx_posted_events);
    }
}


void
ngx_etcd_subchannel_close(ngx_etcd_subchannel_t *subchannel)
{
    ngx_uint_t         ready;
    ngx_etcd_http2_t  *h2;

    if (subchannel->state == NGX_ETCD_SUBCHANNEL_CLOSED) {
        return;
    }

    ready = (subchannel->state == NGX_ETCD_SUBCHANNEL_READY);
    h2 = subchannel->h2;

    /* the calls that end now must find the subchannel closed */

    subchannel->state = NGX_ETCD_SUBCHANNEL_CLOSED;
    subchannel->h2 = NULL;

    ngx_etcd_lookup_cancel(&subchannel->target.lookup);
    ngx_etcd_grpc_cancel(&subchannel->identify);
    ngx_etcd_waiter_forget(&subchannel->undecided);
    ngx_etcd_event_stop(&subchannel->next);

    ngx_etcd_endpoints_move(&subchannel->cluster->endpoints, subchannel->place,
                            ready ? NGX_ETCD_ENDPOINT_CONNECTED
                                  : NGX_ETCD_ENDPOINT_CONNECTING,
                            NGX_ETCD_ENDPOINT_UNUSED);

    if (h2 != NULL) {
        ngx_etcd_http2_close(h2);
    }
}
