
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_check_probe.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_member.h>


static ngx_etcd_check_result_e  ngx_etcd_check_probe_results[] = {
    NGX_ETCD_CHECK_OK,
    NGX_ETCD_CHECK_CONNECT,
    NGX_ETCD_CHECK_TLS,
    NGX_ETCD_CHECK_TIMEOUT,
    NGX_ETCD_CHECK_CLOSED,
    NGX_ETCD_CHECK_INVALID,
    NGX_ETCD_CHECK_NONE                  /* NGX_ETCD_PROBE_RESOURCES */
};


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
