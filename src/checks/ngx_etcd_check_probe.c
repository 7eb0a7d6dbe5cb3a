
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_check_probe.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_member.h>


/* bytes of an answer, which is a number */

#define NGX_ETCD_CHECK_GRPC_MESSAGE  1024

/* HealthCheckResponse.ServingStatus */

#define NGX_ETCD_CHECK_GRPC_SERVING  1


static ngx_etcd_check_result_e  ngx_etcd_check_probe_results[] = {
    NGX_ETCD_CHECK_OK,
    NGX_ETCD_CHECK_CONNECT,
    NGX_ETCD_CHECK_TLS,
    NGX_ETCD_CHECK_TIMEOUT,
    NGX_ETCD_CHECK_CLOSED,
    NGX_ETCD_CHECK_INVALID,
    NGX_ETCD_CHECK_NONE                  /* NGX_ETCD_PROBE_RESOURCES */
};


static ngx_str_t  ngx_etcd_check_grpc_none = ngx_string("");


static void
ngx_etcd_check_grpc_close(ngx_etcd_check_grpc_t *grpc)
{
    ngx_etcd_http2_t  *h2;

    h2 = grpc->h2;
    grpc->h2 = NULL;

    if (h2 != NULL) {
        ngx_etcd_grpc_cancel(&grpc->call);
        ngx_etcd_http2_close(h2);
    }
}


/* The first result counts: the time may be up before its event is handled. */

static void
ngx_etcd_check_grpc_end(ngx_etcd_check_grpc_t *grpc,
    ngx_etcd_check_result_e result, ngx_str_t *text)
{
    if (grpc->ended.posted) {
        return;
    }

    grpc->result = result;
    grpc->len = ngx_min(text->len, sizeof(grpc->bytes));

    ngx_memcpy(grpc->bytes, text->data, grpc->len);

    /* SETTINGS ACK and RST_STREAM are not worth a packet before the end */

    ngx_etcd_check_grpc_close(grpc);

    ngx_post_event(&grpc->ended, &ngx_posted_events);
}


static void
ngx_etcd_check_grpc_timer(ngx_event_t *ev)
{
    ngx_etcd_check_grpc_end(ev->data, NGX_ETCD_CHECK_TIMEOUT,
                            &ngx_etcd_check_grpc_none);
}


/* May be called at any time: done() is not called any more. */

static void
ngx_etcd_check_grpc_cancel(ngx_etcd_check_grpc_t *grpc)
{
    ngx_etcd_event_stop(&grpc->timer);
    ngx_etcd_event_stop(&grpc->ended);

    ngx_etcd_check_grpc_close(grpc);
}


static void
ngx_etcd_check_grpc_ended(ngx_event_t *ev)
{
    ngx_str_t               why;
    ngx_etcd_check_grpc_t  *grpc;

    grpc = ev->data;

    ngx_etcd_check_grpc_cancel(grpc);

    why.data = grpc->bytes;
    why.len = grpc->len;

    grpc->done(grpc->data, grpc->result, grpc->status, &why);
}


static ngx_int_t
ngx_etcd_check_grpc_message(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool)
{
    ngx_etcd_check_grpc_t *grpc = call->data;

    grpc->answered = 1;
    grpc->serving = ((Etcd__HealthCheckResponse *) message)->status;

    return NGX_OK;
}


static void
ngx_etcd_check_grpc_done(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_etcd_check_grpc_t *grpc = call->data;

    ngx_etcd_check_result_e  result;

    if (ngx_etcd_http2_ended(grpc->h2)) {

        /* closed() follows and says why */

        return;
    }

    if (status != NGX_ETCD_GRPC_OK) {
        grpc->status = status;
        result = NGX_ETCD_CHECK_GRPC_STATUS;

    } else if (!grpc->answered) {
        result = NGX_ETCD_CHECK_INVALID;

    } else {
        result = (grpc->serving == NGX_ETCD_CHECK_GRPC_SERVING)
                 ? NGX_ETCD_CHECK_OK : NGX_ETCD_CHECK_NOT_SERVING;
    }

    ngx_etcd_check_grpc_end(grpc, result, text);
}


static void
ngx_etcd_check_grpc_ready(void *data)
{
    ngx_etcd_check_grpc_t *grpc = data;

    ngx_etcd_grpc_call_t  *call;

    grpc->connected = 1;

    etcd__health_check_request__init(&grpc->request);

    grpc->request.service = ngx_etcd_bytes(&grpc->conf->service);

    call = &grpc->call;

    call->method = "/grpc.health.v1.Health/Check";
    call->response = &etcd__health_check_response__descriptor;
    call->timeout = grpc->conf->timeout;
    call->message = ngx_etcd_check_grpc_message;
    call->done = ngx_etcd_check_grpc_done;
    call->data = grpc;

    if (ngx_etcd_grpc_request(grpc->h2, call, &grpc->request.base) != NGX_OK) {
        ngx_etcd_check_grpc_end(grpc, NGX_ETCD_CHECK_NONE,
                                &ngx_etcd_check_grpc_none);
    }
}


