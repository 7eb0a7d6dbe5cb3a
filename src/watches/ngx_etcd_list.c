
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_list.h>
#include <ngx_etcd_message.h>


/* Frees the pages that are not passed on, and the start of the next one. */

static void
ngx_etcd_list_drop(ngx_etcd_list_t *list)
{
    ngx_queue_t           *q;
    ngx_etcd_list_page_t  *page;

    ngx_etcd_event_stop(&list->work);

    if (list->pages.current != NULL) {
        ngx_destroy_pool(list->pages.current->pool);
        list->pages.current = NULL;
    }

    while (!ngx_queue_empty(&list->pages.waiting)) {
        q = ngx_queue_head(&list->pages.waiting);
        ngx_queue_remove(q);

        page = ngx_queue_data(q, ngx_etcd_list_page_t, queue);
        ngx_destroy_pool(page->pool);
    }

    ngx_free(list->next);
    list->next = NULL;
}


static void
ngx_etcd_list_ask(ngx_etcd_list_t *list)
{
    ngx_uint_t           connection;
    Etcd__RangeRequest  *request;

    connection = list->connection;
    list->connection = 0;
    list->asking = 1;

    request = &list->request;

    etcd__range_request__init(request);

    request->key = ngx_etcd_bytes(&list->key);
    request->range_end = ngx_etcd_bytes(&list->range_end);
    request->revision = list->revision;
    request->serializable = list->serializable;
    request->keys_only = list->keys_only;

    if (list->next != NULL) {
        request->key.data = list->next + sizeof(size_t);
        request->key.len = *(size_t *) list->next;
    }

    if (ngx_etcd_list_stream_start(&list->stream, request, connection)
        == NGX_OK)
    {
        return;
    }

    request->limit = list->limit;

    ngx_etcd_unary_start(&list->unary);
}


static void
ngx_etcd_list_end(ngx_etcd_list_t *list, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    list->running = 0;

    ngx_etcd_list_drop(list);

    list->done(list, status, text, list->revision);
}


