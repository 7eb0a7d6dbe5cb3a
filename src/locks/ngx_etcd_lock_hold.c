
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_hold.h>
#include <ngx_etcd_worker_locks.h>


typedef struct {
    ngx_queue_t              queue;
    ngx_etcd_lock_hold_t    *hold;
    ngx_etcd_grant_t         grant;
    ngx_str_t                key;          /* segment; the bytes follow the
                                              struct */
} ngx_etcd_lock_held_t;


void
ngx_etcd_lock_hold_init(ngx_etcd_lock_hold_t *hold)
{
    ngx_queue_init(&hold->locks);
}


static void
ngx_etcd_lock_hold_remove(ngx_etcd_lock_held_t *held)
{
    ngx_queue_remove(&held->queue);
    ngx_etcd_lock_end(&held->grant);
    ngx_free(held);
}


static void
ngx_etcd_lock_hold_lost(ngx_etcd_grant_t *grant)
{
    ngx_etcd_lock_held_t  *held;
    ngx_etcd_lock_hold_t  *hold;

    held = grant->data;
    hold = held->hold;

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "etcd: lock \"%V%s%V\" is lost after its request has ended, "
                  "while an upstream may still work",
                  &grant->conf->name->name, held->key.len ? "/" : "",
                  &held->key);

    ngx_etcd_lock_hold_remove(held);

    if (ngx_queue_empty(&hold->locks)) {
        hold->lost(hold);
    }
}


/*
 * A held grant whose handler was called has no timer, is in no queue, and has
 * no posted event: only its key refers to the grant, so that it can be moved.
 */

static void
ngx_etcd_lock_hold_move(ngx_etcd_lock_held_t *held, ngx_etcd_grant_t *grant)
{
    ngx_etcd_grant_t  *moved;

    moved = &held->grant;

    *moved = *grant;

    moved->lost = ngx_etcd_lock_hold_lost;
    moved->data = held;
    moved->event.data = moved;
    moved->event.log = ngx_cycle->log;
    moved->timer.data = moved;
    moved->timer.log = ngx_cycle->log;
    moved->key->grant = moved;

    grant->state = NGX_ETCD_GRANT_ENDED;
    grant->lock = NULL;
    grant->key = NULL;
}


void
ngx_etcd_lock_hold_add(ngx_etcd_lock_hold_t *hold,
    ngx_etcd_request_lock_t *rl)
{
    ngx_etcd_lock_held_t  *held;

    if (!rl->grant.opened || !ngx_etcd_lock_held(&rl->grant)) {
        ngx_etcd_lock_end(&rl->grant);
        return;
    }

    held = ngx_alloc(sizeof(ngx_etcd_lock_held_t) + rl->key.len,
                     ngx_cycle->log);
    if (held == NULL) {
        ngx_etcd_lock_end(&rl->grant);
        return;
    }

    held->hold = hold;
    held->key.len = rl->key.len;
    held->key.data = (u_char *) held + sizeof(ngx_etcd_lock_held_t);

    if (rl->key.len != 0) {
        ngx_memcpy(held->key.data, rl->key.data, rl->key.len);
    }

    ngx_queue_insert_tail(&hold->locks, &held->queue);

    ngx_etcd_lock_hold_move(held, &rl->grant);
}


ngx_uint_t
ngx_etcd_lock_hold_empty(ngx_etcd_lock_hold_t *hold)
{
    return ngx_queue_empty(&hold->locks);
}


void
ngx_etcd_lock_hold_release(ngx_etcd_lock_hold_t *hold)
{
    ngx_queue_t  *q;

    while (!ngx_queue_empty(&hold->locks)) {
        q = ngx_queue_head(&hold->locks);
        ngx_etcd_lock_hold_remove(ngx_queue_data(q, ngx_etcd_lock_held_t,
                                                 queue));
    }
}
