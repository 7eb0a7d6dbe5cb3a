
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_closing.h>
#include <ngx_etcd_event.h>


typedef struct {
    ngx_str_t                    address;          /* of the peer */
    ngx_queue_t                  queue;
    ngx_queue_t                  users;
    ngx_etcd_peer_t             *peer;             /* referenced */
    ngx_msec_t                   left;
} ngx_etcd_closing_batch_t;


static void
ngx_etcd_closing_expire(ngx_etcd_closing_t *closing, ngx_etcd_peer_t *peer,
    ngx_queue_t *users)
{
    ngx_uint_t                n;
    ngx_queue_t              *q;
    ngx_etcd_closing_conf_t  *conf;

    conf = closing->conf;
    n = 0;

    for (q = ngx_queue_head(users);
         q != ngx_queue_sentinel(users);
         q = ngx_queue_next(q))
    {
        n++;
    }

    ngx_log_error(NGX_LOG_INFO, closing->timer.log, 0,
                  "etcd: upstream \"%V\": closing %ui connections to %V, which "
                  "has left or drains", conf->upstream, n, &peer->name);

    /* an object with another id is that of another upstream now */

    if (conf->object->id == conf->id) {
        (void) __atomic_fetch_add(conf->closed, n, __ATOMIC_RELAXED);
    }

    closing->notify(closing->data, users);
}


static void
ngx_etcd_closing_free(ngx_etcd_closing_t *closing,
    ngx_etcd_closing_batch_t *batch)
{
    ngx_queue_remove(&batch->queue);
    ngx_etcd_hash_table_remove(&closing->by_address, &batch->address);

    ngx_etcd_peer_unref(batch->peer);
    ngx_free(batch);
}


static void
ngx_etcd_closing_schedule(ngx_etcd_closing_t *closing)
{
    ngx_msec_t                 elapsed;
    ngx_queue_t               *q;
    ngx_etcd_closing_batch_t  *batch;

    if (closing->timer.timer_set || ngx_queue_empty(&closing->batches)) {
        return;
    }

    q = ngx_queue_head(&closing->batches);
    batch = ngx_queue_data(q, ngx_etcd_closing_batch_t, queue);

    elapsed = ngx_current_msec - batch->left;

    ngx_add_timer(&closing->timer, (elapsed < closing->conf->after)
                                   ? closing->conf->after - elapsed : 1);
}


static void
ngx_etcd_closing_timer(ngx_event_t *ev)
{
    ngx_queue_t               *q;
    ngx_etcd_closing_t        *closing;
    ngx_etcd_closing_batch_t  *batch;

    closing = ev->data;

    while (!ngx_queue_empty(&closing->batches)) {
        q = ngx_queue_head(&closing->batches);
        batch = ngx_queue_data(q, ngx_etcd_closing_batch_t, queue);

        if (ngx_current_msec - batch->left < closing->conf->after) {
            break;
        }

        if (!ngx_queue_empty(&batch->users)) {
            ngx_etcd_closing_expire(closing, batch->peer, &batch->users);
        }

        ngx_etcd_closing_free(closing, batch);
    }

    ngx_etcd_closing_schedule(closing);
}


void
ngx_etcd_closing_init(ngx_etcd_closing_t *closing, ngx_log_t *log)
{
    ngx_queue_init(&closing->batches);
    ngx_etcd_hash_table_init(&closing->by_address, log);

    /* sessions keep a worker that shuts down, not the timer */

    ngx_etcd_event_init_timer(&closing->timer, ngx_etcd_closing_timer, closing,
                              log);
}


void
ngx_etcd_closing_done(ngx_etcd_closing_t *closing)
{
    ngx_queue_t               *q;
    ngx_etcd_peer_user_t      *user;
    ngx_etcd_closing_batch_t  *batch;

    while (!ngx_queue_empty(&closing->batches)) {
        q = ngx_queue_head(&closing->batches);
        batch = ngx_queue_data(q, ngx_etcd_closing_batch_t, queue);

        while (!ngx_queue_empty(&batch->users)) {
            q = ngx_queue_head(&batch->users);
            user = ngx_queue_data(q, ngx_etcd_peer_user_t, queue);

            ngx_etcd_peer_unsubscribe(user);
        }

        ngx_etcd_closing_free(closing, batch);
    }

    ngx_etcd_hash_table_done(&closing->by_address);

    ngx_etcd_event_stop(&closing->timer);
}


static ngx_etcd_closing_batch_t *
ngx_etcd_closing_find(ngx_etcd_closing_t *closing, ngx_etcd_peer_t *peer)
{
    ngx_str_t  address;

    if (ngx_queue_empty(&closing->batches)) {
        return NULL;
    }

    address.data = (u_char *) ngx_etcd_peer_sockaddr(peer);
    address.len = peer->socklen;

    return ngx_etcd_hash_table_find(&closing->by_address, &address);
}


static ngx_etcd_closing_batch_t *
ngx_etcd_closing_create(ngx_etcd_closing_t *closing, ngx_etcd_peer_t *peer)
{
    ngx_str_t                  address;
    ngx_etcd_closing_batch_t  *batch;

    address.data = (u_char *) ngx_etcd_peer_sockaddr(peer);
    address.len = peer->socklen;

    batch = ngx_etcd_hash_table_add(&closing->by_address, &address,
                                    sizeof(ngx_etcd_closing_batch_t));
    if (batch == NULL) {
        return NULL;
    }

    ngx_etcd_peer_ref(peer);

    batch->peer = peer;
    batch->left = ngx_current_msec;

    ngx_queue_init(&batch->users);
    ngx_queue_insert_tail(&closing->batches, &batch->queue);

    ngx_etcd_closing_schedule(closing);

    return batch;
}


static void
ngx_etcd_closing_move(ngx_queue_t *to, ngx_queue_t *from)
{
    if (!ngx_queue_empty(from)) {
        ngx_queue_add(to, from);
        ngx_queue_init(from);
    }
}


void
ngx_etcd_closing_leave(ngx_etcd_closing_t *closing, ngx_etcd_peer_t *peer)
{
    ngx_etcd_closing_batch_t  *batch;

    if (ngx_queue_empty(&peer->users)) {
        return;
    }

    batch = ngx_etcd_closing_find(closing, peer);

    if (batch == NULL) {
        batch = ngx_etcd_closing_create(closing, peer);
    }

    if (batch == NULL) {

        /* no memory to wait with */

        ngx_etcd_closing_expire(closing, peer, &peer->users);
        return;
    }

    ngx_etcd_closing_move(&batch->users, &peer->users);
}


void
ngx_etcd_closing_come(ngx_etcd_closing_t *closing, ngx_etcd_peer_t *peer,
    ngx_uint_t drained)
{
    ngx_etcd_closing_batch_t  *batch;

    if (peer->attr.drain) {

        if (!drained) {
            ngx_etcd_closing_leave(closing, peer);
        }

        return;
    }

    batch = ngx_etcd_closing_find(closing, peer);

    if (batch != NULL) {
        ngx_etcd_closing_move(&peer->users, &batch->users);
        ngx_etcd_closing_free(closing, batch);
    }
}
