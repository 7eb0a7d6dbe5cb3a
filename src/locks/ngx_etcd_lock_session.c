
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_backoff.h>
#include <ngx_etcd_client.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_lock_session.h>
#include <ngx_etcd_str.h>


void
ngx_etcd_lock_session_enter(ngx_etcd_lock_session_t *locks)
{
    if (locks->nmutexes++ == 0) {
        ngx_etcd_client_hasten(locks->cluster);
        ngx_etcd_session_hasten(&locks->session);
    }
}


void
ngx_etcd_lock_session_leave(ngx_etcd_lock_session_t *locks)
{
    if (--locks->nmutexes == 0) {
        locks->cluster->urgent = 0;
    }
}


/*
 * The reason for which etcd refuses one deletion mostly concerns all of them:
 * one line in the log is enough, and requests become rarer.
 */

ngx_msec_t
ngx_etcd_lock_session_undeleted(ngx_etcd_lock_session_t *locks, ngx_str_t *key,
    ngx_uint_t failures, ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_uint_t           level;
    ngx_msec_t           pause;
    ngx_etcd_cluster_t  *cluster;

    cluster = locks->cluster;

    level = (locks->nundeleted == 0) ? NGX_LOG_ERR : NGX_LOG_INFO;

    ngx_log_error(level, cluster->log, 0,
                  "etcd cluster \"%V\": key \"%V\" of a lock was not "
                  "deleted: %s: %V, trying again", &cluster->conf->name,
                  ngx_etcd_shown(key), ngx_etcd_grpc_status_name(status), text);

    if (failures == 0) {
        locks->nundeleted++;
    }

    pause = NGX_ETCD_LOCK_SESSION_AGAIN
            << ngx_min(failures, NGX_ETCD_LOCK_SESSION_DOUBLINGS);

    return ngx_etcd_backoff_around(pause);
}


void
ngx_etcd_lock_session_check(ngx_etcd_lock_session_t *locks)
{
    if (!locks->timer.timer_set) {
        ngx_add_timer(&locks->timer,
                      NGX_ETCD_LOCK_SESSION_TICK
                      + (ngx_msec_t) ngx_random()
                        % NGX_ETCD_LOCK_SESSION_TICK);
    }
}


void
ngx_etcd_lock_session_unknown(ngx_etcd_lock_session_t *locks)
{
    if (locks->unknown == 0) {
        locks->searched = ngx_current_msec;
    }

    locks->unknown = ngx_etcd_clock();

    ngx_etcd_lock_session_check(locks);
}


ngx_uint_t
ngx_etcd_lock_session_valid(ngx_etcd_lock_session_t *locks)
{
    return locks->session.state == NGX_ETCD_SESSION_HELD
           && !locks->cluster->foreign
           && locks->session.lease.deadline > ngx_etcd_clock();
}


void
ngx_etcd_lock_session_know(ngx_etcd_lock_session_t *locks, ngx_str_t *prefix)
{
    if (locks->prefix.len != 0) {
        return;
    }

    locks->prefix.data = ngx_pstrdup(locks->cluster->pool, prefix);

    if (locks->prefix.data != NULL) {
        locks->prefix.len = prefix->len;
    }
}
