
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_unary.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_event.h>


/*
 * text of etcd's ErrGRPCNoSpace; "too many requests" has the same status,
 * RESOURCE_EXHAUSTED
 */

#define NGX_ETCD_UNARY_NOSPACE  "database space exceeded"


static void ngx_etcd_unary_attempt(ngx_etcd_unary_t *unary);


static ngx_msec_t
ngx_etcd_unary_timeout(ngx_etcd_unary_t *unary)
{
    return unary->timeout ? unary->timeout
                          : unary->cluster->conf->request_timeout;
}


/* Half of the timeout leaves as much for another endpoint. */

static ngx_msec_t
ngx_etcd_unary_first(ngx_etcd_unary_t *unary)
{
    return ngx_etcd_latency_attempt(&unary->cluster->latency,
                                    NGX_ETCD_UNARY_ATTEMPT,
                                    ngx_etcd_unary_timeout(unary) / 2);
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


/*
 * The third attempt may be answered quickly because etcd has processed an
 * earlier one: two endpoints were too slow for it, which is not the fault of
 * one of them.  Pauses do not count, nor does the time without a connection:
 * an etcd that was down, or refused requests at once, is not slow.
 */

static void
ngx_etcd_unary_measure(ngx_etcd_unary_t *unary)
{
    uint64_t  took, half;

    if (!unary->writes && !unary->roomy) {
        return;
    }

    took = ngx_etcd_clock() - unary->last;
    half = ngx_etcd_unary_timeout(unary) / 2;

    if (unary->attempts.n > 2) {
        took += unary->attempts.waited;
    }

    ngx_etcd_latency_saw(&unary->cluster->latency,
                         (ngx_msec_t) ngx_min(took, half));
}


/* Ends everything that is under way, but keeps the response. */

static void
ngx_etcd_unary_stop(ngx_etcd_unary_t *unary)
{
    if (unary->attempts.calling) {
        unary->attempts.calling = 0;
        ngx_etcd_grpc_cancel(&unary->call);
    }

    ngx_etcd_waiter_forget(&unary->waiter);

    ngx_etcd_event_stop(&unary->timer);
}


static void
ngx_etcd_unary_finish(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_pool_t        *pool;
    ProtobufCMessage  *message;

    ngx_etcd_unary_stop(unary);

    pool = unary->pool;
    message = unary->message;

    unary->pool = NULL;
    unary->message = NULL;

    unary->done(unary, status, text, message, pool);
}


static void
ngx_etcd_unary_drop(ngx_etcd_unary_t *unary)
{
    if (unary->pool != NULL) {
        ngx_destroy_pool(unary->pool);
        unary->pool = NULL;
        unary->message = NULL;
    }
}


/* Returns 1 if a part of some answer has come since the attempt was sent. */

static ngx_uint_t
ngx_etcd_unary_heard(ngx_etcd_unary_t *unary)
{
    return (ngx_msec_int_t) (unary->cluster->reads->heard
                             - unary->attempts.started) >= 0;
}


/*
 * Leaves the endpoint, unless it is slow only because it sends another answer,
 * or the attempt was short beside the failures before it, or the endpoint has
 * not been silent for long beside all others: where all endpoints are slow,
 * leaving one ends the calls that it would have answered, and the next
 * connection makes them slower.
 */

static void
ngx_etcd_unary_blame(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_msec_t           first, patience, quarter, now;
    ngx_etcd_channel_t  *reads;

    now = ngx_current_msec;
    reads = unary->cluster->reads;

    /*
     * Patience lasts as long as an attempt after as many failures as the
     * channel had in a row.  Every call must have time to leave the endpoint,
     * though: a quarter of its timeout is enough.
     */

    first = ngx_etcd_unary_first(unary);
    quarter = ngx_etcd_unary_timeout(unary) / 4;

    patience = first << ngx_min(reads->failures, 16);
    patience = ngx_min(patience, ngx_max(quarter, first));

    if (status != NGX_ETCD_GRPC_UNAVAILABLE) {

        if (ngx_etcd_unary_heard(unary)
            || now - unary->attempts.started < patience
            || now - reads->asked < ngx_etcd_channel_patience(reads, patience))
        {
            return;
        }

        reads->late++;
    }

    ngx_etcd_channel_failed(reads, text);
}


static void
ngx_etcd_unary_again(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_msec_t  delay;

    if ((ngx_msec_int_t) (unary->attempts.deadline - ngx_current_msec) <= 0) {
        ngx_etcd_unary_finish(unary, status, text);
        return;
    }

    ngx_log_error(NGX_LOG_INFO, unary->cluster->log, 0,
                  "etcd cluster \"%V\": %s failed: %s: %V, trying again",
                  &unary->cluster->conf->name, unary->name,
                  ngx_etcd_grpc_status_name(status), text);

    unary->attempts.failure = status;
    unary->attempts.ntext = ngx_min(text->len, NGX_ETCD_UNARY_TEXT);
    ngx_memcpy(unary->attempts.text, text->data, unary->attempts.ntext);

    /*
     * The fault may be the endpoint's own: the second attempt goes to another
     * endpoint at once.  "Too many requests" concerns the whole cluster: wait,
     * and longer each time.
     */

    if (status == NGX_ETCD_GRPC_RESOURCE_EXHAUSTED
        || unary->call.unprocessed
        || unary->attempts.n > 1)
    {
        delay = ngx_etcd_backoff(unary->cluster, unary->attempts.n);

    } else {
        delay = 1;
    }

    ngx_add_timer(&unary->timer, delay);

    ngx_etcd_unary_blame(unary, status, text);
}


static void
ngx_etcd_unary_failed(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    unary->smaller = unary->call.oversize
                     || (status == NGX_ETCD_GRPC_DEADLINE_EXCEEDED
                         && ngx_etcd_unary_heard(unary));

    if (!ngx_etcd_backoff_retriable(status)) {
        ngx_etcd_unary_measure(unary);
        ngx_etcd_unary_finish(unary, status, text);
        return;
    }

    unary->attempts.waited += ngx_etcd_clock() - unary->last;

    if (!unary->call.unprocessed) {
        unary->unknown = 1;
    }

    if (unary->call.oversize) {
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
ngx_etcd_unary_ended(ngx_etcd_grpc_call_t *call, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_str_t          missing;
    ngx_etcd_auth_t   *auth;
    ngx_etcd_unary_t  *unary;

    unary = call->data;
    unary->attempts.calling = 0;

    auth = unary->cluster->auth;

    if (status == NGX_ETCD_GRPC_OK && unary->message == NULL) {
        status = NGX_ETCD_GRPC_INTERNAL;
        ngx_str_set(&missing, "OK without a response");
        text = &missing;
    }

    if (status == NGX_ETCD_GRPC_OK) {
        ngx_etcd_channel_succeeded(unary->cluster->reads);
        ngx_etcd_auth_accepted(auth);
        ngx_etcd_unary_measure(unary);

        unary->unknown = 0;
        ngx_etcd_unary_finish(unary, status, text);
        return;
    }

    ngx_etcd_unary_drop(unary);

    /* etcd checks the token first: the request was not processed */

    if (ngx_etcd_auth_refused(auth, unary->cluster->reads,
                              unary->attempts.token, status, text))
    {
        ngx_etcd_channel_succeeded(unary->cluster->reads);
        ngx_etcd_unary_attempt(unary);
        return;
    }

    if (unary->roomy
        && status == NGX_ETCD_GRPC_RESOURCE_EXHAUSTED
        && ngx_strlcasestrn(text->data, text->data + text->len,
                            (u_char *) NGX_ETCD_UNARY_NOSPACE,
                            sizeof(NGX_ETCD_UNARY_NOSPACE) - 2)
           != NULL)
    {
        ngx_etcd_channel_succeeded(unary->cluster->reads);
        status = NGX_ETCD_GRPC_FAILED_PRECONDITION;
        unary->full = 1;
    }

    ngx_etcd_unary_failed(unary, status, text);
}


static void
ngx_etcd_unary_call(ngx_etcd_unary_t *unary, ngx_etcd_http2_t *h2,
    ngx_msec_t left)
{
    ngx_msec_t             timeout;
    ngx_keyval_t           md[NGX_ETCD_AUTH_METADATA];
    ngx_etcd_channel_t    *reads;
    ngx_etcd_grpc_call_t  *call;

    reads = unary->cluster->reads;
    timeout = ngx_etcd_unary_first(unary) << ngx_min(unary->attempts.n, 16);

    call = &unary->call;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = unary->method;
    call->response = unary->response;
    call->timeout = ngx_min(timeout, left);
    call->metadata = md;
    call->nmetadata = ngx_etcd_auth_metadata(unary->cluster->auth, md,
                                             &unary->attempts.token);
    call->message = ngx_etcd_unary_message;
    call->done = ngx_etcd_unary_ended;
    call->data = unary;

    unary->attempts.n++;
    unary->attempts.started = ngx_current_msec;
    unary->last = ngx_etcd_clock();
    unary->mark = ngx_etcd_history_mark(unary->cluster);
    unary->connection = reads->connection;

    if (reads->asked == 0) {
        reads->asked = ngx_current_msec;
    }

    if (unary->first == 0) {
        unary->first = unary->last;

    } else {
        unary->repeated = 1;
    }

    if (ngx_etcd_grpc_request(h2, call, unary->request) != NGX_OK) {
        ngx_add_timer(&unary->timer,
                      ngx_etcd_backoff(unary->cluster, unary->attempts.n));
        return;
    }

    unary->attempts.calling = 1;
}


static void
ngx_etcd_unary_attempt(ngx_etcd_unary_t *unary)
{
    ngx_msec_t         left;
    ngx_msec_int_t     rest;
    ngx_etcd_auth_t   *auth;
    ngx_etcd_http2_t  *h2;

    auth = unary->cluster->auth;

    rest = (ngx_msec_int_t) (unary->attempts.deadline - ngx_current_msec);
    left = (rest > 0) ? (ngx_msec_t) rest : 1;

    h2 = ngx_etcd_channel_get(unary->cluster->reads);

    if (h2 == NULL) {
        ngx_etcd_channel_wait(unary->cluster->reads, &unary->waiter);
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
ngx_etcd_unary_ready(void *data)
{
    ngx_etcd_unary_t *unary = data;

    ngx_etcd_event_stop(&unary->timer);

    ngx_etcd_unary_attempt(unary);
}


static void
ngx_etcd_unary_expire(ngx_etcd_unary_t *unary)
{
    u_char     reason[NGX_ETCD_UNARY_TEXT];
    ngx_str_t  text;

    if (unary->cluster->auth->unauthorized) {
        ngx_str_set(&text, "the user is refused");
        ngx_etcd_unary_finish(unary, NGX_ETCD_GRPC_UNAUTHENTICATED, &text);
        return;
    }

    if (unary->attempts.failure != NGX_ETCD_GRPC_OK) {

        /* done() may free "unary" */

        text.data = reason;
        text.len = unary->attempts.ntext;
        ngx_memcpy(reason, unary->attempts.text, unary->attempts.ntext);

        ngx_etcd_unary_finish(unary, unary->attempts.failure, &text);
        return;
    }

    ngx_str_set(&text, "no endpoint answered in time");
    ngx_etcd_unary_finish(unary, NGX_ETCD_GRPC_UNAVAILABLE, &text);
}


static void
ngx_etcd_unary_timer(ngx_event_t *ev)
{
    ngx_etcd_unary_t  *unary;

    unary = ev->data;

    ngx_etcd_waiter_forget(&unary->waiter);

    if ((ngx_msec_int_t) (unary->attempts.deadline - ngx_current_msec) > 0) {
        ngx_etcd_unary_attempt(unary);
        return;
    }

    ngx_etcd_unary_expire(unary);
}


void
ngx_etcd_unary_start(ngx_etcd_unary_t *unary)
{
    unary->attempts.n = 0;
    unary->message = NULL;
    unary->pool = NULL;
    unary->attempts.failure = NGX_ETCD_GRPC_OK;
    unary->attempts.calling = 0;
    unary->unknown = 0;
    unary->repeated = 0;
    unary->smaller = 0;
    unary->full = 0;
    unary->first = 0;
    unary->last = 0;
    unary->attempts.waited = 0;

    unary->attempts.deadline = ngx_current_msec + ngx_etcd_unary_timeout(unary);

    unary->waiter.handler = ngx_etcd_unary_ready;
    unary->waiter.data = unary;

    ngx_etcd_event_init_timer(&unary->timer, ngx_etcd_unary_timer, unary,
                              unary->cluster->log);

    ngx_etcd_unary_attempt(unary);
}


void
ngx_etcd_unary_cancel(ngx_etcd_unary_t *unary)
{
    ngx_etcd_unary_stop(unary);

    ngx_etcd_unary_drop(unary);
}
