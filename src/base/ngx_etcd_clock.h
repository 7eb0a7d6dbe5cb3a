
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


/*
 * The time budget of work that blocks the event loop.
 */

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


/*
 * How long etcd lately needed for a write.
 *
 * A write waits for the disks of a quorum, and a read for the writes before it.
 * If all disks are slow, an attempt that is shorter than a write gets no
 * answer from any endpoint: it only makes etcd write once more, and makes
 * everything wait longer.  So attempts last at least twice as long as a write
 * has taken (compare the retransmission timeout of TCP, RFC 6298).
 *
 * Slowness is believed at once, and forgotten slowly: a quick write takes a
 * quarter of the difference off, and each minute halves what is left.
 */

#define NGX_ETCD_LATENCY_HALF  60000    /* ms */


typedef struct {
    ngx_msec_t                   time;         /* ms, as of "seen" */
    ngx_msec_t                   seen;         /* ngx_current_msec */
} ngx_etcd_latency_t;


/* a write was answered, "time" ms after its attempt was sent */
void ngx_etcd_latency_saw(ngx_etcd_latency_t *latency, ngx_msec_t time);

/* ms; 0: not known */
ngx_msec_t ngx_etcd_latency(ngx_etcd_latency_t *latency);

/*
 * Returns how many ms an attempt lasts that would last for "least" ms in an
 * etcd that is not slow, up to "most".
 */
ngx_msec_t ngx_etcd_latency_attempt(ngx_etcd_latency_t *latency,
    ngx_msec_t least, ngx_msec_t most);


#endif /* _NGX_ETCD_CLOCK_H_INCLUDED_ */
