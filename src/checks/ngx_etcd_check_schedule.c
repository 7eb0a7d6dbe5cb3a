
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check_schedule.h>


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
