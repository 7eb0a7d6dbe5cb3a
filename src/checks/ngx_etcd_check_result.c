
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check_result.h>


void
ngx_etcd_check_panic(ngx_etcd_service_conf_t *conf, ngx_uint_t percent,
    ngx_uint_t n, ngx_uint_t nfailed, ngx_log_t *log)
{
    ngx_uint_t  panic;

    panic = ((n - nfailed) * 100 < n * percent);

    if (panic == conf->set->checks.panic
        || ngx_etcd_zone_lock_owned(conf->zone, 0) != NGX_OK)
    {
        return;
    }

    conf->set->checks.panic = panic;

    ngx_etcd_zone_unlock(conf->zone);

    if (panic) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "etcd: upstream \"%V\": panic, since checks of %ui of "
                      "%ui members fail: failed checks keep no requests off%s",
                      &conf->name, nfailed, n,
                      conf->line.next ? " unless another line takes them" : "");

    } else {
        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "etcd: upstream \"%V\": no panic any more, checks of %ui "
                      "of %ui members fail",
                      &conf->name, nfailed, n);
    }
}


static char  *ngx_etcd_check_results[] = {
    "none",
    "ok",
    "connect",
    "tls",
    "timeout",
    "closed",
    "invalid",
    "status",
    "body",
    "grpc status",
    "not serving"
};


void
ngx_etcd_check_result_text(ngx_uint_t result, ngx_uint_t status, u_char *buf,
    ngx_str_t *text)
{
    u_char  *p, *last;

    last = buf + NGX_ETCD_CHECK_RESULT_TEXT;

    if (result >= NGX_ETCD_CHECK_RESULTS) {
        result = NGX_ETCD_CHECK_NONE;
    }

    p = ngx_slprintf(buf, last, "%s", ngx_etcd_check_results[result]);

    if (result == NGX_ETCD_CHECK_STATUS || result == NGX_ETCD_CHECK_GRPC_STATUS)
    {
        p = ngx_slprintf(p, last, " %ui", status);
    }

    text->data = buf;
    text->len = p - buf;
}


/*
 * The first success proves a member.  One that has failed as often as it may
 * has to succeed several times.
 */

ngx_uint_t
ngx_etcd_check_result_count(ngx_etcd_check_conf_t *conf,
    ngx_etcd_check_row_t *row, ngx_uint_t ok, ngx_uint_t verdict)
{
    if (row->ok != ok) {
        row->ok = ok;
        row->row = 0;
    }

    if (row->row != NGX_MAX_UINT32_VALUE) {
        row->row++;
    }

    if (!ok) {
        return (row->row >= conf->fails) ? verdict | NGX_ETCD_VERDICT_FAILED
                                         : verdict;
    }

    if ((verdict & NGX_ETCD_VERDICT_FAILED) && row->row < conf->rises) {
        return verdict;
    }

    return verdict & ~(NGX_ETCD_VERDICT_FAILED|NGX_ETCD_VERDICT_UNPROVEN);
}


ngx_uint_t
ngx_etcd_check_result_open(ngx_etcd_check_row_t *row, ngx_uint_t verdict)
{
    return row->ok == ((verdict & NGX_ETCD_VERDICT_FAILED) != 0);
}


void
ngx_etcd_check_schedule_round(ngx_etcd_check_schedule_t *schedule,
    ngx_msec_t now, ngx_msec_t interval, ngx_uint_t jitter, ngx_uint_t random)
{
    ngx_msec_t  spread, end;

    end = schedule->begun + schedule->length;

    /* within a round of its end, and not in the future */

    schedule->begun = (schedule->length != 0 && now - end < schedule->length)
                      ? end : now;

    spread = interval * jitter / 100;

    schedule->length = ngx_max(interval - spread + random % (2 * spread + 1),
                               1);
    schedule->done = 0;
}


static ngx_msec_t
ngx_etcd_check_schedule_until(ngx_etcd_check_schedule_t *schedule,
    ngx_msec_t now, ngx_msec_t offset)
{
    ngx_msec_t  elapsed;

    elapsed = now - schedule->begun;

    return (elapsed < offset) ? offset - elapsed : 0;
}


ngx_msec_t
ngx_etcd_check_schedule_wait(ngx_etcd_check_schedule_t *schedule,
    ngx_msec_t now, ngx_uint_t n)
{
    if (schedule->done >= n) {
        return ngx_etcd_check_schedule_left(schedule, now);
    }

    return ngx_etcd_check_schedule_until(schedule, now, schedule->length
                                                        * schedule->done / n);
}


ngx_msec_t
ngx_etcd_check_schedule_left(ngx_etcd_check_schedule_t *schedule,
    ngx_msec_t now)
{
    return ngx_etcd_check_schedule_until(schedule, now, schedule->length);
}
