
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watch_quorum.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_clock.h>


static void
ngx_etcd_watch_quorum_later(ngx_etcd_watch_quorum_t *quorum)
{
    ngx_msec_t  interval;

    interval = quorum->cluster->conf->ping_interval
               * NGX_ETCD_WATCH_QUORUM_PINGS;

    ngx_add_timer(&quorum->timer,
                  interval - (ngx_msec_t) ngx_random() % (interval / 4 + 1));
}


/* Other failures say nothing about the endpoint, or end the stream as well. */

static void
ngx_etcd_watch_quorum_answered(ngx_etcd_quorum_read_t *read,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_etcd_watch_quorum_t  *quorum;

    quorum = read->data;

    if (status == NGX_ETCD_GRPC_OK
        || status == NGX_ETCD_GRPC_PERMISSION_DENIED)
    {
        quorum->silences = 0;
        ngx_etcd_cluster_prove(quorum->cluster, quorum->sent);
    }

    ngx_etcd_watch_quorum_later(quorum);
}


static void
ngx_etcd_watch_quorum_overdue(ngx_etcd_watch_quorum_t *quorum)
{
    ngx_str_t  reason;

    ngx_str_set(&reason, "no answer to a linearizable read");

    ngx_etcd_auth_unanswered(quorum->cluster->auth, quorum->read.range.token,
                             &reason);

    ngx_etcd_quorum_read_cancel(&quorum->read);

    quorum->silences++;
    quorum->silent(quorum->data, &reason);
}


static void
ngx_etcd_watch_quorum_ask(ngx_etcd_watch_quorum_t *quorum)
{
    ngx_msec_t  patience;

    quorum->sent = ngx_etcd_clock();

    if (quorum->read.key.len == 0
        || ngx_etcd_quorum_read_start(&quorum->read) != NGX_OK)
    {
        ngx_etcd_watch_quorum_later(quorum);
        return;
    }

    patience = quorum->cluster->conf->request_timeout;

    ngx_add_timer(&quorum->timer,
                  patience << ngx_min(quorum->silences,
                                      NGX_ETCD_WATCH_QUORUM_DOUBLINGS));
}


static void
ngx_etcd_watch_quorum_timer(ngx_event_t *ev)
{
    ngx_etcd_watch_quorum_t  *quorum;

    quorum = ev->data;

    if (quorum->read.range.running) {
        ngx_etcd_watch_quorum_overdue(quorum);

    } else {
        ngx_etcd_watch_quorum_ask(quorum);
    }
}


void
ngx_etcd_watch_quorum_init(ngx_etcd_watch_quorum_t *quorum,
    ngx_etcd_cluster_t *cluster, void (*silent)(void *data, ngx_str_t *reason),
    void *data)
{
    quorum->cluster = cluster;
    quorum->silent = silent;
    quorum->data = data;

    quorum->read.cluster = cluster;
    quorum->read.done = ngx_etcd_watch_quorum_answered;
    quorum->read.data = quorum;

    ngx_etcd_event_init_timer(&quorum->timer, ngx_etcd_watch_quorum_timer,
                              quorum, cluster->log);
}


void
ngx_etcd_watch_quorum_know(ngx_etcd_watch_quorum_t *quorum, ngx_str_t *key)
{
    u_char  *copy;

    if (quorum->read.key.len != 0) {
        return;
    }

    copy = ngx_pstrdup(quorum->cluster->pool, key);

    if (copy != NULL) {
        quorum->read.key.data = copy;
        quorum->read.key.len = key->len;
    }
}


void
ngx_etcd_watch_quorum_start(ngx_etcd_watch_quorum_t *quorum)
{
    ngx_etcd_watch_quorum_stop(quorum);
    ngx_etcd_watch_quorum_later(quorum);
}


void
ngx_etcd_watch_quorum_stop(ngx_etcd_watch_quorum_t *quorum)
{
    ngx_etcd_quorum_read_cancel(&quorum->read);

    ngx_etcd_event_stop(&quorum->timer);
}
