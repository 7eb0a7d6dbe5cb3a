
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The consequences of a callback or a call (sending, ready(), draining(),
 * failing) are handled by one posted event, outside any caller; memory is
 * released by another posted event.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_http2.h>
#include <ngx_etcd_http2_session.h>
#include <ngx_etcd_str.h>


#define NGX_ETCD_HTTP2_POOL_SIZE     1024
#define NGX_ETCD_HTTP2_FRAME_HEADER  9

/* bytes of each buffer of a connection for one short call */
#define NGX_ETCD_HTTP2_BRIEF         4096

/*
 * The limit of overhead that a peer may send per second.  Overhead is every
 * byte received beyond payload (DATA and header fields) and beyond one more
 * byte for each byte of payload: WINDOW_UPDATE, PING, SETTINGS, frames of
 * unknown types, frame headers.  Up to CREDIT bytes of unused allowance are
 * carried over, so that the start of a second does not matter.
 */

#define NGX_ETCD_HTTP2_OVERHEAD  32768
#define NGX_ETCD_HTTP2_CREDIT    65536


static u_char *
ngx_etcd_http2_log_error(ngx_log_t *log, u_char *buf, size_t len)
{
    ngx_etcd_http2_t  *h2;

    h2 = log->data;

    return ngx_snprintf(buf, len, ", etcd endpoint: \"%V\"", &h2->conf.name);
}


/*
 * A done() handler may close the connection while the connection is failing;
 * the nested call then ends the remaining streams.
 */

static void
ngx_etcd_http2_shutdown(ngx_etcd_http2_t *h2, ngx_str_t *reason)
{
    ngx_queue_t              *q;
    ngx_etcd_http2_stream_t  *stream;

    if (h2->state != ngx_etcd_http2_closed) {
        h2->state = ngx_etcd_http2_closed;

        ngx_log_debug2(NGX_LOG_DEBUG_EVENT, &h2->log, 0,
                       "etcd http2 %V: closed: %V", &h2->conf.name, reason);

        ngx_etcd_connection_close(h2->connection);

        ngx_etcd_event_stop(&h2->timer);
        ngx_etcd_event_stop(&h2->work);

        ngx_post_event(&h2->release, &ngx_posted_events);
    }

    while (!ngx_queue_empty(&h2->streams)) {
        q = ngx_queue_head(&h2->streams);
        ngx_queue_remove(q);
        ngx_queue_insert_tail(&h2->ended, q);

        stream = ngx_queue_data(q, ngx_etcd_http2_stream_t, queue);
        stream->handlers->failed(stream, reason);
    }
}


static void
ngx_etcd_http2_fail(ngx_etcd_http2_t *h2, ngx_str_t *reason)
{
    if (h2->state == ngx_etcd_http2_closed) {
        return;
    }

    ngx_etcd_http2_shutdown(h2, reason);

    if (!h2->disowned) {
        h2->disowned = 1;
        h2->conf.closed(h2->conf.data, reason);
    }
}


static void
ngx_etcd_http2_begin(ngx_etcd_http2_t *h2)
{
    h2->state = ngx_etcd_http2_ready;

    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, &h2->log, 0,
                   "etcd http2 %V: ready", &h2->conf.name);

    ngx_etcd_event_stop(&h2->timer);

    h2->conf.ready(h2->conf.data);
}


static void
ngx_etcd_http2_drain(ngx_etcd_http2_t *h2)
{
    ngx_queue_t              *q, *next;
    ngx_etcd_http2_stream_t  *stream;

    h2->state = ngx_etcd_http2_draining;

    if (nghttp2_session_get_next_stream_id(h2->session)
        > NGX_MAX_INT32_VALUE)
    {
        ngx_etcd_http2_state_reason(h2, "stream ids are exhausted");
    }

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, &h2->log, 0,
                   "etcd http2 %V: draining: %V",
                   &h2->conf.name, &h2->reason);

    /*
     * Streams that wait for the peer's limit of streams will never be sent.
     * failed() may change the queue: restart from its head.
     */

    for (q = ngx_queue_head(&h2->streams);
         q != ngx_queue_sentinel(&h2->streams);
         q = next)
    {
        next = ngx_queue_next(q);
        stream = ngx_queue_data(q, ngx_etcd_http2_stream_t, queue);

        if (stream->sent || !h2->goaway) {
            continue;
        }

        ngx_queue_remove(q);
        ngx_queue_insert_tail(&h2->ended, q);

        ngx_etcd_http2_stream_reset(stream, NGHTTP2_CANCEL);

        stream->handlers->failed(stream, &h2->reason);

        next = ngx_queue_head(&h2->streams);
    }

    if (h2->state == ngx_etcd_http2_draining && h2->conf.draining != NULL) {
        h2->conf.draining(h2->conf.data);
    }
}


