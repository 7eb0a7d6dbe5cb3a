
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_probe.h>


/* bytes of the pool of a request, and of the buffers of its connection */

#define NGX_ETCD_PROBE_POOL    4096
#define NGX_ETCD_PROBE_BUFFER  1024


static ngx_str_t  ngx_etcd_probe_long = ngx_string("the host name is too long");
static ngx_str_t  ngx_etcd_probe_poor = ngx_string("no resources to connect");
static ngx_str_t  ngx_etcd_probe_late = ngx_string("no answer in time");
static ngx_str_t  ngx_etcd_probe_invalid =
    ngx_string("the answer is not one of HTTP/1.1");


/* NGX_ERROR: there is no room. */

static ngx_int_t
ngx_etcd_probe_request(ngx_etcd_probe_t *probe, ngx_etcd_probe_conf_t *conf,
    char *path)
{
    u_char                   *p, *last;
    ngx_str_t                 host;
    ngx_uint_t                v6;
    ngx_etcd_probe_target_t  *target;

    target = &probe->target;
    last = probe->request + NGX_ETCD_PROBE_REQUEST;

    host.data = target->host;
    host.len = target->host_len;

    v6 = (ngx_strlchr(host.data, host.data + host.len, ':') != NULL);

    p = ngx_slprintf(probe->request, last, "GET %s HTTP/1.1" CRLF "Host: ",
                     path);

    conf->addr.name.data = p;

    p = ngx_slprintf(p, last, "%s%V%s:%ui", v6 ? "[" : "", &host,
                     v6 ? "]" : "", (ngx_uint_t) target->port);

    conf->addr.name.len = p - conf->addr.name.data;

    p = ngx_slprintf(p, last, CRLF "Connection: close" CRLF CRLF);

    conf->request.data = probe->request;
    conf->request.len = p - probe->request;

    return (p < last) ? NGX_OK : NGX_ERROR;
}


static void
ngx_etcd_probe_ended(ngx_etcd_probe_t *probe)
{
    probe->asking = 0;

    ngx_post_event(&probe->result, &ngx_posted_events);
}


static void
ngx_etcd_probe_answered(ngx_etcd_probe_t *probe)
{
    probe->error = NGX_ETCD_PROBE_OK;
    probe->status = probe->http.status;

    probe->text.data = probe->answer + probe->http.body;
    probe->text.len = probe->http.len;

    ngx_etcd_probe_ended(probe);
}


/* Copies the reason, which may be in memory of the connection. */

static void
ngx_etcd_probe_unanswered(ngx_etcd_probe_t *probe,
    ngx_etcd_probe_error_e error, ngx_str_t *reason)
{
    probe->error = error;
    probe->status = 0;

    probe->text.len = ngx_min(reason->len, NGX_ETCD_PROBE_ANSWER);
    probe->text.data = probe->answer;

    ngx_memcpy(probe->answer, reason->data, probe->text.len);

    ngx_etcd_probe_ended(probe);
}


/* An answer that only ends with its connection may never end. */

static void
ngx_etcd_probe_timer(ngx_event_t *ev)
{
    ngx_etcd_probe_t  *probe;

    probe = ev->data;

    if (!probe->asking) {
        return;
    }

    if (probe->http.state == NGX_ETCD_HTTP_ANSWER_CLOSE) {
        ngx_etcd_probe_answered(probe);
        probe->error = NGX_ETCD_PROBE_TIMEOUT;
        return;
    }

    ngx_etcd_probe_unanswered(probe, NGX_ETCD_PROBE_TIMEOUT,
                              &ngx_etcd_probe_late);
}


static void
ngx_etcd_probe_result(ngx_event_t *ev)
{
    ngx_etcd_probe_t  *probe;

    probe = ev->data;

    ngx_etcd_probe_cancel(probe);

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, probe->log, 0,
                   "etcd probe %V: status %ui", &probe->conf.addr.name,
                   probe->status);

    probe->done(probe->data, probe->status, &probe->text);
}


static void
ngx_etcd_probe_begin(ngx_etcd_probe_t *probe, ngx_etcd_probe_conf_t *conf)
{
    probe->conf = *conf;

    ngx_etcd_event_init_timer(&probe->timer, ngx_etcd_probe_timer, probe,
                              probe->log);

    ngx_etcd_event_init(&probe->result, ngx_etcd_probe_result, probe,
                        probe->log);

    probe->asking = 1;
    probe->connected = 0;
    probe->sent = 0;
    probe->answer_len = 0;

    ngx_memzero(&probe->http, sizeof(ngx_etcd_http_answer_t));
}


void
ngx_etcd_probe_start(ngx_etcd_probe_t *probe, ngx_etcd_probe_target_t *target,
    char *path, ngx_msec_t timeout)
{
    ngx_etcd_probe_conf_t  conf;

    ngx_etcd_probe_cancel(probe);

    probe->target = *target;
    target = &probe->target;

    ngx_memzero(&conf, sizeof(ngx_etcd_probe_conf_t));

    conf.addr.sockaddr = &target->sockaddr.sockaddr;
    conf.addr.socklen = target->socklen;
    conf.ssl = target->ssl;
    conf.ssl_name.data = target->host;
    conf.ssl_name.len = target->host_len;
    conf.timeout = timeout;

    if (ngx_etcd_probe_request(probe, &conf, path) == NGX_OK) {
        ngx_etcd_probe_send(probe, &conf);
        return;
    }

    ngx_etcd_probe_begin(probe, &conf);
    ngx_etcd_probe_unanswered(probe, NGX_ETCD_PROBE_RESOURCES,
                              &ngx_etcd_probe_long);
}


