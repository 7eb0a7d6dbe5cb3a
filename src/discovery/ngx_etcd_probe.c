
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_probe.h>


static ngx_int_t ngx_etcd_probe_request(ngx_etcd_probe_t *probe, char *path);
static ngx_int_t ngx_etcd_probe_connect(ngx_etcd_probe_t *probe);
static void ngx_etcd_probe_release(ngx_etcd_probe_t *probe);
static void ngx_etcd_probe_connected(void *data);
static void ngx_etcd_probe_received(void *data, u_char *buf, size_t n);
static size_t ngx_etcd_probe_output(void *data, u_char **buf);
static void ngx_etcd_probe_failed(void *data, ngx_str_t *reason);
static void ngx_etcd_probe_timer(ngx_event_t *ev);
static void ngx_etcd_probe_ended(ngx_etcd_probe_t *probe, ngx_str_t *reason);
static void ngx_etcd_probe_answered(ngx_etcd_probe_t *probe);
static void ngx_etcd_probe_unanswered(ngx_etcd_probe_t *probe,
    ngx_str_t *reason);
static void ngx_etcd_probe_result(ngx_event_t *ev);


void
ngx_etcd_probe_start(ngx_etcd_probe_t *probe, ngx_etcd_probe_target_t *target,
    char *path, ngx_msec_t timeout)
{
    ngx_str_t  reason;

    ngx_etcd_probe_cancel(probe);

    probe->target = *target;

    probe->timer.handler = ngx_etcd_probe_timer;
    probe->timer.data = probe;
    probe->timer.log = probe->log;
    probe->timer.cancelable = 1;

    probe->result.handler = ngx_etcd_probe_result;
    probe->result.data = probe;
    probe->result.log = probe->log;

    probe->asking = 1;
    probe->sent = 0;
    probe->answer_len = 0;

    if (ngx_etcd_probe_request(probe, path) != NGX_OK) {
        ngx_str_set(&reason, "the host name is too long");
        ngx_etcd_probe_unanswered(probe, &reason);
        return;
    }

    if (ngx_etcd_probe_connect(probe) != NGX_OK) {
        ngx_str_set(&reason, "no resources to connect");
        ngx_etcd_probe_unanswered(probe, &reason);
        return;
    }

    ngx_add_timer(&probe->timer, timeout);
}


static ngx_int_t
ngx_etcd_probe_request(ngx_etcd_probe_t *probe, char *path)
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

    probe->addr.name.data = p;

    p = ngx_slprintf(p, last, "%s%V%s:%ui", v6 ? "[" : "", &host,
                     v6 ? "]" : "", (ngx_uint_t) target->port);

    probe->addr.name.len = p - probe->addr.name.data;

    p = ngx_slprintf(p, last, CRLF "Connection: close" CRLF CRLF);

    probe->request_len = p - probe->request;

    return (p < last) ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_etcd_probe_connect(ngx_etcd_probe_t *probe)
{
    ngx_etcd_connection_conf_t  conf;

    probe->addr.sockaddr = &probe->target.sockaddr.sockaddr;
    probe->addr.socklen = probe->target.socklen;

    ngx_memzero(&conf, sizeof(ngx_etcd_connection_conf_t));

    conf.addr = &probe->addr;
    conf.ssl = probe->target.ssl;
    conf.ssl_name.data = probe->target.host;
    conf.ssl_name.len = probe->target.host_len;
    conf.connected = ngx_etcd_probe_connected;
    conf.received = ngx_etcd_probe_received;
    conf.output = ngx_etcd_probe_output;
    conf.failed = ngx_etcd_probe_failed;
    conf.data = probe;

    /* the connection puts its number into its log */

    probe->conn_log = *probe->log;

    probe->pool = ngx_create_pool(1024, probe->log);
    if (probe->pool == NULL) {
        return NGX_ERROR;
    }

    probe->conn = ngx_etcd_connection_create(&conf, probe->pool,
                                             &probe->conn_log);

    return (probe->conn != NULL) ? NGX_OK : NGX_ERROR;
}


void
ngx_etcd_probe_cancel(ngx_etcd_probe_t *probe)
{
    ngx_etcd_probe_release(probe);

    if (probe->timer.timer_set) {
        ngx_del_timer(&probe->timer);
    }

    if (probe->result.posted) {
        ngx_delete_posted_event(&probe->result);
    }

    probe->asking = 0;
}


