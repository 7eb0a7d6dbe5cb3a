
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The time budget of work that blocks the event loop.
 */


#ifndef _NGX_ETCD_TIME_BUDGET_H_INCLUDED_
#define _NGX_ETCD_TIME_BUDGET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* us of work at a time; at least one step is done */

#define NGX_ETCD_TIME_BUDGET  400


/* Returns microseconds of the monotonic clock. */

static ngx_inline uint64_t
ngx_etcd_time_budget_now(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}


#endif /* _NGX_ETCD_TIME_BUDGET_H_INCLUDED_ */