static void
ngx_etcd_probe_connected(void *data)
{
    ngx_etcd_probe_t *probe = data;

    probe->connected = 1;

    if (probe->conf.request.len != 0) {
        ngx_etcd_connection_flush(probe->conn);

    } else if (probe->asking) {
        ngx_etcd_probe_answered(probe);
    }
}


static void
ngx_etcd_probe_received(void *data, u_char *buf, size_t n)
{
    ngx_etcd_probe_t *probe = data;

    ngx_int_t                rc;
    ngx_uint_t               full, enough;
    ngx_etcd_http_answer_t  *http;

    if (!probe->asking || probe->conf.request.len == 0) {
        return;
    }

    n = ngx_min(n, NGX_ETCD_PROBE_ANSWER - probe->answer_len);

    ngx_memcpy(probe->answer + probe->answer_len, buf, n);
    probe->answer_len += n;

    http = &probe->http;
    rc = ngx_etcd_http_answer(http, probe->answer, probe->answer_len);

    full = (probe->answer_len == NGX_ETCD_PROBE_ANSWER);

    if (rc == NGX_ERROR || (full && http->status < 200)) {
        ngx_etcd_probe_unanswered(probe, NGX_ETCD_PROBE_INVALID,
                                  &ngx_etcd_probe_invalid);
        return;
    }

    enough = (probe->conf.bodyless && ngx_etcd_http_answer_begun(http));

    if (rc == NGX_OK || full || enough) {
        ngx_etcd_probe_answered(probe);
    }
}


static size_t
ngx_etcd_probe_output(void *data, u_char **buf)
{
    ngx_etcd_probe_t *probe = data;

    if (probe->sent) {
        return 0;
    }

    probe->sent = 1;
    *buf = probe->conf.request.data;

    return probe->conf.request.len;
}


/* The server has closed the connection, or it broke. */

static void
ngx_etcd_probe_failed(void *data, ngx_str_t *reason)
{
    ngx_etcd_probe_t *probe = data;

    ngx_etcd_probe_error_e  error;

    if (!probe->asking) {
        return;
    }

    if (!ngx_etcd_connection_accepted(probe->conn)) {
        error = NGX_ETCD_PROBE_CONNECT;

    } else if (!probe->connected) {
        error = NGX_ETCD_PROBE_TLS;

    } else if (ngx_etcd_http_answer_closed(&probe->http)) {
        ngx_etcd_probe_answered(probe);
        return;

    } else {
        error = NGX_ETCD_PROBE_CLOSED;
    }

    ngx_etcd_probe_unanswered(probe, error, reason);
}


static ngx_int_t
ngx_etcd_probe_connect(ngx_etcd_probe_t *probe)
{
    ngx_etcd_connection_conf_t  conf;

    ngx_memzero(&conf, sizeof(ngx_etcd_connection_conf_t));

    conf.addr = &probe->conf.addr;
    conf.ssl = probe->conf.ssl;
    conf.ssl_name = probe->conf.ssl_name;
    conf.connected = ngx_etcd_probe_connected;
    conf.received = ngx_etcd_probe_received;
    conf.output = ngx_etcd_probe_output;
    conf.failed = ngx_etcd_probe_failed;
    conf.data = probe;
    conf.buffer = NGX_ETCD_PROBE_BUFFER;

    /* the connection puts its number into its log */

    probe->conn_log = *probe->log;

    probe->pool = ngx_create_pool(NGX_ETCD_PROBE_POOL, probe->log);
    if (probe->pool == NULL) {
        return NGX_ERROR;
    }

    probe->conn = ngx_etcd_connection_create(&conf, probe->pool,
                                             &probe->conn_log);

    return (probe->conn != NULL) ? NGX_OK : NGX_ERROR;
}


void
ngx_etcd_probe_send(ngx_etcd_probe_t *probe, ngx_etcd_probe_conf_t *conf)
{
    ngx_etcd_probe_cancel(probe);
    ngx_etcd_probe_begin(probe, conf);

    if (ngx_etcd_probe_connect(probe) != NGX_OK) {
        ngx_etcd_probe_unanswered(probe, NGX_ETCD_PROBE_RESOURCES,
                                  &ngx_etcd_probe_poor);
        return;
    }

    ngx_add_timer(&probe->timer, conf->timeout);
}


void
ngx_etcd_probe_cancel(ngx_etcd_probe_t *probe)
{
    if (probe->conn != NULL) {
        ngx_etcd_connection_close(probe->conn);
        probe->conn = NULL;
    }

    if (probe->pool != NULL) {
        ngx_destroy_pool(probe->pool);
        probe->pool = NULL;
    }

    ngx_etcd_event_stop(&probe->timer);
    ngx_etcd_event_stop(&probe->result);

    probe->asking = 0;
}
