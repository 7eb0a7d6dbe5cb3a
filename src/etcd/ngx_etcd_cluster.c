
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_str.h>


#define NGX_ETCD_CLUSTER_ID_HEX  16     /* digits */


ngx_uint_t
ngx_etcd_cluster_local(ngx_etcd_cluster_conf_t *conf)
{
    ngx_uint_t            i;
    ngx_etcd_endpoint_t  *endpoint;

    endpoint = conf->endpoints.elts;

    for (i = 0; i < conf->endpoints.nelts; i++) {
        if (endpoint[i].local) {
            return 1;
        }
    }

    return 0;
}


void
ngx_etcd_cluster_prove(ngx_etcd_cluster_t *cluster, uint64_t time)
{
    if (cluster->current) {
        cluster->proved = ngx_max(cluster->proved, time);
    }
}


ngx_msec_t
ngx_etcd_cluster_ping_interval(ngx_etcd_cluster_t *cluster)
{
    return cluster->conf->ping_interval
           << ngx_min(cluster->too_many_pings, NGX_ETCD_CLUSTER_PINGS);
}


/* Returns the words of this nginx, or those of this client. */

static ngx_etcd_shared_id_t *
ngx_etcd_cluster_id_shared(ngx_etcd_cluster_t *cluster)
{
    ngx_etcd_shared_id_t  *shared;

    shared = cluster->conf->shared_id;

    return (shared != NULL && shared->epoch == cluster->conf->epoch)
           ? shared : &cluster->id;
}


uint64_t
ngx_etcd_cluster_id_known(ngx_etcd_cluster_t *cluster)
{
    ngx_etcd_shared_id_t  *shared;

    shared = ngx_etcd_cluster_id_shared(cluster);

    if (cluster->conf->cluster_id != 0
        && shared->id != cluster->conf->cluster_id)
    {
        shared->id = cluster->conf->cluster_id;
    }

    /* the copy stays when a new configuration agrees on another id */

    cluster->id.id = shared->id;

    return cluster->id.id;
}


/*
 * Returns for how many ms no endpoint of the known cluster has answered, though
 * each was asked again after request_timeout; 0 if one may.
 */

static uint64_t
ngx_etcd_cluster_id_missing(ngx_etcd_cluster_t *cluster)
{
    uint64_t  since, answered, end, now;

    since = cluster->endpoints.missing;

    if (since == 0) {
        return 0;
    }

    now = ngx_etcd_clock();
    answered = ngx_etcd_cluster_id_shared(cluster)->answered;
    since = ngx_max(since, answered);
    end = since + cluster->conf->request_timeout;

    return (now > end && ngx_etcd_endpoints_silent(&cluster->endpoints, end))
           ? now - since : 0;
}


ngx_int_t
ngx_etcd_cluster_id_check(ngx_etcd_cluster_t *cluster, uint64_t id)
{
    uint64_t  known, missing;

    if (id == 0) {
        return NGX_OK;
    }

    known = ngx_etcd_cluster_id_known(cluster);

    if (known == 0) {
        return NGX_AGAIN;
    }

    if (id == known) {
        ngx_etcd_cluster_id_answered(cluster);
        return NGX_OK;
    }

    missing = ngx_etcd_cluster_id_missing(cluster);

    if (missing == 0 || cluster->conf->cluster_id != 0) {
        return NGX_DECLINED;
    }

    if (ngx_etcd_cluster_id_adopt(cluster, id)) {
        ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                      "etcd cluster \"%V\": another history: another cluster "
                      "answers (cluster id %xL, was %xL), and no endpoint of "
                      "the former one has answered for %uL ms",
                      &cluster->conf->name, id, known, missing);
    }

    return (ngx_etcd_cluster_id_known(cluster) == id) ? NGX_OK : NGX_DECLINED;
}


void
ngx_etcd_cluster_id_answered(ngx_etcd_cluster_t *cluster)
{
    ngx_etcd_cluster_id_shared(cluster)->answered = ngx_etcd_clock();

    cluster->endpoints.missing = 0;
}


ngx_uint_t
ngx_etcd_cluster_id_adopt(ngx_etcd_cluster_t *cluster, uint64_t id)
{
    uint64_t               former;
    ngx_uint_t             first;
    ngx_etcd_shared_id_t  *shared;

    shared = ngx_etcd_cluster_id_shared(cluster);
    former = cluster->id.id;

    first = __atomic_compare_exchange_n(&shared->id, &former, id, 0,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);

    if (ngx_etcd_cluster_id_known(cluster) == id) {
        ngx_etcd_cluster_id_answered(cluster);
    }

    return first;
}


void
ngx_etcd_cluster_id_report(ngx_etcd_cluster_t *cluster,
    ngx_etcd_place_t *place, uint64_t id)
{
    ngx_str_t             *url;
    ngx_etcd_shared_id_t  *shared;

    url = &place->endpoint->url;
    shared = ngx_etcd_cluster_id_shared(cluster);

    /* clients of a former configuration have nothing new to say */

    if ((cluster->conf->shared_id != NULL && shared == &cluster->id)
        || !ngx_etcd_shared_id_mark(shared, url, id))
    {
        return;
    }

    if (id == 0) {
        ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                      "etcd cluster \"%V\": endpoint %V belongs to the cluster "
                      "in use again",
                      &cluster->conf->name, ngx_etcd_shown(url));
        return;
    }

    ngx_log_error(NGX_LOG_ERR, cluster->log, 0,
                  "etcd cluster \"%V\": endpoint %V is not used: it belongs to "
                  "another cluster (cluster id %xL, not %xL)",
                  &cluster->conf->name, ngx_etcd_shown(url), id,
                  ngx_etcd_cluster_id_known(cluster));
}


uint64_t
ngx_etcd_cluster_id_parse(ngx_str_t *text)
{
    size_t       len;
    u_char      *p, c;
    uint64_t     id, base, digit;

    p = text->data;
    len = text->len;
    base = 16;

    if (len > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
        p += 2;
        len -= 2;

    } else if (len > NGX_ETCD_CLUSTER_ID_HEX) {
        base = 10;
    }

    for (id = 0; len != 0; len--) {
        c = ngx_tolower(*p);
        p++;

        if (c >= '0' && c <= '9') {
            digit = c - '0';

        } else if (c >= 'a' && c <= 'f') {
            digit = c - 'a' + 10;

        } else {
            return 0;
        }

        if (digit >= base || id > (UINT64_MAX - digit) / base) {
            return 0;
        }

        id = id * base + digit;
    }

    return id;
}
