
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_session.h>
#include <ngx_etcd_client.h>
#include <ngx_etcd_clock.h>


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
