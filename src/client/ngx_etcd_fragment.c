
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What is kept of a watch's events until all that belongs before or to them
 * is there: fragments of one response, and what was missed (ngx_etcd_gap.h).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watcher.h>


/*
 * The messages are kept by making their pools part of one that is destroyed
 * with the last.
 */

ngx_int_t
ngx_etcd_watch_fragment(ngx_etcd_watch_t *watch, Etcd__WatchResponse *response,
    ngx_pool_t *pool)
{
    size_t                n;
    Etcd__Event         **event;
    ngx_array_t          *events;
    ngx_pool_cleanup_t   *cln;

    if (watch->fragments == NULL) {
        watch->fragment_pool = ngx_create_pool(4096,
                                               watch->watcher->cluster->log);
        if (watch->fragment_pool == NULL) {
            return NGX_ERROR;
        }

        ngx_etcd_fresh_count(&watch->watcher->fresh, 0, 1);

        watch->fragments = ngx_array_create(watch->fragment_pool, 64,
                                            sizeof(Etcd__Event *));
        if (watch->fragments == NULL) {
            ngx_etcd_watch_drop_fragments(watch);
            return NGX_ERROR;
        }
    }

    events = watch->fragments;
    n = response->n_events;

    if (n > 0) {
        event = ngx_array_push_n(events, n);
        if (event == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(event, response->events, n * sizeof(Etcd__Event *));
    }

    cln = ngx_pool_cleanup_add(watch->fragment_pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = (ngx_pool_cleanup_pt) ngx_destroy_pool;
    cln->data = pool;

    watch->partial = response->fragment ? 1 : 0;

    if (!watch->partial && watch->gap.revision == 0) {
        ngx_etcd_watch_assembled(watch);
    }

    return NGX_DONE;
}


void
ngx_etcd_watch_assembled(ngx_etcd_watch_t *watch)
{
    ngx_etcd_watch_deliver(watch, watch->fragments->elts,
                           watch->fragments->nelts);
    ngx_etcd_watch_drop_fragments(watch);
}


void
ngx_etcd_watch_drop_fragments(ngx_etcd_watch_t *watch)
{
    if (watch->fragment_pool != NULL) {
        ngx_etcd_fresh_count(&watch->watcher->fresh, 0, -1);
        ngx_destroy_pool(watch->fragment_pool);
        watch->fragment_pool = NULL;
        watch->fragments = NULL;
    }
}