/* Must not be called in a handler of the connection: frees its memory. */

static void
ngx_etcd_probe_release(ngx_etcd_probe_t *probe)
{
    if (probe->conn != NULL) {
        ngx_etcd_connection_close(probe->conn);
        probe->conn = NULL;
    }

    if (probe->pool != NULL) {
        ngx_destroy_pool(probe->pool);
        probe->pool = NULL;
    }
}


static void
ngx_etcd_probe_connected(void *data)
{
    ngx_etcd_probe_t *probe = data;

    ngx_etcd_connection_flush(probe->conn);
}


static void
ngx_etcd_probe_received(void *data, u_char *buf, size_t n)
{
    ngx_etcd_probe_t *probe = data;

    if (!probe->asking) {
        return;
    }

    n = ngx_min(n, NGX_ETCD_PROBE_ANSWER - probe->answer_len);

    ngx_memcpy(probe->answer + probe->answer_len, buf, n);
    probe->answer_len += n;

    if (probe->answer_len == NGX_ETCD_PROBE_ANSWER) {
        ngx_etcd_connection_close(probe->conn);
        ngx_etcd_probe_ended(probe, NULL);
    }
}


static size_t
ngx_etcd_probe_output(void *data, u_char **buf)
{
    ngx_etcd_probe_t *probe = data;

    size_t  n;

    n = probe->request_len - probe->sent;

    *buf = probe->request + probe->sent;
    probe->sent = probe->request_len;

    return n;
}


/* The server has closed the connection, as requested, or it broke. */

static void
ngx_etcd_probe_failed(void *data, ngx_str_t *reason)
{
    ngx_etcd_probe_t *probe = data;

    if (probe->asking) {
        ngx_etcd_probe_ended(probe, reason);
    }
}


/* A server may keep the connection open after its answer. */

static void
ngx_etcd_probe_timer(ngx_event_t *ev)
{
    ngx_str_t          reason;
    ngx_etcd_probe_t  *probe;

    probe = ev->data;

    if (probe->asking) {
        ngx_str_set(&reason, "no answer in time");
        ngx_etcd_probe_ended(probe, &reason);
    }
}


static void
ngx_etcd_probe_ended(ngx_etcd_probe_t *probe, ngx_str_t *reason)
{
    size_t      len;
    ngx_int_t   status;
    ngx_str_t   none;

    probe->asking = 0;

    len = sizeof("HTTP/1.1 200") - 1;

    if (probe->answer_len < len) {
        ngx_str_set(&none, "no answer");
        ngx_etcd_probe_unanswered(probe, reason ? reason : &none);
        return;
    }

    status = ngx_atoi(probe->answer + len - 3, 3);

    if (ngx_strncmp(probe->answer, "HTTP/1.", 7) != 0 || status < 100) {
        ngx_str_set(&none, "the answer is not one of HTTP/1.1");
        ngx_etcd_probe_unanswered(probe, &none);
        return;
    }

    probe->status = status;

    ngx_etcd_probe_answered(probe);
}


static void
ngx_etcd_probe_answered(ngx_etcd_probe_t *probe)
{
    u_char  *p, *last;

    last = probe->answer + probe->answer_len;

    ngx_str_null(&probe->text);

    p = ngx_strlcasestrn(probe->answer, last, (u_char *) CRLF CRLF, 4 - 1);

    if (p != NULL) {
        probe->text.data = p + 4;
        probe->text.len = last - probe->text.data;
    }

    ngx_post_event(&probe->result, &ngx_posted_events);
}


/* Copies the reason, which may be in memory of the connection. */

static void
ngx_etcd_probe_unanswered(ngx_etcd_probe_t *probe, ngx_str_t *reason)
{
    probe->status = 0;

    probe->text.len = ngx_min(reason->len, NGX_ETCD_PROBE_ANSWER);
    probe->text.data = probe->answer;

    ngx_memmove(probe->answer, reason->data, probe->text.len);

    ngx_post_event(&probe->result, &ngx_posted_events);
}


static void
ngx_etcd_probe_result(ngx_event_t *ev)
{
    ngx_etcd_probe_t  *probe;

    probe = ev->data;

    ngx_etcd_probe_cancel(probe);

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, probe->log, 0,
                   "etcd probe %V: status %ui", &probe->addr.name,
                   probe->status);

    probe->done(probe->data, probe->status, &probe->text);
}