static void
ngx_etcd_http2_work_handler(ngx_event_t *ev)
{
    ngx_etcd_http2_t  *h2 = ev->data;

    ngx_etcd_connection_flush(h2->connection);

    if (h2->state == ngx_etcd_http2_closed) {
        return;
    }

    if (h2->broken
        || !(nghttp2_session_want_read(h2->session)
             || nghttp2_session_want_write(h2->session)))
    {
        ngx_etcd_http2_state_reason(h2, "HTTP/2 session ended");
        ngx_etcd_http2_fail(h2, &h2->reason);
        return;
    }

    if (h2->state == ngx_etcd_http2_handshake && h2->settings && !h2->goaway) {
        ngx_etcd_http2_begin(h2);
    }

    if (h2->state == ngx_etcd_http2_ready
        && !nghttp2_session_check_request_allowed(h2->session))
    {
        ngx_etcd_http2_drain(h2);
    }

    if ((h2->state == ngx_etcd_http2_draining && h2->nstreams == 0)
        || (h2->state == ngx_etcd_http2_handshake && h2->goaway))
    {
        ngx_etcd_http2_state_reason(h2, "HTTP/2 session ended");
        ngx_etcd_http2_fail(h2, &h2->reason);
    }
}


static void
ngx_etcd_http2_destroy(ngx_etcd_http2_t *h2)
{
    ngx_log_t                 log;
    ngx_queue_t              *q;
    ngx_etcd_http2_stream_t  *stream;

    if (h2->session) {
        nghttp2_session_del(h2->session);
    }

    while (!ngx_queue_empty(&h2->ended)) {
        q = ngx_queue_head(&h2->ended);
        ngx_queue_remove(q);

        stream = ngx_queue_data(q, ngx_etcd_http2_stream_t, queue);
        stream->handlers->free(stream);
    }

    /*
     * ngx_destroy_pool() logs, and the log is allocated from the pool: use a
     * copy
     */

    log = h2->log;
    log.handler = NULL;

    h2->pool->log = &log;

    ngx_destroy_pool(h2->pool);
}


static void
ngx_etcd_http2_release_handler(ngx_event_t *ev)
{
    ngx_etcd_http2_destroy(ev->data);
}


static void
ngx_etcd_http2_liveness(ngx_etcd_http2_t *h2)
{
    ngx_msec_t  silence, interval;

    if (h2->nstreams == 0) {
        return;
    }

    if (h2->ping.waiting) {
        silence = ngx_current_msec - h2->ping.sent;

        if (silence >= h2->conf.ping_timeout) {
            ngx_etcd_http2_state_reason(h2, "no answer to PING in %M ms",
                                        silence);
            ngx_etcd_http2_fail(h2, &h2->reason);
            return;
        }

        ngx_add_timer(&h2->timer, h2->conf.ping_timeout - silence);
        return;
    }

    interval = h2->conf.ping_interval;

    if (h2->ping.refused) {
        interval *= 2;
    }

    silence = ngx_current_msec - h2->ping.input;

    if (silence < interval) {
        ngx_add_timer(&h2->timer, interval - silence);
        return;
    }

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, &h2->log, 0,
                   "etcd http2 %V: ping after %M ms",
                   &h2->conf.name, silence);

    h2->ping.clock = ngx_etcd_clock();

    if (nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE,
                            (uint8_t *) &h2->ping.clock)
        != 0)
    {
        ngx_add_timer(&h2->timer, interval);
        return;
    }

    h2->ping.waiting = 1;
    h2->ping.sent = ngx_current_msec;

    ngx_add_timer(&h2->timer, h2->conf.ping_timeout);

    ngx_etcd_http2_state_post(h2);
}


