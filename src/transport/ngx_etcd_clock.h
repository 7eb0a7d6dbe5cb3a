
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The clock that deadlines and proofs of freshness are counted by: read
 * afresh, since nginx's cached time is old after a pause, and CLOCK_BOOTTIME,
 * since a lease goes on to expire while the machine sleeps.  It is the same
 * in all processes of a machine, so its readings may be shared.
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