static void
ngx_etcd_check_grpc_closed(void *data, ngx_str_t *reason)
{
    ngx_etcd_check_grpc_t *grpc = data;

    ngx_etcd_check_result_e  result;

    grpc->h2 = NULL;

    if (grpc->connected) {
        result = NGX_ETCD_CHECK_CLOSED;

    } else if (ngx_strncmp(reason->data, "connect()", ngx_min(reason->len, 9))
               == 0)
    {
        result = NGX_ETCD_CHECK_CONNECT;

    } else {
        result = grpc->conf->ssl ? NGX_ETCD_CHECK_TLS : NGX_ETCD_CHECK_CLOSED;
    }

    ngx_etcd_check_grpc_end(grpc, result, reason);
}


static void
ngx_etcd_check_grpc_start(ngx_etcd_check_grpc_t *grpc)
{
    ngx_etcd_http2_conf_t  conf;

    ngx_etcd_event_init_timer(&grpc->timer, ngx_etcd_check_grpc_timer, grpc,
                              grpc->log);

    ngx_etcd_event_init(&grpc->ended, ngx_etcd_check_grpc_ended, grpc,
                        grpc->log);

    ngx_memzero(&conf, sizeof(ngx_etcd_http2_conf_t));

    conf.addr = &grpc->addr;
    conf.authority = grpc->conf->authority;
    conf.name = grpc->addr.name;
    conf.ssl = grpc->conf->ssl;
    conf.ssl_name = grpc->conf->ssl_name;
    conf.max_message_size = NGX_ETCD_CHECK_GRPC_MESSAGE;
    conf.brief = 1;
    conf.ready = ngx_etcd_check_grpc_ready;
    conf.closed = ngx_etcd_check_grpc_closed;
    conf.data = grpc;

    grpc->h2 = ngx_etcd_http2_connect(&conf, grpc->log);

    if (grpc->h2 == NULL) {
        ngx_etcd_check_grpc_end(grpc, NGX_ETCD_CHECK_NONE,
                                &ngx_etcd_check_grpc_none);
        return;
    }

    ngx_add_timer(&grpc->timer, grpc->conf->timeout);
}