static void
ngx_etcd_http2_unready(ngx_etcd_http2_t *h2)
{
    if (ngx_etcd_connection_accepted(h2->connection)) {

        if (h2->conf.patience && !h2->patient) {
            h2->patient = 1;
            ngx_add_timer(&h2->timer, h2->conf.patience);
            return;
        }

        h2->late = 1;
    }

    if (h2->state == ngx_etcd_http2_connecting) {
        ngx_etcd_http2_state_reason(h2, "%s timed out",
                                    ngx_etcd_connection_action(h2->connection));

    } else {
        ngx_etcd_http2_state_reason(h2,
                                    "timed out waiting for HTTP/2 SETTINGS");
    }

    ngx_etcd_http2_fail(h2, &h2->reason);
}


static void
ngx_etcd_http2_timer_handler(ngx_event_t *ev)
{
    ngx_etcd_http2_t  *h2 = ev->data;

    switch (h2->state) {

    case ngx_etcd_http2_connecting:
    case ngx_etcd_http2_handshake:
        ngx_etcd_http2_unready(h2);
        return;

    case ngx_etcd_http2_ready:
    case ngx_etcd_http2_draining:
        ngx_etcd_http2_liveness(h2);
        return;

    case ngx_etcd_http2_closed:
        return;
    }
}


static void
ngx_etcd_http2_connected_handler(void *data)
{
    ngx_etcd_http2_t  *h2 = data;

    h2->state = ngx_etcd_http2_handshake;

    ngx_etcd_http2_state_post(h2);

    /* the call and all that precedes it are then sent at once */

    if (h2->conf.brief) {
        ngx_etcd_http2_begin(h2);
    }
}


/*
 * The first frame of an HTTP/2 peer is SETTINGS.  Other first bytes are
 * logged as text: "HTTP/1.1 400 Bad Request" tells more than "protocol
 * error".
 */

static ngx_int_t
ngx_etcd_http2_check_peer(ngx_etcd_http2_t *h2, u_char *buf, size_t n)
{
    u_char  *p, *last;
    size_t   len, known;

    known = h2->nfirst;

    if (known >= NGX_ETCD_HTTP2_FRAME_HEADER) {
        return NGX_OK;
    }

    len = ngx_min(n, NGX_ETCD_HTTP2_SHOWN - known);

    ngx_memcpy(h2->first + known, buf, len);
    h2->nfirst += len;

    p = h2->first;

    if (h2->nfirst < 4 || p[3] == NGHTTP2_SETTINGS) {
        return NGX_OK;
    }

    if (p[0] == 0x15 && p[1] == 0x03) {
        ngx_etcd_http2_state_reason(h2, "no HTTP/2: got a TLS alert, "
                                    "is this an https endpoint?");
        return NGX_ERROR;
    }

    last = p + h2->nfirst;

    while (p < last && *p >= 0x20 && *p < 0x7f && *p != '"') {
        p++;
    }

    if (p == h2->first) {
        ngx_etcd_http2_state_reason(h2, "no HTTP/2: got bytes "
                                    "0x%02xi%02xi%02xi%02xi",
                                    p[0], p[1], p[2], p[3]);
        return NGX_ERROR;
    }

    ngx_etcd_http2_state_reason(h2, "no HTTP/2: got \"%V\"",
                                ngx_etcd_shown_bytes(h2->first, p - h2->first));
    return NGX_ERROR;
}


/*
 * Limits useless frames like nginx does for its own HTTP/2 clients: every
 * frame costs CPU time, and HTTP/2 limits the number of frames of no type
 * (RFC 9113, section 10.5).
 */

