
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The clock for deadlines and proofs of freshness.  The clock is read at each
 * call, because nginx's cached time is stale after a pause.  CLOCK_BOOTTIME
 * is used because a lease also expires while the machine is suspended.  All
 * processes of a machine see the same clock: readings may be shared.
 */


#ifndef _NGX_ETCD_CLOCK_H_INCLUDED_
#define _NGX_ETCD_CLOCK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* Returns milliseconds since boot, suspend included; never 0. */

static ngx_inline uint64_t
ngx_etcd_clock(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_BOOTTIME, &ts);

    return (uint64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + 1;
}


#endif /* _NGX_ETCD_CLOCK_H_INCLUDED_ */
