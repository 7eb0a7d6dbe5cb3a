
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_dormant.h>
#include <ngx_etcd_event.h>


static void
ngx_etcd_dormant_wake(ngx_etcd_dormant_t *dormant)
{
    ngx_queue_t             *q, *next;
    ngx_etcd_service_t      *service;
    ngx_etcd_dormant_set_t  *set;

    for (q = ngx_queue_head(&dormant->sets);
         q != ngx_queue_sentinel(&dormant->sets);
         q = next)
    {
        next = ngx_queue_next(q);

        set = ngx_queue_data(q, ngx_etcd_dormant_set_t, queue);
        service = set->service;

        if (ngx_etcd_service_used(service)) {
            ngx_etcd_dormant_remove(set);
            service->source->wake(service);
        }
    }
}


static void
ngx_etcd_dormant_look(ngx_event_t *ev)
{
    ngx_atomic_uint_t    asked;
    ngx_etcd_dormant_t  *dormant;

    dormant = ev->data;

    /* read before the sets: a request that comes later is seen next time */

    asked = __atomic_load_n(&dormant->map->asked, __ATOMIC_ACQUIRE);

    if (asked != dormant->asked) {
        dormant->asked = asked;
        ngx_etcd_dormant_wake(dormant);
    }

    if (!ngx_queue_empty(&dormant->sets) && !ev->timer_set) {
        ngx_add_timer(ev, NGX_ETCD_DORMANT_INTERVAL);
    }
}


void
ngx_etcd_dormant_init(ngx_etcd_dormant_t *dormant, ngx_etcd_set_map_t *map,
    ngx_log_t *log)
{
    ngx_queue_init(&dormant->sets);

    dormant->map = map;

    ngx_etcd_event_init_timer(&dormant->look, ngx_etcd_dormant_look, dormant,
                              log);
}


void
ngx_etcd_dormant_done(ngx_etcd_dormant_t *dormant)
{
    ngx_etcd_event_stop(&dormant->look);
}


void
ngx_etcd_dormant_add(ngx_etcd_dormant_set_t *set, ngx_etcd_service_t *service)
{
    ngx_etcd_dormant_t  *dormant;

    if (set->service != NULL) {
        return;
    }

    dormant = set->list;

    set->service = service;
    ngx_queue_insert_tail(&dormant->sets, &set->queue);

    if (!dormant->look.timer_set) {
        ngx_add_timer(&dormant->look, NGX_ETCD_DORMANT_INTERVAL);
    }
}


void
ngx_etcd_dormant_remove(ngx_etcd_dormant_set_t *set)
{
    if (set->service != NULL) {
        set->service = NULL;
        ngx_queue_remove(&set->queue);
    }
}