ngx_int_t
ngx_etcd_check_probe_member(ngx_etcd_check_probe_t *probe,
    ngx_etcd_service_conf_t *conf)
{
    ngx_int_t                rc;
    ngx_etcd_slot_t         *member;
    ngx_etcd_member_pack_t   record;

    rc = ngx_etcd_zone_lock_owned(conf->zone, 0);
    if (rc != NGX_OK) {
        return rc;
    }

    member = ngx_etcd_member_set_slot(conf->set, probe->slot);

    if (member->entry == NULL || member->uid != probe->uid) {
        ngx_etcd_zone_unlock(conf->zone);
        return NGX_DECLINED;
    }

    ngx_etcd_member_pack_read(&record, ngx_etcd_entry_payload(member->entry));

    ngx_memcpy(&probe->sockaddr, record.sockaddr, record.socklen);
    probe->socklen = record.socklen;

    ngx_memcpy(probe->name_text, record.name.data, record.name.len);
    probe->name.data = probe->name_text;
    probe->name.len = record.name.len;

    ngx_etcd_zone_unlock(conf->zone);

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_check_probe_wanted(ngx_etcd_slot_t *slot, ngx_uint_t *drains)
{
    ngx_etcd_member_pack_t  record;

    *drains = 0;

    if (slot->entry == NULL) {
        return 0;
    }

    ngx_etcd_member_pack_read(&record, ngx_etcd_entry_payload(slot->entry));

    *drains = record.attr.drain;

    return !record.attr.down && !record.unresolved;
}


ngx_etcd_check_probe_t *
ngx_etcd_check_probe_create(ngx_etcd_check_conf_t *conf, ngx_log_t *log)
{
    ngx_etcd_check_probe_t  *probe;

    probe = ngx_calloc(sizeof(ngx_etcd_check_probe_t), log);

    if (probe != NULL) {
        probe->conf = conf;
        probe->log = log;

        conf->running++;
    }

    return probe;
}


void
ngx_etcd_check_probe_stop(ngx_etcd_check_probe_t *probe)
{
    probe->conf->running--;

    if (probe->conf->type == NGX_ETCD_CHECK_GRPC) {
        ngx_etcd_check_grpc_cancel(&probe->u.grpc);

    } else {
        ngx_etcd_probe_cancel(&probe->u.http);
    }

    ngx_free(probe);
}


static void
ngx_etcd_check_probe_end(ngx_etcd_check_probe_t *probe, ngx_str_t *text)
{
    probe->took = ngx_etcd_time_budget_now() - probe->begun;

    probe->done(probe, text);

    ngx_etcd_check_probe_stop(probe);
}


static void
ngx_etcd_check_probe_called(void *data, ngx_etcd_check_result_e result,
    ngx_uint_t status, ngx_str_t *text)
{
    ngx_etcd_check_probe_t *probe = data;

    probe->status = status;
    probe->result = result;

    ngx_etcd_check_probe_end(probe, text);
}


static void
ngx_etcd_check_probe_call(ngx_etcd_check_probe_t *probe)
{
    ngx_etcd_check_grpc_t  *grpc;

    grpc = &probe->u.grpc;

    grpc->conf = probe->conf;
    grpc->addr.sockaddr = &probe->sockaddr.sockaddr;
    grpc->addr.socklen = probe->socklen;
    grpc->addr.name = probe->name;
    grpc->log = probe->log;
    grpc->done = ngx_etcd_check_probe_called;
    grpc->data = probe;

    ngx_etcd_check_grpc_start(grpc);
}


static ngx_uint_t
ngx_etcd_check_probe_matches(ngx_etcd_check_conf_t *conf, ngx_str_t *body)
{
    ngx_str_t  *match;

    match = &conf->match;

    if (match->len == 0) {
        return 1;
    }

#if (NGX_PCRE)

    if (conf->regex != NULL) {
        return ngx_regex_exec(conf->regex, body, NULL, 0) >= 0;
    }

#endif

    return memmem(body->data, body->len, match->data, match->len) != NULL;
}


static ngx_etcd_check_result_e
ngx_etcd_check_probe_judge(ngx_etcd_check_probe_t *probe, ngx_str_t *body)
{
    ngx_etcd_check_conf_t  *conf;

    conf = probe->conf;

    if (conf->type == NGX_ETCD_CHECK_TCP) {
        return NGX_ETCD_CHECK_OK;
    }

    if (probe->status < conf->lowest || probe->status > conf->highest) {
        return NGX_ETCD_CHECK_STATUS;
    }

    return ngx_etcd_check_probe_matches(conf, body) ? NGX_ETCD_CHECK_OK
                                                    : NGX_ETCD_CHECK_BODY;
}


static void
ngx_etcd_check_probe_done(void *data, ngx_uint_t status, ngx_str_t *text)
{
    ngx_etcd_check_probe_t *probe = data;

    probe->status = status;
    probe->result = ngx_etcd_check_probe_results[probe->u.http.error];

    if (probe->result == NGX_ETCD_CHECK_OK) {
        probe->result = ngx_etcd_check_probe_judge(probe, text);
    }

    if (status != 0) {

        /* the body of an answer is no reason */

        text->len = 0;
    }

    ngx_etcd_check_probe_end(probe, text);
}


static void
ngx_etcd_check_probe_ask(ngx_etcd_check_probe_t *probe)
{
    ngx_etcd_probe_conf_t   ask;
    ngx_etcd_check_conf_t  *conf;

    conf = probe->conf;

    probe->u.http.log = probe->log;
    probe->u.http.done = ngx_etcd_check_probe_done;
    probe->u.http.data = probe;

    ask.addr.sockaddr = &probe->sockaddr.sockaddr;
    ask.addr.socklen = probe->socklen;
    ask.addr.name = probe->name;
    ask.ssl = conf->ssl;
    ask.ssl_name = conf->ssl_name;
    ask.request = conf->request;
    ask.bodyless = (conf->match.len == 0);
    ask.timeout = conf->timeout;

    ngx_etcd_probe_send(&probe->u.http, &ask);
}


void
ngx_etcd_check_probe_start(ngx_etcd_check_probe_t *probe)
{
    ngx_etcd_check_conf_t  *conf;

    conf = probe->conf;

    /* a unix-domain socket has no port */

    if (conf->port != 0 && probe->sockaddr.sockaddr.sa_family != AF_UNIX) {
        ngx_inet_set_port(&probe->sockaddr.sockaddr, conf->port);
    }

    probe->begun = ngx_etcd_time_budget_now();

    if (conf->type == NGX_ETCD_CHECK_GRPC) {
        ngx_etcd_check_probe_call(probe);

    } else {
        ngx_etcd_check_probe_ask(probe);
    }
}
