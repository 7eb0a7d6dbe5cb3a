
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_fresh.h>
#include <ngx_etcd_clock.h>


void
ngx_etcd_fresh_init(ngx_etcd_fresh_t *fresh, ngx_etcd_cluster_t *cluster,
    ngx_int_t (*ask)(void *data), void *data)
{
    fresh->cluster = cluster;
    fresh->ask = ask;
    fresh->data = data;
}


void
ngx_etcd_fresh_done(ngx_etcd_fresh_t *fresh)
{
    fresh->cluster->current = 0;
}


void
ngx_etcd_fresh_count(ngx_etcd_fresh_t *fresh, ngx_int_t in_force,
    ngx_int_t behind)
{
    fresh->in_force += in_force;
    fresh->behind += behind;

    fresh->cluster->current = (fresh->in_force != 0 && fresh->behind == 0);
}


void
ngx_etcd_fresh_received(ngx_etcd_fresh_t *fresh)
{
    ngx_etcd_cluster_prove(fresh->cluster, ngx_etcd_clock());
}


/*
 * Answers do not identify their request, and a request may get no answer.  So
 * an answer proves the time of the first request only.  If the request was
 * repeated, the next one is delayed until all earlier answers should have come.
 */

void
ngx_etcd_fresh_answered(ngx_etcd_fresh_t *fresh)
{
    if (fresh->asked == 0) {
        return;
    }

    ngx_etcd_cluster_prove(fresh->cluster, fresh->asked);

    fresh->again = fresh->repeated ? ngx_etcd_clock() + NGX_ETCD_FRESH_AGAIN
                                   : 0;
    fresh->asked = 0;
}


void
ngx_etcd_fresh_ended(ngx_etcd_fresh_t *fresh)
{
    fresh->asked = 0;
    fresh->again = 0;
}


void
ngx_etcd_fresh_ask(ngx_etcd_fresh_t *fresh)
{
    uint64_t  now;

    now = ngx_etcd_clock();

    if (!fresh->cluster->current
        || now < fresh->again
        || fresh->ask(fresh->data) != NGX_OK)
    {
        return;
    }

    fresh->repeated = (fresh->asked != 0);

    if (!fresh->repeated) {
        fresh->asked = now;
    }

    fresh->again = now + NGX_ETCD_FRESH_AGAIN;
}
