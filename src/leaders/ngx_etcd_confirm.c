
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_confirm.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_str.h>


static void
ngx_etcd_confirm_ask(ngx_etcd_confirm_t *confirm)
{
    ngx_etcd_probe_start(&confirm->probe, &confirm->target, confirm->path,
                         NGX_ETCD_CONFIRM_TIMEOUT);
}


static void
ngx_etcd_confirm_timer(ngx_event_t *ev)
{
    ngx_etcd_confirm_t  *confirm;

    confirm = ev->data;

    if (confirm->used(confirm->data)) {
        ngx_etcd_confirm_ask(confirm);
    }
}


/* A promotion takes a tenth of a second, or much longer. */

static void
ngx_etcd_confirm_again(ngx_etcd_confirm_t *confirm, ngx_str_t *reason)
{
    ngx_msec_t  elapsed, interval;

    elapsed = ngx_current_msec - confirm->started;
    interval = (elapsed < NGX_ETCD_CONFIRM_SOON) ? NGX_ETCD_CONFIRM_QUICK
                                                 : NGX_ETCD_CONFIRM_OFTEN;

    if (elapsed >= NGX_ETCD_CONFIRM_BOUND) {
        interval = NGX_ETCD_CONFIRM_SELDOM;

        if (ngx_etcd_cause_level(&confirm->causes, 0, reason) == NGX_LOG_ERR) {
            ngx_log_error(NGX_LOG_ERR, confirm->log, 0,
                          "etcd: upstream \"%V\": leader %V of \"%V\" has not "
                          "confirmed that it leads within %d s, it is not "
                          "used: %V", confirm->upstream,
                          ngx_etcd_probe_name(&confirm->probe),
                          ngx_etcd_shown(confirm->prefix),
                          NGX_ETCD_CONFIRM_BOUND / 1000, reason);
        }
    }

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, confirm->log, 0,
                   "etcd confirm %V: %V, again in %Mms",
                   ngx_etcd_probe_name(&confirm->probe), reason, interval);

    ngx_add_timer(&confirm->timer, interval);
}


static void
ngx_etcd_confirm_done(void *data, ngx_uint_t status, ngx_str_t *text)
{
    ngx_etcd_confirm_t *confirm = data;

    ngx_str_t  reason;
    u_char     buf[sizeof("status 65535")];

    if (status == 0) {
        ngx_etcd_confirm_again(confirm, text);
        return;
    }

    if (status != 200 || !confirm->accept(text)) {
        reason.data = buf;
        reason.len = ngx_snprintf(buf, sizeof(buf), "status %ui", status)
                     - buf;

        ngx_etcd_confirm_again(confirm, &reason);
        return;
    }

    confirm->done = 1;
    confirm->confirmed(confirm->data);
}


void
ngx_etcd_confirm_start(ngx_etcd_confirm_t *confirm,
    ngx_etcd_probe_target_t *target)
{
    ngx_etcd_confirm_cancel(confirm);

    confirm->target = *target;

    ngx_etcd_event_init_timer(&confirm->timer, ngx_etcd_confirm_timer, confirm,
                              confirm->log);

    confirm->probe.log = confirm->log;
    confirm->probe.done = ngx_etcd_confirm_done;
    confirm->probe.data = confirm;

    confirm->started = ngx_current_msec;
    (void) ngx_etcd_cause_forget(&confirm->causes);

    ngx_etcd_confirm_ask(confirm);
}


void
ngx_etcd_confirm_cancel(ngx_etcd_confirm_t *confirm)
{
    ngx_etcd_probe_cancel(&confirm->probe);

    ngx_etcd_event_stop(&confirm->timer);

    confirm->done = 0;
}