static void
ngx_etcd_list_failed(ngx_etcd_list_t *list, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    int64_t  least;

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

    least = list->unary.smaller ? 1 : NGX_ETCD_LIST_LEAST;

    if ((list->unary.smaller || status == NGX_ETCD_GRPC_DEADLINE_EXCEEDED)
        && list->limit > least)
    {
        list->limit = ngx_max(list->limit / 8, least);

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
ngx_etcd_list_unusable(ngx_etcd_list_t *list)
{
    ngx_str_t  text = ngx_string("the response could not be used");

    ngx_etcd_unary_cancel(&list->unary);
    ngx_etcd_list_stream_cancel(&list->stream);
    ngx_etcd_list_end(list, NGX_ETCD_GRPC_INTERNAL, &text);
}


static ngx_int_t
ngx_etcd_list_unpack(ngx_etcd_list_t *list, size_t from, size_t n,
    Etcd__KeyValue **kvs, ngx_pool_t *pool)
{
    size_t                i;
    ngx_uint_t            exceeded;
    ProtobufCBinaryData  *packed;

    packed = list->pages.current->kvs + from;

    for (i = 0; i < n; i++) {
        kvs[i] = (Etcd__KeyValue *) ngx_etcd_message_unpack(
                                     &etcd__key_value__descriptor, pool,
                                     packed[i].data, packed[i].len, &exceeded);
        if (kvs[i] == NULL) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * The next page starts at the last key of this page and a zero byte, which are
 * kept after their length.  A stream may end after each chunk.
 */

static ngx_int_t
ngx_etcd_list_advance(ngx_etcd_list_t *list)
{
    u_char                *next;
    size_t                 len;
    ngx_pool_t            *pool;
    Etcd__KeyValue        *last;
    ngx_etcd_list_page_t  *page;

    page = list->pages.current;

    if (page->n == 0 || !(page->more || page->chunk)) {
        return NGX_OK;
    }

    pool = ngx_create_pool(NGX_ETCD_LIST_POOL, list->cluster->log);
    if (pool == NULL) {
        return NGX_ERROR;
    }

    next = NULL;

    if (ngx_etcd_list_unpack(list, page->n - 1, 1, &last, pool) == NGX_OK) {
        len = last->key.len;
        next = ngx_alloc(sizeof(size_t) + len + 1, list->cluster->log);

        if (next != NULL) {
            *(size_t *) next = len + 1;
            ngx_memcpy(next + sizeof(size_t), last->key.data, len);
            next[sizeof(size_t) + len] = '\0';
        }
    }

    ngx_destroy_pool(pool);

    if (next == NULL) {
        return NGX_ERROR;
    }

    ngx_free(list->next);

    list->next = next;

    return NGX_OK;
}


/* Begins to pass on the next page. */

static void
ngx_etcd_list_turn(ngx_etcd_list_t *list)
{
    ngx_queue_t           *q;
    ngx_etcd_list_page_t  *page;

    q = ngx_queue_head(&list->pages.waiting);
    ngx_queue_remove(q);
    list->pages.n--;

    page = ngx_queue_data(q, ngx_etcd_list_page_t, queue);

    list->pages.current = page;
    list->pages.taken = 0;

    ngx_etcd_list_stream_hold(&list->stream,
                              !ngx_queue_empty(&list->pages.waiting));

    if (!list->begun) {
        list->begun = 1;
        list->history = list->cluster->history.changes;

        if (list->pinned == 0) {
            list->revision = page->revision;
        }

        if (list->begin != NULL) {
            list->begin(list);
        }
    }

    if (list->revision <= 0) {
        ngx_etcd_list_unusable(list);
        return;
    }

    if (!page->chunk) {
        list->more = page->more;
    }

    if (ngx_etcd_list_advance(list) != NGX_OK) {
        ngx_etcd_list_unusable(list);
        return;
    }

    if (page->more) {
        ngx_etcd_list_ask(list);
    }

    /* the request for the next page is sent before the keys are passed on */

    ngx_post_event(&list->work, &ngx_posted_next_events);
}


static void
ngx_etcd_list_add(ngx_etcd_list_t *list, ngx_etcd_list_page_t *page)
{
    ngx_queue_insert_tail(&list->pages.waiting, &page->queue);
    list->pages.n++;

    if (list->pages.current == NULL) {
        ngx_etcd_list_turn(list);
    }
}


static void
ngx_etcd_list_answer(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, ProtobufCMessage *message, ngx_pool_t *pool)
{
    ngx_etcd_list_t            *list;
    ngx_etcd_list_page_t       *page;
    Etcd__NestedRangeResponse  *response;

    list = unary->data;
    list->asking = 0;

    if (status != NGX_ETCD_GRPC_OK) {
        ngx_etcd_list_failed(list, status, text);
        return;
    }

    response = (Etcd__NestedRangeResponse *) message;

    if (!list->serializable) {
        ngx_etcd_history_check(list->cluster, response->header, &unary->mark);
    }

    list->connection = unary->connection;

    /* one may be passed on, and no other waits */

    page = &list->pages.own[list->pages.current == &list->pages.own[0]];

    page->pool = pool;
    page->n = response->n_kvs;
    page->kvs = response->kvs;
    page->chunk = 0;
    page->revision = (response->header != NULL) ? response->header->revision
                                                : 0;

    /* without keys, the next page would have to begin with the same key */

    page->more = (response->more && response->n_kvs != 0);

    ngx_etcd_list_add(list, page);
}


static ngx_int_t
ngx_etcd_list_chunk(ngx_etcd_list_stream_t *stream,
    Etcd__NestedRangeResponse *response, ngx_pool_t *pool)
{
    ngx_etcd_list_t       *list;
    ngx_etcd_list_page_t  *page;

    list = stream->data;

    /* within a window, which is granted, chunks may be many */

    if (list->pages.n == NGX_ETCD_LIST_QUEUE) {
        return NGX_ERROR;
    }

    page = ngx_pcalloc(pool, sizeof(ngx_etcd_list_page_t));
    if (page == NULL) {
        return NGX_ERROR;
    }

    page->pool = pool;
    page->n = response->n_kvs;
    page->kvs = response->kvs;
    page->chunk = 1;

    ngx_etcd_list_stream_hold(stream, list->pages.current != NULL);

    ngx_etcd_list_add(list, page);

    return NGX_OK;
}


/* No page is left to pass on. */

static void
ngx_etcd_list_go_on(ngx_etcd_list_t *list)
{
    ngx_int_t  rc;
    ngx_str_t  text;

    if (list->asking) {
        return;
    }

    if (list->more) {
        ngx_etcd_list_ask(list);
        return;
    }

    rc = list->keys(list, NULL, 0);

    if (rc == NGX_AGAIN) {
        ngx_post_event(&list->work, &ngx_posted_next_events);
        return;
    }

    if (rc != NGX_OK) {
        ngx_etcd_list_unusable(list);
        return;
    }

    ngx_str_null(&text);
    ngx_etcd_list_end(list, NGX_ETCD_GRPC_OK, &text);
}


/* The keys that came are passed on before the next page is requested. */

static void
ngx_etcd_list_streamed(ngx_etcd_list_stream_t *stream,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_uint_t        level;
    ngx_etcd_list_t  *list;

    list = stream->data;

    list->asking = 0;
    list->more = (status != NGX_ETCD_GRPC_OK);

    if (list->more) {
        level = (status == NGX_ETCD_GRPC_UNIMPLEMENTED) ? NGX_LOG_DEBUG
                                                        : NGX_LOG_INFO;

        ngx_log_error(level, list->cluster->log, 0,
                      "etcd cluster \"%V\": list goes on in pages: %s: %V",
                      &list->cluster->conf->name,
                      ngx_etcd_grpc_status_name(status), text);
    }

    if (list->pages.current == NULL) {
        ngx_etcd_list_go_on(list);

    } else if (list->more
               && !list->pages.current->chunk
               && ngx_queue_empty(&list->pages.waiting))
    {
        /* no chunk came: the next key is known */

        ngx_etcd_list_ask(list);
    }
}


/* Returns the number of keys of the next piece: at least 1, if any is left. */

static size_t
ngx_etcd_list_next(ngx_etcd_list_t *list)
{
    size_t                 n, left, bytes;
    ngx_etcd_list_page_t  *page;

    page = list->pages.current;
    left = ngx_min(page->n - list->pages.taken, NGX_ETCD_LIST_PIECE);
    bytes = 0;

    for (n = 0; n < left; n++) {

        bytes += page->kvs[list->pages.taken + n].len;

        if (n > 0 && bytes > NGX_ETCD_LIST_BYTES) {
            break;
        }
    }

    return n;
}


static ngx_int_t
ngx_etcd_list_piece(ngx_etcd_list_t *list, size_t n)
{
    ngx_int_t        rc;
    ngx_pool_t      *pool;
    Etcd__KeyValue  *kvs[NGX_ETCD_LIST_PIECE];

    if (n == 0) {
        return NGX_OK;
    }

    pool = ngx_create_pool(NGX_ETCD_LIST_POOL, list->cluster->log);
    if (pool == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_etcd_list_unpack(list, list->pages.taken, n, kvs, pool);

    if (rc == NGX_OK) {
        rc = list->keys(list, kvs, n);
    }

    ngx_destroy_pool(pool);

    return rc;
}


static void
ngx_etcd_list_work(ngx_event_t *ev)
{
    size_t                 n;
    ngx_etcd_list_t       *list;
    ngx_etcd_list_page_t  *page;

    list = ev->data;
    page = list->pages.current;

    if (page == NULL) {
        ngx_etcd_list_go_on(list);
        return;
    }

    n = ngx_etcd_list_next(list);

    if (ngx_etcd_list_piece(list, n) != NGX_OK) {
        ngx_etcd_list_unusable(list);
        return;
    }

    list->pages.taken += n;

    if (list->pages.taken < page->n) {
        ngx_post_event(&list->work, &ngx_posted_next_events);
        return;
    }

    list->pages.current = NULL;
    ngx_destroy_pool(page->pool);

    if (ngx_queue_empty(&list->pages.waiting)) {
        ngx_etcd_list_go_on(list);

    } else {
        ngx_etcd_list_turn(list);
    }
}


void
ngx_etcd_list_start(ngx_etcd_list_t *list)
{
    ngx_etcd_unary_t  *unary;

    list->running = 1;
    list->begun = 0;
    list->revision = list->pinned;
    list->connection = 0;

    if (list->limit == 0) {
        list->limit = NGX_ETCD_LIST_PAGE;
    }

    /* a Range, whose keys are unpacked later, piece by piece */

    unary = &list->unary;

    unary->cluster = list->cluster;
    unary->method = "/etcdserverpb.KV/Range";
    unary->name = "range";
    unary->request = &list->request.base;
    unary->response = &etcd__nested_range_response__descriptor;
    unary->idempotent = 1;
    unary->done = ngx_etcd_list_answer;
    unary->data = list;

    list->stream.cluster = list->cluster;
    list->stream.chunk = ngx_etcd_list_chunk;
    list->stream.done = ngx_etcd_list_streamed;
    list->stream.data = list;

    ngx_queue_init(&list->pages.waiting);
    list->pages.n = 0;

    ngx_etcd_event_init(&list->work, ngx_etcd_list_work, list,
                        list->cluster->log);

    ngx_etcd_list_ask(list);
}


void
ngx_etcd_list_cancel(ngx_etcd_list_t *list)
{
    if (!list->running) {
        return;
    }

    list->running = 0;

    ngx_etcd_unary_cancel(&list->unary);
    ngx_etcd_list_stream_cancel(&list->stream);
    ngx_etcd_list_drop(list);
}
