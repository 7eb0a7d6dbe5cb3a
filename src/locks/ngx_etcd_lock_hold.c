
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_hold.h>


#define NGX_ETCD_LOCK_HOLD_BUFFER  4096

/* reads of a connection per event */

#define NGX_ETCD_LOCK_HOLD_READS   16


struct ngx_etcd_lock_hold_s {
    ngx_queue_t              peers;
    ngx_queue_t              locks;
    ngx_uint_t               detached;
};


/* a connection; allocated from its pool */

typedef struct {
    ngx_queue_t              queue;
    ngx_etcd_lock_hold_t    *hold;
    ngx_connection_t        *connection;
    ngx_str_t                name;
    ngx_msec_t               max;
    ngx_etcd_kept_t          kept;
    ngx_uint_t               half_closed;
} ngx_etcd_lock_peer_t;


typedef struct {
    ngx_queue_t              queue;
    ngx_etcd_lock_hold_t    *hold;
    ngx_etcd_grant_t         grant;        /* the bytes of the key follow the
                                              struct */
} ngx_etcd_lock_held_t;


static void
ngx_etcd_lock_hold_close(ngx_etcd_lock_peer_t *peer)
{
    ngx_pool_t        *pool;
    ngx_etcd_kept_t    kept;
    ngx_connection_t  *c;

    ngx_queue_remove(&peer->queue);

    c = peer->connection;
    kept = peer->kept;
    pool = c->pool;

#if (NGX_SSL)

    if (c->ssl) {
        c->ssl->no_wait_shutdown = 1;
        c->ssl->no_send_shutdown = 1;

        (void) ngx_ssl_shutdown(c);
    }

#endif

    ngx_close_connection(c);
    ngx_destroy_pool(pool);

    /* another request may have the connection now */

    ngx_etcd_pick_end(&kept);
}


static void
ngx_etcd_lock_hold_remove(ngx_etcd_lock_held_t *held)
{
    ngx_queue_remove(&held->queue);
    ngx_etcd_lock_end(&held->grant);
    ngx_free(held);
}


/* Frees the hold, of which no lock is left that connections are kept for. */

static void
ngx_etcd_lock_hold_destroy(ngx_etcd_lock_hold_t *hold)
{
    ngx_etcd_lock_peer_t  *peer, *next;

    ngx_etcd_queue_each_safe(peer, next, &hold->peers, ngx_etcd_lock_peer_t,
                             queue)
    {
        ngx_etcd_lock_hold_close(peer);
    }

    ngx_free(hold);
}


static void
ngx_etcd_lock_hold_over(ngx_etcd_lock_peer_t *peer)
{
    ngx_etcd_lock_held_t  *held, *next;
    ngx_etcd_lock_hold_t  *hold;

    hold = peer->hold;

    ngx_etcd_lock_hold_close(peer);

    if (!ngx_queue_empty(&hold->peers)) {
        return;
    }

    ngx_etcd_queue_each_safe(held, next, &hold->locks, ngx_etcd_lock_held_t,
                             queue)
    {
        ngx_etcd_lock_hold_remove(held);
    }

    if (hold->detached) {
        ngx_free(hold);
    }
}


static void
ngx_etcd_lock_hold_half_close(ngx_etcd_lock_peer_t *peer)
{
    peer->half_closed = 1;

    /* fails if the upstream has closed the connection: the next read tells */

    (void) ngx_shutdown_socket(peer->connection->fd, NGX_WRITE_SHUTDOWN);
}


/* NGX_AGAIN: nothing was read; NGX_DONE: the connection has ended. */

static ngx_int_t
ngx_etcd_lock_hold_discard(ngx_connection_t *c)
{
    u_char      buf[NGX_ETCD_LOCK_HOLD_BUFFER];
    ssize_t     n;
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_LOCK_HOLD_READS; i++) {
        n = c->recv(c, buf, NGX_ETCD_LOCK_HOLD_BUFFER);

        if (n == NGX_AGAIN) {
            return i ? NGX_OK : NGX_AGAIN;
        }

        if (n <= 0) {
            return NGX_DONE;
        }
    }

    ngx_post_event(c->read, &ngx_posted_events);

    return NGX_OK;
}


static void
ngx_etcd_lock_hold_read(ngx_event_t *rev)
{
    ngx_int_t              rc;
    ngx_connection_t      *c;
    ngx_etcd_lock_peer_t  *peer;

    c = rev->data;
    peer = c->data;

    /* "worker_shutdown_timeout" has expired */

    if (c->close) {
        ngx_etcd_lock_hold_over(peer);
        return;
    }

    if (rev->timedout) {
        rev->timedout = 0;
        ngx_etcd_lock_hold_half_close(peer);
    }

    rc = ngx_etcd_lock_hold_discard(c);

    if (rc == NGX_DONE || ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_etcd_lock_hold_over(peer);
        return;
    }

    if (rc == NGX_OK && !peer->half_closed) {
        ngx_add_timer(rev, NGX_ETCD_LOCK_HOLD_QUIET);
    }
}


