
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_probe.h>


static void ngx_etcd_probe_attempt(ngx_etcd_probe_t *probe);
static void ngx_etcd_probe_release(ngx_etcd_probe_t *probe);
static void ngx_etcd_probe_connected(void *data);
static void ngx_etcd_probe_received(void *data, u_char *buf, size_t n);
static void ngx_etcd_probe_ended(ngx_etcd_probe_t *probe, ngx_str_t *reason);
static size_t ngx_etcd_probe_output(void *data, u_char **buf);
static void ngx_etcd_probe_failed(void *data, ngx_str_t *reason);
static void ngx_etcd_probe_again(ngx_etcd_probe_t *probe, ngx_str_t *reason);
static void ngx_etcd_probe_timer(ngx_event_t *ev);
static void ngx_etcd_probe_result(ngx_event_t *ev);


ngx_int_t
ngx_etcd_probe_start(ngx_etcd_probe_t *probe, struct sockaddr *sockaddr,
    socklen_t socklen, ngx_str_t *host, char *path)
{
    u_char  *p, *last;

    ngx_etcd_probe_cancel(probe);

    last = probe->request + NGX_ETCD_PROBE_REQUEST;

    p = ngx_slprintf(probe->request, last,
                     "GET %s HTTP/1.1" CRLF
                     "Host: %V" CRLF
                     "Connection: close" CRLF CRLF, path, host);

    if (p == last) {
        return NGX_ERROR;
    }

    probe->request_len = p - probe->request;

    /* the host as a log may show it, where it stays */

    probe->addr.name.data = p - sizeof(CRLF "Connection: close" CRLF CRLF) + 1
                            - host->len;
    probe->addr.name.len = host->len;

    ngx_memcpy(&probe->sockaddr, sockaddr, socklen);
    probe->addr.sockaddr = &probe->sockaddr.sockaddr;
    probe->addr.socklen = socklen;

    probe->timer.handler = ngx_etcd_probe_timer;
    probe->timer.data = probe;
    probe->timer.log = probe->log;
    probe->timer.cancelable = 1;

    probe->result.handler = ngx_etcd_probe_result;
    probe->result.data = probe;
    probe->result.log = probe->log;

    probe->started = ngx_current_msec;
    probe->late = 0;

    ngx_etcd_probe_attempt(probe);

    return NGX_OK;
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

    probe->state = NGX_ETCD_PROBE_IDLE;
}


static void
ngx_etcd_probe_attempt(ngx_etcd_probe_t *probe)
{
    ngx_str_t                   reason;
    ngx_etcd_connection_conf_t  conf;

    probe->sent = 0;
    probe->answer_len = 0;
    probe->state = NGX_ETCD_PROBE_ASKING;

    ngx_memzero(&conf, sizeof(ngx_etcd_connection_conf_t));

    conf.addr = &probe->addr;
    conf.connected = ngx_etcd_probe_connected;
    conf.received = ngx_etcd_probe_received;
    conf.output = ngx_etcd_probe_output;
    conf.failed = ngx_etcd_probe_failed;
    conf.data = probe;

    /* the connection puts its number into its log */

    probe->conn_log = *probe->log;
    probe->pool = ngx_create_pool(1024, probe->log);

    if (probe->pool != NULL) {
        probe->conn = ngx_etcd_connection_create(&conf, probe->pool,
                                                 &probe->conn_log);
    }

    if (probe->conn == NULL) {
        ngx_str_set(&reason, "no resources to connect");
        ngx_etcd_probe_again(probe, &reason);
        return;
    }

    ngx_add_timer(&probe->timer, NGX_ETCD_PROBE_TIMEOUT);
}


/* not in a handler of the connection, whose memory is the pool's */

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

    if (probe->state != NGX_ETCD_PROBE_ASKING) {
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


/* the server has closed the connection, as it was asked to, or it broke */

static void
ngx_etcd_probe_ended(ngx_etcd_probe_t *probe, ngx_str_t *reason)
{
    size_t     len;
    u_char    *p, *last;
    ngx_str_t  body, line;

    p = probe->answer;
    last = p + probe->answer_len;
    len = sizeof("HTTP/1.1 200") - 1;

    if (probe->answer_len < len) {
        ngx_str_set(&line, "no answer");
        ngx_etcd_probe_again(probe, reason ? reason : &line);
        return;
    }

    line.data = p;
    line.len = len;

    ngx_str_null(&body);

    p = ngx_strlcasestrn(p, last, (u_char *) CRLF CRLF, 4 - 1);

    if (p != NULL) {
        body.data = p + 4;
        body.len = last - body.data;
    }

    if (ngx_strncmp(line.data, "HTTP/1.", 7) != 0
        || ngx_strncmp(line.data + 8, " 200", 4) != 0
        || !probe->accept(&body))
    {
        ngx_etcd_probe_again(probe, &line);
        return;
    }

    if (probe->timer.timer_set) {
        ngx_del_timer(&probe->timer);
    }

    probe->state = NGX_ETCD_PROBE_CONFIRMED;
    ngx_post_event(&probe->result, &ngx_posted_events);
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


static void
ngx_etcd_probe_failed(void *data, ngx_str_t *reason)
{
    ngx_etcd_probe_t *probe = data;

    if (probe->state == NGX_ETCD_PROBE_ASKING) {
        ngx_etcd_probe_ended(probe, reason);
    }
}


static void
ngx_etcd_probe_again(ngx_etcd_probe_t *probe, ngx_str_t *reason)
{
    ngx_msec_t  elapsed, interval;

    /* a promotion takes a tenth of a second, or else it takes longer */

    elapsed = ngx_current_msec - probe->started;
    interval = (elapsed < NGX_ETCD_PROBE_SOON) ? NGX_ETCD_PROBE_QUICK
                                               : NGX_ETCD_PROBE_OFTEN;

    if (elapsed >= NGX_ETCD_PROBE_BOUND) {
        interval = NGX_ETCD_PROBE_SELDOM;

        if (!probe->late) {
            probe->late = 1;
            ngx_log_error(NGX_LOG_ERR, probe->log, 0,
                          "etcd: %V has not confirmed that it leads within "
                          "%d s, and is not used until it does: %V",
                          &probe->addr.name, NGX_ETCD_PROBE_BOUND / 1000,
                          reason);
        }
    }

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, probe->log, 0,
                   "etcd probe %V: %V, again in %Mms", &probe->addr.name,
                   reason, interval);

    probe->state = NGX_ETCD_PROBE_WAITING;
    ngx_add_timer(&probe->timer, interval);
}


static void
ngx_etcd_probe_timer(ngx_event_t *ev)
{
    ngx_str_t          reason;
    ngx_etcd_probe_t  *probe;

    probe = ev->data;

    ngx_etcd_probe_release(probe);

    /* a server may keep a connection, whatever it was asked */

    if (probe->state == NGX_ETCD_PROBE_ASKING) {
        ngx_str_set(&reason, "no answer in time");
        ngx_etcd_probe_ended(probe, &reason);
        return;
    }

    ngx_etcd_probe_attempt(probe);
}


static void
ngx_etcd_probe_result(ngx_event_t *ev)
{
    ngx_etcd_probe_t  *probe;

    probe = ev->data;

    ngx_etcd_probe_release(probe);

    probe->confirmed(probe->data);
}
