
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_lock_linger.h>
#include <ngx_http_etcd_lock_response.h>


#define NGX_HTTP_ETCD_LOCK_LINGER_BUFFER  4096

/* reads of a connection per event */

#define NGX_HTTP_ETCD_LOCK_LINGER_READS   16


struct ngx_http_etcd_lock_linger_s {
    ngx_queue_t                     peers;
    ngx_etcd_lock_hold_t            hold;
    ngx_uint_t                      detached;  /* the request was freed */
};


/* allocated from the pool of the connection */

typedef struct {
    ngx_queue_t                     queue;
    ngx_http_etcd_lock_linger_t    *linger;
    ngx_connection_t               *connection;
    ngx_http_request_t             *request;   /* invalid after the detach */
    ngx_str_t                       name;
    ngx_msec_t                      max;
    ngx_uint_t                      half_closed;
    ngx_etcd_kept_t                 kept;
    ngx_http_etcd_lock_response_t   response;
} ngx_http_etcd_lock_peer_t;


static void
ngx_http_etcd_lock_linger_close(ngx_http_etcd_lock_peer_t *peer)
{
    ngx_pool_t        *pool;
    ngx_etcd_kept_t    kept;
    ngx_connection_t  *c;

    ngx_queue_remove(&peer->queue);

    c = peer->connection;
    kept = peer->kept;
    pool = c->pool;

#if (NGX_HTTP_SSL)

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


/* Closes all connections: no lock is left to be kept. */

static void
ngx_http_etcd_lock_linger_destroy(ngx_http_etcd_lock_linger_t *linger)
{
    ngx_queue_t  *q;

    while (!ngx_queue_empty(&linger->peers)) {
        q = ngx_queue_head(&linger->peers);
        ngx_http_etcd_lock_linger_close(
                        ngx_queue_data(q, ngx_http_etcd_lock_peer_t, queue));
    }

    ngx_free(linger);
}


static void
ngx_http_etcd_lock_linger_lost(ngx_etcd_lock_hold_t *hold)
{
    ngx_http_etcd_lock_linger_t  *linger = hold->data;

    if (linger->detached) {
        ngx_http_etcd_lock_linger_destroy(linger);
    }
}


ngx_http_etcd_lock_linger_t *
ngx_http_etcd_lock_linger_create(void)
{
    ngx_http_etcd_lock_linger_t  *linger;

    linger = ngx_alloc(sizeof(ngx_http_etcd_lock_linger_t), ngx_cycle->log);
    if (linger == NULL) {
        return NULL;
    }

    ngx_queue_init(&linger->peers);
    ngx_etcd_lock_hold_init(&linger->hold);

    linger->hold.lost = ngx_http_etcd_lock_linger_lost;
    linger->hold.data = linger;
    linger->detached = 0;

    return linger;
}


static void
ngx_http_etcd_lock_linger_over(ngx_http_etcd_lock_peer_t *peer)
{
    ngx_http_etcd_lock_linger_t  *linger;

    linger = peer->linger;

    ngx_http_etcd_lock_linger_close(peer);

    if (!ngx_queue_empty(&linger->peers)) {
        return;
    }

    ngx_etcd_lock_hold_release(&linger->hold);

    if (linger->detached) {
        ngx_free(linger);
    }
}


static void
ngx_http_etcd_lock_linger_half_close(ngx_http_etcd_lock_peer_t *peer)
{
    if (peer->half_closed) {
        return;
    }

    peer->half_closed = 1;

    /* fails if the upstream has closed the connection: the next read tells */

    (void) ngx_shutdown_socket(peer->connection->fd, NGX_WRITE_SHUTDOWN);
}


/* NGX_DONE: the response or the connection has ended. */

static ngx_int_t
ngx_http_etcd_lock_linger_discard(ngx_http_etcd_lock_peer_t *peer)
{
    u_char             buf[NGX_HTTP_ETCD_LOCK_LINGER_BUFFER];
    ssize_t            n;
    ngx_uint_t         i;
    ngx_connection_t  *c;

    c = peer->connection;

    for (i = 0; i < NGX_HTTP_ETCD_LOCK_LINGER_READS; i++) {
        if (ngx_http_etcd_lock_response_ended(&peer->response)) {
            return NGX_DONE;
        }

        n = c->recv(c, buf, NGX_HTTP_ETCD_LOCK_LINGER_BUFFER);

        if (n == NGX_AGAIN) {
            return NGX_OK;
        }

        if (n <= 0) {
            return NGX_DONE;
        }

        ngx_http_etcd_lock_response_read(&peer->response, buf, n);
    }

    ngx_post_event(c->read, &ngx_posted_events);

    return NGX_OK;
}


static void
ngx_http_etcd_lock_linger_read(ngx_event_t *rev)
{
    ngx_connection_t           *c;
    ngx_http_etcd_lock_peer_t  *peer;

    c = rev->data;
    peer = c->data;

    /* "worker_shutdown_timeout" has expired */

    if (c->close) {
        ngx_http_etcd_lock_linger_over(peer);
        return;
    }

    if (rev->timedout) {
        rev->timedout = 0;

        if (ngx_http_etcd_lock_response_paused(&peer->response)) {
            ngx_http_etcd_lock_linger_half_close(peer);
        }
    }

    if (ngx_http_etcd_lock_linger_discard(peer) != NGX_OK
        || ngx_handle_read_event(rev, 0) != NGX_OK)
    {
        ngx_http_etcd_lock_linger_over(peer);
        return;
    }

    if (ngx_http_etcd_lock_response_paused(&peer->response)
        && !peer->half_closed)
    {
        ngx_add_timer(rev, NGX_HTTP_ETCD_LOCK_LINGER_QUIET);
    }
}


static void
ngx_http_etcd_lock_linger_write(ngx_event_t *wev)
{
    ngx_connection_t           *c;
    ngx_http_etcd_lock_peer_t  *peer;

    c = wev->data;
    peer = c->data;

    if (!wev->timedout) {
        if (ngx_handle_write_event(wev, 0) != NGX_OK) {
            ngx_http_etcd_lock_linger_over(peer);
        }

        return;
    }

    if (!ngx_etcd_lock_hold_empty(&peer->linger->hold)) {
        ngx_log_error(NGX_LOG_WARN, c->log, 0,
                      "etcd: locks are released although upstream %V has not "
                      "answered for %Mms", &peer->name, peer->max);
    }

    ngx_http_etcd_lock_linger_over(peer);
}


/*
 * The write timer limits the total time, the read timer detects the end of a
 * response.  New TLS sessions are not saved: saving needs the request.
 */

static void
ngx_http_etcd_lock_linger_take(ngx_connection_t *c,
    ngx_http_etcd_lock_peer_t *peer)
{
    if (c->read->timer_set) {
        ngx_del_timer(c->read);
    }

#if (NGX_HTTP_SSL)

    if (c->ssl) {
        c->ssl->save_session = NULL;
    }

#endif

    c->data = peer;
    c->log = ngx_cycle->log;
    c->pool->log = ngx_cycle->log;
    c->log_error = NGX_ERROR_INFO;

    c->read->handler = ngx_http_etcd_lock_linger_read;
    c->read->log = ngx_cycle->log;
    c->read->timedout = 0;
    c->read->delayed = 0;

    c->write->handler = ngx_http_etcd_lock_linger_write;
    c->write->log = ngx_cycle->log;
    c->write->timedout = 0;
    c->write->delayed = 0;

    ngx_add_timer(c->write, peer->max);

    ngx_post_event(c->read, &ngx_posted_events);
}


ngx_int_t
ngx_http_etcd_lock_linger_add(ngx_http_etcd_lock_linger_t *linger,
    ngx_http_request_t *r, ngx_msec_t max, ngx_uint_t half_close,
    ngx_etcd_kept_t *kept)
{
    ngx_str_t                  *name;
    ngx_connection_t           *c;
    ngx_http_upstream_t        *u;
    ngx_http_etcd_lock_peer_t  *peer;

    u = r->upstream;
    c = u->peer.connection;
    name = u->peer.name;

    peer = ngx_pcalloc(c->pool, sizeof(ngx_http_etcd_lock_peer_t));
    if (peer == NULL) {
        return NGX_ERROR;
    }

    peer->name.data = ngx_pstrdup(c->pool, name);
    if (peer->name.data == NULL) {
        return NGX_ERROR;
    }

    peer->name.len = name->len;
    peer->linger = linger;
    peer->connection = c;
    peer->request = r;
    peer->max = max;
    peer->kept = *kept;

    ngx_http_etcd_lock_response_init(&peer->response, r);

    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "etcd: locks are kept until upstream %V has answered, "
                  "for %Mms at most", name, max);

    ngx_queue_insert_tail(&linger->peers, &peer->queue);

    ngx_http_etcd_lock_linger_take(c, peer);

    if (half_close) {
        ngx_http_etcd_lock_linger_half_close(peer);
    }

    return NGX_OK;
}


void
ngx_http_etcd_lock_linger_end(ngx_http_etcd_lock_linger_t *linger,
    ngx_etcd_request_lock_t *rl)
{
    ngx_queue_t                *q;
    ngx_http_request_t         *r;
    ngx_http_etcd_lock_peer_t  *peer;

    for (q = ngx_queue_head(&linger->peers);
         q != ngx_queue_sentinel(&linger->peers);
         q = ngx_queue_next(q))
    {
        peer = ngx_queue_data(q, ngx_http_etcd_lock_peer_t, queue);

        for (r = peer->request; r != NULL; r = r->parent) {
            if (r == rl->owner) {
                ngx_etcd_lock_hold_add(&linger->hold, rl);
                return;
            }
        }
    }

    ngx_etcd_lock_end(&rl->grant);
}


void
ngx_http_etcd_lock_linger_detach(ngx_http_etcd_lock_linger_t *linger)
{
    linger->detached = 1;

    if (ngx_etcd_lock_hold_empty(&linger->hold)) {
        ngx_http_etcd_lock_linger_destroy(linger);
    }
}
