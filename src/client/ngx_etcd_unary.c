
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_unary.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_clock.h>


static void ngx_etcd_unary_attempt(ngx_etcd_unary_t *unary);
static void ngx_etcd_unary_call(ngx_etcd_unary_t *unary, ngx_etcd_http2_t *h2,
    ngx_msec_t left);
static void ngx_etcd_unary_ready(void *data);
static void ngx_etcd_unary_timer(ngx_event_t *ev);
static ngx_int_t ngx_etcd_unary_message(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool);
static void ngx_etcd_unary_ended(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_unary_failed(ngx_etcd_unary_t *unary,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_unary_again(ngx_etcd_unary_t *unary,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_unary_blame(ngx_etcd_unary_t *unary,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_unary_finish(ngx_etcd_unary_t *unary,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);


void
ngx_etcd_unary_start(ngx_etcd_unary_t *unary)
{
    unary->attempts = 0;
    unary->message = NULL;
    unary->pool = NULL;
    unary->calling = 0;
    unary->unknown = 0;
    unary->oversize = 0;
    unary->first = 0;
    unary->last = 0;

    unary->deadline = ngx_current_msec
                      + (unary->timeout ? unary->timeout
                                : unary->cluster->conf->request_timeout);

    unary->waiter.handler = ngx_etcd_unary_ready;
    unary->waiter.data = unary;

    unary->timer.handler = ngx_etcd_unary_timer;
    unary->timer.data = unary;
    unary->timer.log = unary->cluster->log;
    unary->timer.cancelable = 1;

    ngx_etcd_unary_attempt(unary);
}


void
ngx_etcd_unary_cancel(ngx_etcd_unary_t *unary)
{
    if (unary->calling) {
        unary->calling = 0;
        ngx_etcd_grpc_cancel(&unary->call);
    }

    ngx_etcd_waiter_forget(&unary->waiter);

    if (unary->timer.timer_set) {
        ngx_del_timer(&unary->timer);
    }

    if (unary->pool != NULL) {
        ngx_destroy_pool(unary->pool);
        unary->pool = NULL;
    }
}


static void
ngx_etcd_unary_attempt(ngx_etcd_unary_t *unary)
{
    ngx_msec_t         left;
    ngx_msec_int_t     rest;
    ngx_etcd_auth_t   *auth;
    ngx_etcd_http2_t  *h2;

    auth = unary->cluster->auth;

    rest = (ngx_msec_int_t) (unary->deadline - ngx_current_msec);
    left = (rest > 0) ? (ngx_msec_t) rest : 1;

    h2 = ngx_etcd_channel_get(&unary->cluster->reads);

    if (h2 == NULL) {
        ngx_etcd_channel_wait(&unary->cluster->reads, &unary->waiter);
        ngx_add_timer(&unary->timer, left);
        return;
    }

    if (!ngx_etcd_auth_ready(auth)) {
        ngx_etcd_auth_wait(auth, &unary->waiter);
        ngx_add_timer(&unary->timer, left);
        return;
    }

    ngx_etcd_unary_call(unary, h2, left);
}


static void
ngx_etcd_unary_call(ngx_etcd_unary_t *unary, ngx_etcd_http2_t *h2,
    ngx_msec_t left)
{
    ngx_msec_t             timeout;
    ngx_keyval_t           md[NGX_ETCD_AUTH_METADATA];
    ngx_etcd_grpc_call_t  *call;

    timeout = NGX_ETCD_UNARY_ATTEMPT << ngx_min(unary->attempts, 16);

    call = &unary->call;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = unary->method;
    call->response = unary->response;
    call->timeout = ngx_min(timeout, left);
    call->metadata = md;
    call->nmetadata = ngx_etcd_auth_metadata(unary->cluster->auth, md,
                                             &unary->token);
    call->message = ngx_etcd_unary_message;
    call->done = ngx_etcd_unary_ended;
    call->data = unary;

    unary->attempts++;
    unary->started = ngx_current_msec;
    unary->last = ngx_etcd_clock();
    unary->mark = ngx_etcd_history_mark(unary->cluster);

    if (unary->first == 0) {
        unary->first = unary->last;
    }

    if (ngx_etcd_grpc_start(h2, call) != NGX_OK) {
        ngx_add_timer(&unary->timer, ngx_etcd_backoff(unary->attempts));
        return;
    }

    unary->calling = 1;

    if (ngx_etcd_grpc_send(call, unary->request) != NGX_OK) {
        unary->calling = 0;
        ngx_etcd_grpc_cancel(call);
        ngx_add_timer(&unary->timer, ngx_etcd_backoff(unary->attempts));
        return;
    }

    ngx_etcd_grpc_end(call);
}


static void
ngx_etcd_unary_ready(void *data)
{
    ngx_etcd_unary_t *unary = data;

    if (unary->timer.timer_set) {
        ngx_del_timer(&unary->timer);
    }

    ngx_etcd_unary_attempt(unary);
}


static void
ngx_etcd_unary_timer(ngx_event_t *ev)
{
    ngx_str_t          text;
    ngx_etcd_unary_t  *unary;

    unary = ev->data;

    ngx_etcd_waiter_forget(&unary->waiter);

    if ((ngx_msec_int_t) (unary->deadline - ngx_current_msec) > 0) {
        ngx_etcd_unary_attempt(unary);
        return;
    }

    if (unary->cluster->auth->unauthorized) {
        ngx_str_set(&text, "the user is refused");
        ngx_etcd_unary_finish(unary, NGX_ETCD_GRPC_UNAUTHENTICATED, &text);
        return;
    }

    ngx_str_set(&text, "no endpoint answered in time");
    ngx_etcd_unary_finish(unary, NGX_ETCD_GRPC_UNAVAILABLE, &text);
}


static ngx_int_t
ngx_etcd_unary_message(ngx_etcd_grpc_call_t *call, ProtobufCMessage *message,
    ngx_pool_t *pool)
{
    ngx_etcd_unary_t  *unary;

    unary = call->data;

    if (unary->message != NULL) {
        return NGX_ERROR;
    }

    unary->message = message;
    unary->pool = pool;

    return NGX_DONE;
}


static void
ngx_etcd_unary_ended(ngx_etcd_grpc_call_t *call, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_str_t          missing;
    ngx_etcd_auth_t   *auth;
    ngx_etcd_unary_t  *unary;

    unary = call->data;
    unary->calling = 0;

    auth = unary->cluster->auth;

    if (status == NGX_ETCD_GRPC_OK && unary->message == NULL) {
        status = NGX_ETCD_GRPC_INTERNAL;
        ngx_str_set(&missing, "OK without a response");
        text = &missing;
    }

    if (status == NGX_ETCD_GRPC_OK) {
        ngx_etcd_channel_succeeded(&unary->cluster->reads);
        ngx_etcd_auth_accepted(auth);

        unary->unknown = 0;
        ngx_etcd_unary_finish(unary, status, text);
        return;
    }

    if (unary->pool != NULL) {
        ngx_destroy_pool(unary->pool);
        unary->pool = NULL;
        unary->message = NULL;
    }

    /* a token is looked at before anything is done */

    if (ngx_etcd_auth_refused(auth, unary->token, status, text)) {
        ngx_etcd_channel_succeeded(&unary->cluster->reads);
        ngx_etcd_unary_attempt(unary);
        return;
    }

    ngx_etcd_unary_failed(unary, status, text);
}


static void
ngx_etcd_unary_failed(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    unary->oversize = unary->call.oversize;

    if (!ngx_etcd_retriable(status)) {
        ngx_etcd_unary_finish(unary, status, text);
        return;
    }

    if (!unary->call.unprocessed) {
        unary->unknown = 1;
    }

    if (unary->oversize) {
        ngx_etcd_unary_finish(unary, status, text);
        return;
    }

    if (unary->unknown && !unary->idempotent) {
        ngx_etcd_unary_blame(unary, status, text);
        ngx_etcd_unary_finish(unary, status, text);
        return;
    }

    ngx_etcd_unary_again(unary, status, text);
}


static void
ngx_etcd_unary_again(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_msec_t  delay;

    if ((ngx_msec_int_t) (unary->deadline - ngx_current_msec) <= 0) {
        ngx_etcd_unary_finish(unary, status, text);
        return;
    }

    ngx_log_error(NGX_LOG_INFO, unary->cluster->log, 0,
                  "etcd cluster \"%V\": %s failed: %s: %V, trying again",
                  &unary->cluster->conf->name, unary->name,
                  ngx_etcd_grpc_status_name(status), text);

    /*
     * The endpoint itself may be the fault: another one at once.  "Too many
     * requests" is the whole cluster's word: wait, and longer each time.
     */

    if (status == NGX_ETCD_GRPC_RESOURCE_EXHAUSTED
        || unary->call.unprocessed
        || unary->attempts > 1)
    {
        delay = ngx_etcd_backoff(unary->attempts);

    } else {
        delay = 1;
    }

    ngx_add_timer(&unary->timer, delay);

    ngx_etcd_unary_blame(unary, status, text);
}


/* an endpoint that is busy sending an answer is slow, not gone */

static void
ngx_etcd_unary_blame(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_etcd_channel_t  *reads;

    reads = &unary->cluster->reads;

    if (status == NGX_ETCD_GRPC_UNAVAILABLE
        || (ngx_msec_int_t) (reads->heard - unary->started) < 0)
    {
        ngx_etcd_channel_failed(reads, text);
    }
}


static void
ngx_etcd_unary_finish(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_pool_t        *pool;
    ProtobufCMessage  *message;

    pool = unary->pool;
    message = unary->message;

    unary->pool = NULL;
    unary->message = NULL;

    unary->done(unary, status, text, message, pool);
}
