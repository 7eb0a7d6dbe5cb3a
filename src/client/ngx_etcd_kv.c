
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_kv.h>
#include <ngx_etcd_auth.h>


static void ngx_etcd_range_attempt(ngx_etcd_range_t *range);
static void ngx_etcd_range_call(ngx_etcd_range_t *range, ngx_etcd_http2_t *h2,
    ngx_msec_t left);
static void ngx_etcd_range_ready(void *data);
static void ngx_etcd_range_timer(ngx_event_t *ev);
static ngx_int_t ngx_etcd_range_message(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool);
static void ngx_etcd_range_ended(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_range_again(ngx_etcd_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_range_finish(ngx_etcd_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_list_page(ngx_etcd_list_t *list);
static void ngx_etcd_list_answer(ngx_etcd_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response, ngx_pool_t *pool);
static ngx_int_t ngx_etcd_list_advance(ngx_etcd_list_t *list,
    Etcd__RangeResponse *response);
static void ngx_etcd_list_failed(ngx_etcd_list_t *list,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_list_end(ngx_etcd_list_t *list,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);


void
ngx_etcd_range_start(ngx_etcd_range_t *range)
{
    range->attempts = 0;
    range->response = NULL;
    range->pool = NULL;
    range->calling = 0;
    range->deadline = ngx_current_msec
                      + range->cluster->conf->request_timeout;

    range->waiter.handler = ngx_etcd_range_ready;
    range->waiter.data = range;

    range->timer.handler = ngx_etcd_range_timer;
    range->timer.data = range;
    range->timer.log = range->cluster->log;
    range->timer.cancelable = 1;

    ngx_etcd_range_attempt(range);
}


void
ngx_etcd_range_cancel(ngx_etcd_range_t *range)
{
    if (range->calling) {
        range->calling = 0;
        ngx_etcd_grpc_cancel(&range->call);
    }

    ngx_etcd_channel_forget(&range->waiter);

    if (range->timer.timer_set) {
        ngx_del_timer(&range->timer);
    }

    if (range->pool != NULL) {
        ngx_destroy_pool(range->pool);
        range->pool = NULL;
    }
}


static void
ngx_etcd_range_attempt(ngx_etcd_range_t *range)
{
    ngx_msec_t         left;
    ngx_msec_int_t     rest;
    ngx_etcd_auth_t   *auth;
    ngx_etcd_http2_t  *h2;

    auth = range->cluster->auth;

    rest = (ngx_msec_int_t) (range->deadline - ngx_current_msec);
    left = (rest > 0) ? (ngx_msec_t) rest : 1;

    h2 = ngx_etcd_channel_get(&range->cluster->reads);

    if (h2 == NULL) {
        ngx_etcd_channel_wait(&range->cluster->reads, &range->waiter);
        ngx_add_timer(&range->timer, left);
        return;
    }

    if (!ngx_etcd_auth_ready(auth)) {
        ngx_etcd_auth_wait(auth, &range->waiter);
        ngx_add_timer(&range->timer, left);
        return;
    }

    ngx_etcd_range_call(range, h2, left);
}


static void
ngx_etcd_range_call(ngx_etcd_range_t *range, ngx_etcd_http2_t *h2,
    ngx_msec_t left)
{
    ngx_msec_t             timeout;
    ngx_keyval_t           md[NGX_ETCD_AUTH_METADATA];
    ngx_etcd_grpc_call_t  *call;

    timeout = NGX_ETCD_KV_ATTEMPT << ngx_min(range->attempts, 16);

    call = &range->call;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = "/etcdserverpb.KV/Range";
    call->response = &etcd__range_response__descriptor;
    call->timeout = ngx_min(timeout, left);
    call->metadata = md;
    call->nmetadata = ngx_etcd_auth_metadata(range->cluster->auth, md,
                                             &range->token);
    call->message = ngx_etcd_range_message;
    call->done = ngx_etcd_range_ended;
    call->data = range;

    range->attempts++;
    range->started = ngx_current_msec;

    if (ngx_etcd_grpc_start(h2, call) != NGX_OK) {
        ngx_add_timer(&range->timer, ngx_etcd_backoff(range->attempts));
        return;
    }

    range->calling = 1;

    if (ngx_etcd_grpc_send(call, &range->request.base) != NGX_OK) {
        range->calling = 0;
        ngx_etcd_grpc_cancel(call);
        ngx_add_timer(&range->timer, ngx_etcd_backoff(range->attempts));
        return;
    }

    ngx_etcd_grpc_end(call);
}


static void
ngx_etcd_range_ready(void *data)
{
    ngx_etcd_range_t *range = data;

    if (range->timer.timer_set) {
        ngx_del_timer(&range->timer);
    }

    ngx_etcd_range_attempt(range);
}


static void
ngx_etcd_range_timer(ngx_event_t *ev)
{
    ngx_str_t          text;
    ngx_etcd_range_t  *range;

    range = ev->data;

    ngx_etcd_channel_forget(&range->waiter);

    if ((ngx_msec_int_t) (range->deadline - ngx_current_msec) > 0) {
        ngx_etcd_range_attempt(range);
        return;
    }

    if (range->cluster->auth->unauthorized) {
        ngx_str_set(&text, "the user is refused");
        ngx_etcd_range_finish(range, NGX_ETCD_GRPC_UNAUTHENTICATED, &text);
        return;
    }

    ngx_str_set(&text, "no endpoint answered in time");
    ngx_etcd_range_finish(range, NGX_ETCD_GRPC_UNAVAILABLE, &text);
}


static ngx_int_t
ngx_etcd_range_message(ngx_etcd_grpc_call_t *call, ProtobufCMessage *message,
    ngx_pool_t *pool)
{
    ngx_etcd_range_t  *range;

    range = call->data;

    if (range->response != NULL) {
        return NGX_ERROR;
    }

    range->response = (Etcd__RangeResponse *) message;
    range->pool = pool;

    return NGX_DONE;
}


static void
ngx_etcd_range_ended(ngx_etcd_grpc_call_t *call, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_str_t          missing;
    ngx_etcd_auth_t   *auth;
    ngx_etcd_range_t  *range;

    range = call->data;
    range->calling = 0;

    auth = range->cluster->auth;

    if (status == NGX_ETCD_GRPC_OK && range->response == NULL) {
        status = NGX_ETCD_GRPC_INTERNAL;
        ngx_str_set(&missing, "OK without a response");
        text = &missing;
    }

    if (status == NGX_ETCD_GRPC_OK) {
        ngx_etcd_channel_succeeded(&range->cluster->reads);
        ngx_etcd_auth_accepted(auth);
        ngx_etcd_range_finish(range, status, text);
        return;
    }

    if (range->pool != NULL) {
        ngx_destroy_pool(range->pool);
        range->pool = NULL;
        range->response = NULL;
    }

    if (ngx_etcd_auth_refused(auth, range->token, status, text)) {
        ngx_etcd_channel_succeeded(&range->cluster->reads);
        ngx_etcd_range_attempt(range);
        return;
    }

    if (ngx_etcd_retriable(status) && !range->call.oversize) {
        ngx_etcd_range_again(range, status, text);
        return;
    }

    ngx_etcd_range_finish(range, status, text);
}


static void
ngx_etcd_range_again(ngx_etcd_range_t *range, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_msec_t           delay;
    ngx_etcd_channel_t  *reads;

    reads = &range->cluster->reads;

    if ((ngx_msec_int_t) (range->deadline - ngx_current_msec) <= 0) {
        ngx_etcd_range_finish(range, status, text);
        return;
    }

    ngx_log_error(NGX_LOG_INFO, range->cluster->log, 0,
                  "etcd cluster \"%V\": range failed: %s: %V, trying again",
                  &range->cluster->conf->name,
                  ngx_etcd_grpc_status_name(status), text);

    /*
     * The endpoint itself may be the fault: another one at once.  "Too many
     * requests" is the whole cluster's word: wait, and longer each time.
     */

    if (status == NGX_ETCD_GRPC_RESOURCE_EXHAUSTED
        || range->call.unprocessed
        || range->attempts > 1)
    {
        delay = ngx_etcd_backoff(range->attempts);

    } else {
        delay = 1;
    }

    ngx_add_timer(&range->timer, delay);

    /* an endpoint that is busy sending an answer is slow, not gone */

    if (status == NGX_ETCD_GRPC_UNAVAILABLE
        || (ngx_msec_int_t) (reads->heard - range->started) < 0)
    {
        ngx_etcd_channel_failed(reads, text);
    }
}


static void
ngx_etcd_range_finish(ngx_etcd_range_t *range, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_pool_t           *pool;
    Etcd__RangeResponse  *response;

    pool = range->pool;
    response = range->response;

    range->pool = NULL;
    range->response = NULL;

    range->done(range, status, text, response, pool);
}


void
ngx_etcd_list_start(ngx_etcd_list_t *list)
{
    list->running = 1;
    list->revision = 0;
    list->next = NULL;

    if (list->limit == 0) {
        list->limit = NGX_ETCD_LIST_PAGE;
    }

    list->range.cluster = list->cluster;
    list->range.done = ngx_etcd_list_answer;
    list->range.data = list;

    ngx_etcd_list_page(list);
}


void
ngx_etcd_list_cancel(ngx_etcd_list_t *list)
{
    if (!list->running) {
        return;
    }

    list->running = 0;

    ngx_etcd_range_cancel(&list->range);

    if (list->next != NULL) {
        ngx_free(list->next);
        list->next = NULL;
    }
}


static void
ngx_etcd_list_page(ngx_etcd_list_t *list)
{
    Etcd__RangeRequest  *request;

    request = &list->range.request;

    etcd__range_request__init(request);

    if (list->revision == 0) {
        request->key.data = list->key.data;
        request->key.len = list->key.len;
    }

    request->range_end.data = list->range_end.data;
    request->range_end.len = list->range_end.len;
    request->limit = list->limit;
    request->revision = list->revision;
    request->serializable = list->serializable;

    if (list->next != NULL) {
        request->key.data = list->next + sizeof(size_t);
        request->key.len = *(size_t *) list->next;
    }

    ngx_etcd_range_start(&list->range);
}


static void
ngx_etcd_list_answer(ngx_etcd_range_t *range, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, Etcd__RangeResponse *response, ngx_pool_t *pool)
{
    ngx_int_t         rc;
    ngx_uint_t        more;
    ngx_etcd_list_t  *list;

    list = range->data;

    if (status != NGX_ETCD_GRPC_OK) {
        ngx_etcd_list_failed(list, status, text);
        return;
    }

    if (list->revision == 0) {
        list->revision = (response->header != NULL)
                         ? response->header->revision : 0;

        list->begin(list);
    }

    more = response->more && response->n_kvs > 0;

    rc = (list->revision > 0) ? NGX_OK : NGX_ERROR;

    if (rc == NGX_OK && more) {
        rc = ngx_etcd_list_advance(list, response);
    }

    if (rc == NGX_OK) {
        rc = list->page(list, response->kvs, response->n_kvs);
    }

    ngx_destroy_pool(pool);

    if (rc != NGX_OK) {
        ngx_str_t  failed = ngx_string("the response could not be used");

        ngx_etcd_list_end(list, NGX_ETCD_GRPC_INTERNAL, &failed);
        return;
    }

    if (more) {
        ngx_etcd_list_page(list);
        return;
    }

    ngx_etcd_list_end(list, NGX_ETCD_GRPC_OK, text);
}


/* the next page starts at the last key of this one and a zero byte */

static ngx_int_t
ngx_etcd_list_advance(ngx_etcd_list_t *list, Etcd__RangeResponse *response)
{
    u_char                *next;
    ProtobufCBinaryData   *last;

    last = &response->kvs[response->n_kvs - 1]->key;

    next = ngx_alloc(sizeof(size_t) + last->len + 1, list->cluster->log);
    if (next == NULL) {
        return NGX_ERROR;
    }

    *(size_t *) next = last->len + 1;
    ngx_memcpy(next + sizeof(size_t), last->data, last->len);
    next[sizeof(size_t) + last->len] = '\0';

    if (list->next != NULL) {
        ngx_free(list->next);
    }

    list->next = next;

    return NGX_OK;
}


static void
ngx_etcd_list_failed(ngx_etcd_list_t *list, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    /* the pinned revision was compacted while we read: from the start */

    if (status == NGX_ETCD_GRPC_OUT_OF_RANGE && list->revision != 0) {
        ngx_log_error(NGX_LOG_INFO, list->cluster->log, 0,
                      "etcd cluster \"%V\": list at revision %L was "
                      "compacted, starting again",
                      &list->cluster->conf->name, list->revision);

        if (list->next != NULL) {
            ngx_free(list->next);
            list->next = NULL;
        }

        ngx_etcd_list_start(list);
        return;
    }

    /* too much for one answer, or for the time it may take: smaller pages */

    if ((list->range.call.oversize
         || status == NGX_ETCD_GRPC_DEADLINE_EXCEEDED)
        && list->limit > 1)
    {
        list->limit = ngx_max(list->limit / 8, 1);

        ngx_log_error(NGX_LOG_INFO, list->cluster->log, 0,
                      "etcd cluster \"%V\": list continues with pages of "
                      "%L keys: %V",
                      &list->cluster->conf->name, list->limit, text);

        ngx_etcd_list_page(list);
        return;
    }

    ngx_etcd_list_end(list, status, text);
}


static void
ngx_etcd_list_end(ngx_etcd_list_t *list, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    list->running = 0;

    if (list->next != NULL) {
        ngx_free(list->next);
        list->next = NULL;
    }

    list->done(list, status, text, list->revision);
}


ngx_str_t
ngx_etcd_prefix_end(ngx_pool_t *pool, ngx_str_t *prefix)
{
    size_t     n;
    ngx_str_t  end;

    end.len = 0;
    end.data = ngx_pnalloc(pool, ngx_max(prefix->len, 1));

    if (end.data == NULL) {
        return end;
    }

    ngx_memcpy(end.data, prefix->data, prefix->len);

    for (n = prefix->len; n > 0; n--) {

        if (end.data[n - 1] != 0xff) {
            end.data[n - 1]++;
            end.len = n;
            return end;
        }
    }

    /* nothing is above the prefix: etcd's sign for "to the end" */

    end.data[0] = '\0';
    end.len = 1;

    return end;
}
