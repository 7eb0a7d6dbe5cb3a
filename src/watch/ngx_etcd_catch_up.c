
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Whether a watch that is created on the stream has come to where the cluster
 * was then: ngx_etcd_fresh.h says what for.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_watcher.h>


static void ngx_etcd_watch_settle(ngx_etcd_watch_t *watch);


/*
 * What happened since the revision that it goes on from is still to come, if
 * anything did: nobody says so if nothing did.  An endpoint may also be behind
 * that revision, and takes the watch all the same.
 */

void
ngx_etcd_watch_catch_up(ngx_etcd_watch_t *watch, Etcd__ResponseHeader *header)
{
    watch->lags = 0;

    if (header != NULL && header->revision == watch->revision) {
        ngx_etcd_watch_behind(watch, 0);
        return;
    }

    watch->catch_up = (header != NULL && header->revision > watch->revision)
                      ? header->revision : INT64_MAX;

    ngx_etcd_watch_behind(watch, 1);
    ngx_etcd_watch_settle(watch);
}


static void
ngx_etcd_watch_settle(ngx_etcd_watch_t *watch)
{
    watch->turns = NGX_ETCD_FRESH_TURNS;
    ngx_add_timer(&watch->timer, NGX_ETCD_FRESH_TURN);
}


/* the watch has come to another revision */

void
ngx_etcd_watch_reached(ngx_etcd_watch_t *watch)
{
    if (watch->state == NGX_ETCD_WATCH_ACTIVE
        && watch->timer.timer_set
        && watch->revision >= watch->catch_up)
    {
        ngx_del_timer(&watch->timer);
        ngx_etcd_watch_behind(watch, 0);
    }
}


void
ngx_etcd_watch_behind(ngx_etcd_watch_t *watch, ngx_uint_t behind)
{
    ngx_etcd_fresh_count(&watch->watcher->fresh, 0,
                         (ngx_int_t) behind - (ngx_int_t) watch->behind);
    watch->behind = behind;
}


void
ngx_etcd_watch_turn(ngx_etcd_watch_t *watch)
{
    ngx_str_t            reason;
    ngx_etcd_watcher_t  *watcher;

    watcher = watch->watcher;

    if (--watch->turns != 0) {
        ngx_add_timer(&watch->timer, NGX_ETCD_FRESH_TURN);
        return;
    }

    if (watcher->reached >= watch->revision) {
        ngx_etcd_watch_behind(watch, 0);
        ngx_etcd_fresh_ask(&watcher->fresh);
        return;
    }

    if (watch->lags++ == NGX_ETCD_FRESH_LAGS) {
        ngx_str_set(&reason, "it lags behind the cluster");
        ngx_etcd_watcher_leave(watcher, &reason);
        return;
    }

    (void) ngx_etcd_watcher_progress(watcher);

    ngx_etcd_watch_settle(watch);
}