static void
ngx_etcd_lock_hold_write(ngx_event_t *wev)
{
    ngx_connection_t      *c;
    ngx_etcd_lock_peer_t  *peer;

    c = wev->data;
    peer = c->data;

    if (!wev->timedout) {
        if (ngx_handle_write_event(wev, 0) != NGX_OK) {
            ngx_etcd_lock_hold_over(peer);
        }

        return;
    }

    if (!ngx_queue_empty(&peer->hold->locks)) {
        ngx_log_error(NGX_LOG_WARN, c->log, 0,
                      "etcd: locks are released although upstream %V has not "
                      "answered for %Mms", &peer->name, peer->max);
    }

    ngx_etcd_lock_hold_over(peer);
}


/*
 * The write timer limits the total time, the read timer detects silence.  New
 * TLS sessions are not saved: saving needs the request.
 */

static void
ngx_etcd_lock_hold_take(ngx_connection_t *c, ngx_etcd_lock_peer_t *peer)
{
    if (c->read->timer_set) {
        ngx_del_timer(c->read);
    }

#if (NGX_SSL)

    if (c->ssl) {
        c->ssl->save_session = NULL;
    }

#endif

    c->data = peer;
    c->log = ngx_cycle->log;
    c->pool->log = ngx_cycle->log;
    c->log_error = NGX_ERROR_INFO;

    c->read->handler = ngx_etcd_lock_hold_read;
    c->read->log = ngx_cycle->log;
    c->read->timedout = 0;
    c->read->delayed = 0;

    c->write->handler = ngx_etcd_lock_hold_write;
    c->write->log = ngx_cycle->log;
    c->write->timedout = 0;
    c->write->delayed = 0;

    ngx_add_timer(c->write, peer->max);

    ngx_post_event(c->read, &ngx_posted_events);
}


ngx_int_t
ngx_etcd_lock_hold_connection(ngx_etcd_lock_hold_t **hold, ngx_connection_t *c,
    ngx_str_t *name, ngx_msec_t max, ngx_uint_t half_close,
    ngx_etcd_kept_t *kept)
{
    ngx_etcd_lock_peer_t  *peer;

    if (*hold == NULL) {
        *hold = ngx_calloc(sizeof(ngx_etcd_lock_hold_t), ngx_cycle->log);
        if (*hold == NULL) {
            return NGX_ERROR;
        }

        ngx_queue_init(&(*hold)->peers);
        ngx_queue_init(&(*hold)->locks);
    }

    peer = ngx_pcalloc(c->pool, sizeof(ngx_etcd_lock_peer_t));
    if (peer == NULL) {
        return NGX_ERROR;
    }

    peer->name.data = ngx_pstrdup(c->pool, name);
    if (peer->name.data == NULL) {
        return NGX_ERROR;
    }

    peer->name.len = name->len;
    peer->hold = *hold;
    peer->connection = c;
    peer->max = max;
    peer->kept = *kept;

    ngx_queue_insert_tail(&(*hold)->peers, &peer->queue);

    ngx_etcd_lock_hold_take(c, peer);

    if (half_close) {
        ngx_etcd_lock_hold_half_close(peer);
    }

    return NGX_OK;
}


static void
ngx_etcd_lock_hold_lost(ngx_etcd_grant_t *grant)
{
    ngx_etcd_lock_held_t  *held;
    ngx_etcd_lock_hold_t  *hold;

    held = grant->owner;
    hold = held->hold;

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "etcd: lock \"%V%s%V\" is lost after its request has ended, "
                  "while an upstream may still work",
                  &grant->conf->name->name, grant->key.len ? "/" : "",
                  &grant->key);

    ngx_etcd_lock_hold_remove(held);

    if (ngx_queue_empty(&hold->locks) && hold->detached) {
        ngx_etcd_lock_hold_destroy(hold);
    }
}


void
ngx_etcd_lock_hold_add(ngx_etcd_lock_hold_t *hold, ngx_etcd_grant_t *grant)
{
    ngx_etcd_grant_t      *moved;
    ngx_etcd_lock_held_t  *held;

    held = (!ngx_queue_empty(&hold->peers)
            && grant->opened
            && ngx_etcd_lock_held(grant))
           ? ngx_alloc(sizeof(ngx_etcd_lock_held_t) + grant->key.len,
                       ngx_cycle->log)
           : NULL;

    if (held == NULL) {
        ngx_etcd_lock_end(grant);
        return;
    }

    held->hold = hold;

    ngx_queue_insert_tail(&hold->locks, &held->queue);

    /*
     * A held grant whose handler was called has no timer and no posted event:
     * only its permit refers to the grant, so that it can be moved.
     */

    moved = &held->grant;

    *moved = *grant;

    moved->key.data = (u_char *) held + sizeof(ngx_etcd_lock_held_t);

    if (grant->key.len != 0) {
        ngx_memcpy(moved->key.data, grant->key.data, grant->key.len);
    }

    moved->lost = ngx_etcd_lock_hold_lost;
    moved->owner = held;
    moved->event.data = moved;
    moved->event.log = ngx_cycle->log;
    moved->timer.data = moved;
    moved->timer.log = ngx_cycle->log;

    ngx_queue_insert_after(&grant->queue, &moved->queue);
    ngx_queue_remove(&grant->queue);

    grant->state = NGX_ETCD_GRANT_ENDED;
    grant->lock = NULL;
    grant->permit = NULL;
}


void
ngx_etcd_lock_hold_detach(ngx_etcd_lock_hold_t *hold)
{
    hold->detached = 1;

    if (ngx_queue_empty(&hold->locks)) {
        ngx_etcd_lock_hold_destroy(hold);
    }
}