static ngx_int_t
ngx_etcd_http2_check_flood(ngx_etcd_http2_t *h2, size_t n)
{
    if (ngx_current_msec - h2->overhead.second >= 1000) {
        h2->overhead.second = ngx_current_msec;
        h2->overhead.bytes = ngx_min(h2->overhead.bytes, 0);
    }

    h2->overhead.bytes = ngx_max(h2->overhead.bytes + (ssize_t) n,
                                 -NGX_ETCD_HTTP2_CREDIT);

    if (h2->overhead.bytes > 0
        && h2->overhead.unheard >= (size_t) h2->overhead.bytes)
    {
        h2->overhead.unheard -= h2->overhead.bytes;
        h2->overhead.bytes = 0;
    }

    if (h2->overhead.bytes > NGX_ETCD_HTTP2_OVERHEAD) {
        ngx_etcd_http2_state_reason(h2, "HTTP/2 flood: got %z bytes without "
                                    "payload in a second", h2->overhead.bytes);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static void
ngx_etcd_http2_received_handler(void *data, u_char *buf, size_t n)
{
    ssize_t            rc;
    ngx_uint_t         answer;
    ngx_etcd_http2_t  *h2 = data;

    if (!h2->settings && ngx_etcd_http2_check_peer(h2, buf, n) != NGX_OK) {
        ngx_etcd_http2_fail(h2, &h2->reason);
        return;
    }

    h2->ping.input = ngx_current_msec;

    if (h2->ping.waiting) {
        h2->ping.waiting = 0;

        /*
         * the next PING is due after ping_interval, whatever ping_timeout is
         */

        ngx_add_timer(&h2->timer, h2->conf.ping_interval);
    }

    rc = nghttp2_session_mem_recv(h2->session, buf, n);

    if (h2->state == ngx_etcd_http2_closed) {
        return;
    }

    if (rc >= 0 && ngx_etcd_http2_check_flood(h2, n) != NGX_OK) {
        ngx_etcd_http2_fail(h2, &h2->reason);
        return;
    }

    if (rc < 0) {
        ngx_etcd_http2_state_reason(h2, "HTTP/2 error: %s",
                                    nghttp2_strerror((int) rc));
        ngx_etcd_http2_fail(h2, &h2->reason);
        return;
    }

    ngx_etcd_http2_state_post(h2);

    if (h2->ping.answered) {
        h2->ping.answered = 0;

        if (h2->conf.pong != NULL) {
            h2->conf.pong(h2->conf.data, h2->ping.clock);
        }
    }

    answer = h2->answer;
    h2->answer = 0;

    if (h2->conf.alive != NULL) {
        h2->conf.alive(h2->conf.data, answer);
    }
}


static size_t
ngx_etcd_http2_output_handler(void *data, u_char **buf)
{
    ssize_t            n;
    const uint8_t     *p;
    ngx_etcd_http2_t  *h2 = data;

    if (h2->broken) {
        return 0;
    }

    n = nghttp2_session_mem_send(h2->session, &p);

    if (h2->state == ngx_etcd_http2_closed) {
        return 0;
    }

    if (n < 0) {
        ngx_etcd_http2_state_reason(h2, "HTTP/2 error: %s",
                                    nghttp2_strerror((int) n));
        h2->broken = 1;
        ngx_etcd_http2_state_post(h2);
        return 0;
    }

    *buf = (u_char *) p;

    return n;
}


static void
ngx_etcd_http2_failed_handler(void *data, ngx_str_t *reason)
{
    ngx_etcd_http2_t  *h2 = data;

    /* a reason that ends with a hint is complete */

    if (h2->reason.len == 0 && !h2->settings
        && h2->state != ngx_etcd_http2_connecting
        && reason->data[reason->len - 1] != '?')
    {
        ngx_etcd_http2_state_reason(h2, "%V before HTTP/2 SETTINGS%s", reason,
                                    (h2->conf.ssl != NULL || h2->nfirst != 0)
                                    ? "" : ", is this an https endpoint?");
    }

    /* an earlier complaint of the peer says more than the end of the stream */

    ngx_etcd_http2_fail(h2, h2->reason.len ? &h2->reason : reason);
}


static ngx_int_t
ngx_etcd_http2_init(ngx_etcd_http2_t *h2)
{
    ngx_etcd_connection_conf_t  conf;

    ngx_queue_init(&h2->streams);
    ngx_queue_init(&h2->ended);

    ngx_etcd_event_init(&h2->work, ngx_etcd_http2_work_handler, h2, &h2->log);

    ngx_etcd_event_init(&h2->release, ngx_etcd_http2_release_handler, h2,
                        &h2->log);

    ngx_etcd_event_init_timer(&h2->timer, ngx_etcd_http2_timer_handler, h2,
                              &h2->log);

    if (ngx_etcd_http2_session_create(h2) != NGX_OK) {
        return NGX_ERROR;
    }

    conf.addr = h2->conf.addr;
    conf.ssl = h2->conf.ssl;
    conf.ssl_name = h2->conf.ssl_name;
    conf.connected = ngx_etcd_http2_connected_handler;
    conf.received = ngx_etcd_http2_received_handler;
    conf.output = ngx_etcd_http2_output_handler;
    conf.failed = ngx_etcd_http2_failed_handler;
    conf.data = h2;
    conf.buffer = h2->conf.brief ? NGX_ETCD_HTTP2_BRIEF : 0;

    h2->connection = ngx_etcd_connection_create(&conf, h2->pool, &h2->log);
    if (h2->connection == NULL) {
        return NGX_ERROR;
    }

    if (h2->conf.connect_timeout) {
        ngx_add_timer(&h2->timer, h2->conf.connect_timeout);
    }

    return NGX_OK;
}


ngx_etcd_http2_t *
ngx_etcd_http2_connect(ngx_etcd_http2_conf_t *conf, ngx_log_t *log)
{
    ngx_pool_t        *pool;
    ngx_etcd_http2_t  *h2;

    pool = ngx_create_pool(NGX_ETCD_HTTP2_POOL_SIZE, log);
    if (pool == NULL) {
        return NULL;
    }

    h2 = ngx_pcalloc(pool, sizeof(ngx_etcd_http2_t));
    if (h2 == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    h2->conf = *conf;
    h2->pool = pool;

    h2->log = *log;
    h2->log.handler = ngx_etcd_http2_log_error;
    h2->log.data = h2;
    h2->log.action = NULL;

    pool->log = &h2->log;

    if (ngx_etcd_http2_init(h2) != NGX_OK) {
        ngx_etcd_http2_destroy(h2);
        return NULL;
    }

    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, &h2->log, 0,
                   "etcd http2 %V: connecting", &h2->conf.name);

    return h2;
}


void
ngx_etcd_http2_close(ngx_etcd_http2_t *h2)
{
    ngx_str_t  reason = ngx_string("connection was closed");

    h2->disowned = 1;

    ngx_etcd_http2_shutdown(h2, &reason);
}


void
ngx_etcd_http2_stay(ngx_etcd_http2_t *h2)
{
    ngx_etcd_connection_stay(h2->connection);
}


void
ngx_etcd_http2_wait(ngx_etcd_http2_t *h2, ngx_msec_t time)
{
    ngx_etcd_connection_wait(h2->connection, time);
}


ngx_uint_t
ngx_etcd_http2_usable(ngx_etcd_http2_t *h2)
{
    return ngx_etcd_http2_state_usable(h2);
}


ngx_uint_t
ngx_etcd_http2_ended(ngx_etcd_http2_t *h2)
{
    return h2->state == ngx_etcd_http2_closed;
}


ngx_uint_t
ngx_etcd_http2_late(ngx_etcd_http2_t *h2)
{
    return h2->late;
}


ngx_uint_t
ngx_etcd_http2_too_many_pings(ngx_etcd_http2_t *h2)
{
    return h2->ping.refused;
}


ngx_etcd_http2_conf_t *
ngx_etcd_http2_conf(ngx_etcd_http2_t *h2)
{
    return &h2->conf;
}


uint32_t
ngx_etcd_http2_max_calls(ngx_etcd_http2_t *h2)
{
    return nghttp2_session_get_remote_settings(h2->session,
                                       NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}


ngx_log_t *
ngx_etcd_http2_log(ngx_etcd_http2_t *h2)
{
    return &h2->log;
}
