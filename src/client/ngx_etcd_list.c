
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_list.h>


/* "more" without keys: the next page would have to begin with the same key */

#define ngx_etcd_list_more(response)                                          \
    ((response)->more && (response)->n_kvs != 0)


static void ngx_etcd_list_drop(ngx_etcd_list_t *list);
static void ngx_etcd_list_free(ngx_etcd_list_page_t *page);
static void ngx_etcd_list_ask(ngx_etcd_list_t *list);
static void ngx_etcd_list_answer(ngx_etcd_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response, ngx_pool_t *pool);
static void ngx_etcd_list_turn(ngx_etcd_list_t *list);
static void ngx_etcd_list_work(ngx_event_t *ev);
static void ngx_etcd_list_unusable(ngx_etcd_list_t *list);
static ngx_int_t ngx_etcd_list_advance(ngx_etcd_list_t *list,
    Etcd__RangeResponse *response);
static void ngx_etcd_list_failed(ngx_etcd_list_t *list,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_list_end(ngx_etcd_list_t *list,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);


void
ngx_etcd_list_start(ngx_etcd_list_t *list)
{
    list->running = 1;
    list->begun = 0;
    list->revision = list->pinned;

    if (list->limit == 0) {
        list->limit = NGX_ETCD_LIST_PAGE;
    }

    list->range.cluster = list->cluster;
    list->range.done = ngx_etcd_list_answer;
    list->range.data = list;

    list->work.handler = ngx_etcd_list_work;
    list->work.data = list;
    list->work.log = list->cluster->log;

    ngx_etcd_list_ask(list);
}


void
ngx_etcd_list_cancel(ngx_etcd_list_t *list)
{
    if (!list->running) {
        return;
    }

    list->running = 0;

    ngx_etcd_range_cancel(&list->range);
    ngx_etcd_list_drop(list);
}


/* Frees the pages that are not passed on, and the start of the next one. */

static void
ngx_etcd_list_drop(ngx_etcd_list_t *list)
{
    if (list->work.posted) {
        ngx_delete_posted_event(&list->work);
    }

    ngx_etcd_list_free(&list->page);
    ngx_etcd_list_free(&list->ahead);

    if (list->next != NULL) {
        ngx_free(list->next);
        list->next = NULL;
    }
}


static void
ngx_etcd_list_free(ngx_etcd_list_page_t *page)
{
    if (page->response != NULL) {
        page->response = NULL;
        ngx_destroy_pool(page->pool);
    }
}


static void
ngx_etcd_list_ask(ngx_etcd_list_t *list)
{
    Etcd__RangeRequest  *request;

    request = &list->range.request;

    etcd__range_request__init(request);

    request->key.data = list->key.data;
    request->key.len = list->key.len;
    request->range_end.data = list->range_end.data;
    request->range_end.len = list->range_end.len;
    request->limit = list->limit;
    request->revision = list->revision;
    request->serializable = list->serializable;
    request->keys_only = list->keys_only;

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
    ngx_etcd_list_t  *list;

    list = range->data;

    if (status != NGX_ETCD_GRPC_OK) {
        ngx_etcd_list_failed(list, status, text);
        return;
    }

    if (list->page.response != NULL) {
        list->ahead.response = response;
        list->ahead.pool = pool;
        return;
    }

    list->page.response = response;
    list->page.pool = pool;

    ngx_etcd_list_turn(list);
}


/* Begins to pass on list->page. */

static void
ngx_etcd_list_turn(ngx_etcd_list_t *list)
{
    Etcd__RangeResponse  *response;

    response = list->page.response;

    if (!list->begun) {
        list->begun = 1;
        list->history = list->cluster->history;

        if (list->pinned == 0) {
            list->revision = (response->header != NULL)
                             ? response->header->revision : 0;
        }

        list->begin(list);
    }

    if (list->revision <= 0
        || (ngx_etcd_list_more(response)
            && ngx_etcd_list_advance(list, response) != NGX_OK))
    {
        ngx_etcd_list_unusable(list);
        return;
    }

    if (ngx_etcd_list_more(response)) {
        ngx_etcd_list_ask(list);
    }

    list->taken = 0;

    /* the request for the next page is sent before the keys are passed on */

    ngx_post_event(&list->work, &ngx_posted_events);
}


static void
ngx_etcd_list_work(ngx_event_t *ev)
{
    size_t                n;
    ngx_str_t             text;
    ngx_uint_t            more;
    ngx_etcd_list_t      *list;
    Etcd__RangeResponse  *response;

    list = ev->data;
    response = list->page.response;

    n = ngx_min(response->n_kvs - list->taken, NGX_ETCD_LIST_PIECE);

    if (list->keys(list, response->kvs + list->taken, n) != NGX_OK) {
        ngx_etcd_list_unusable(list);
        return;
    }

    list->taken += n;

    if (list->taken < response->n_kvs) {
        ngx_post_event(&list->work, &ngx_posted_next_events);
        return;
    }

    more = ngx_etcd_list_more(response);

    ngx_etcd_list_free(&list->page);

    if (!more) {
        ngx_str_null(&text);
        ngx_etcd_list_end(list, NGX_ETCD_GRPC_OK, &text);
        return;
    }

    if (list->ahead.response != NULL) {
        list->page = list->ahead;
        list->ahead.response = NULL;

        ngx_etcd_list_turn(list);
    }
}


static void
ngx_etcd_list_unusable(ngx_etcd_list_t *list)
{
    ngx_str_t  text = ngx_string("the response could not be used");

    ngx_etcd_range_cancel(&list->range);
    ngx_etcd_list_end(list, NGX_ETCD_GRPC_INTERNAL, &text);
}


/* the next page starts at the last key of this page and a zero byte */

static ngx_int_t
ngx_etcd_list_advance(ngx_etcd_list_t *list, Etcd__RangeResponse *response)
{
    u_char               *next;
    ProtobufCBinaryData  *last;

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
    /* the revision was compacted between two pages: start again */

    if (status == NGX_ETCD_GRPC_OUT_OF_RANGE && list->begun
        && list->pinned == 0)
    {
        ngx_log_error(NGX_LOG_INFO, list->cluster->log, 0,
                      "etcd cluster \"%V\": list at revision %L was "
                      "compacted, starting again",
                      &list->cluster->conf->name, list->revision);

        ngx_etcd_list_drop(list);
        ngx_etcd_list_start(list);
        return;
    }

    /* the page was too large, or took too long: continue with smaller pages */

    if ((list->range.unary.oversize
         || status == NGX_ETCD_GRPC_DEADLINE_EXCEEDED)
        && list->limit > 1)
    {
        list->limit = ngx_max(list->limit / 8, 1);

        ngx_log_error(NGX_LOG_INFO, list->cluster->log, 0,
                      "etcd cluster \"%V\": list continues with pages of "
                      "%L keys: %V",
                      &list->cluster->conf->name, list->limit, text);

        ngx_etcd_list_ask(list);
        return;
    }

    ngx_etcd_list_end(list, status, text);
}


static void
ngx_etcd_list_end(ngx_etcd_list_t *list, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    list->running = 0;

    ngx_etcd_list_drop(list);

    list->done(list, status, text, list->revision);
}
