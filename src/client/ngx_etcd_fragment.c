
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


/* how many times max_message_size the events may have that are kept */
#define NGX_ETCD_WATCH_KEPT  4


static ngx_uint_t ngx_etcd_watch_kept(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response);


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

        watch->kept = 0;
        watch->fragments = ngx_array_create(watch->fragment_pool, 64,
                                            sizeof(Etcd__Event *));
        if (watch->fragments == NULL) {
            ngx_etcd_watch_drop_fragments(watch);
            return NGX_ERROR;
        }
    }

    if (!ngx_etcd_watch_kept(watch, response)) {
        return NGX_OK;
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


/* 0: there are too many, and the prefix is to be listed anew */

static ngx_uint_t
ngx_etcd_watch_kept(ngx_etcd_watch_t *watch, Etcd__WatchResponse *response)
{
    size_t               i;
    Etcd__KeyValue      *kv;
    ngx_etcd_cluster_t  *cluster;

    for (i = 0; i < response->n_events; i++) {
        kv = response->events[i]->kv;

        watch->kept += sizeof(Etcd__Event);

        if (kv != NULL) {
            watch->kept += sizeof(Etcd__KeyValue) + kv->key.len
                           + kv->value.len;
        }
    }

    cluster = watch->watcher->cluster;

    if (watch->kept
        <= cluster->conf->max_message_size * NGX_ETCD_WATCH_KEPT)
    {
        return 1;
    }

    cluster->resyncs++;

    ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                  "etcd cluster \"%V\": prefix \"%V\": changes that belong "
                  "together take %uz bytes, which is more than %d times "
                  "\"max_message_size\", listing again",
                  &cluster->conf->name, &watch->prefix, watch->kept,
                  NGX_ETCD_WATCH_KEPT);

    ngx_etcd_watch_detach(watch);
    watch->revision = 0;
    watch->state = NGX_ETCD_WATCH_NEW;

    return 0;
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
