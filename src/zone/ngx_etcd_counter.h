
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Numbers in shared memory, which all processes count without a lock: counters
 * of a member, sums over processes, and histograms of durations.
 */


#ifndef _NGX_ETCD_COUNTER_H_INCLUDED_
#define _NGX_ETCD_COUNTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef volatile uint64_t  ngx_etcd_atomic64_t;


/*
 * A counter of a member has the member's unique id in the upper half, the
 * number in the lower half.  A stale pointer to the slot of another member
 * changes nothing.
 *
 * Returns the number; 0 if the member is gone.
 */

static ngx_inline ngx_uint_t
ngx_etcd_counter_get(ngx_etcd_atomic64_t *word, uint32_t uid)
{
    uint64_t  value;

    value = __atomic_load_n(word, __ATOMIC_RELAXED);

    return (value >> 32 == uid) ? (ngx_uint_t) (value & 0xffffffff) : 0;
}


/*
 * Adds n, but not below 0, and returns the new number; 0 if the member is
 * gone.
 */
static ngx_inline ngx_uint_t
ngx_etcd_counter_add(ngx_etcd_atomic64_t *word, uint32_t uid, ngx_int_t n)
{
    uint32_t  number;
    uint64_t  value;

    value = __atomic_load_n(word, __ATOMIC_RELAXED);

    do {
        if (value >> 32 != uid) {
            return 0;
        }

        number = (uint32_t) value;

        if (n < 0 && number < (uint32_t) -n) {
            number = 0;

        } else {
            number += n;
        }

    } while (!__atomic_compare_exchange_n(word, &value,
                                          (uint64_t) uid << 32 | number, 1,
                                          __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));

    return number;
}


void ngx_etcd_counter_set(ngx_etcd_atomic64_t *word, uint32_t uid, uint32_t n);

/*
 * For a word of bits: sets and clears some.  Returns 1 if that has changed the
 * word; 0 also if the member is gone.
 */
ngx_uint_t ngx_etcd_counter_bits(ngx_etcd_atomic64_t *word, uint32_t uid,
    uint32_t set, uint32_t clear);


/*
 * A number in shared memory that is the sum of all processes: each process
 * writes its own share, without a lock.  The share of a dead process is not
 * counted.
 */

/* A sum over processes.  All zero: no process has a share. */

typedef struct {
    ngx_etcd_atomic64_t shares[NGX_MAX_PROCESSES];     /* pid << 32 | number */
} ngx_etcd_gauge_t;


/* Sets the share of the calling process. */
void ngx_etcd_gauge_set(ngx_etcd_gauge_t *gauge, uint32_t n);

ngx_uint_t ngx_etcd_gauge_sum(ngx_etcd_gauge_t *gauge);


#define NGX_ETCD_HISTOGRAM_BOUNDS  12


/* A histogram of durations.  All zero: no samples. */

typedef struct {
    volatile uint64_t    counts[NGX_ETCD_HISTOGRAM_BOUNDS + 1];
    volatile uint64_t    sum;                               /* us */
} ngx_etcd_histogram_t;


/*
 * Upper bounds in us, ascending.  counts[i] counts samples above bound i - 1,
 * up to and including bound i; the last one counts all samples above.
 */

extern const uint64_t  ngx_etcd_change_bounds[NGX_ETCD_HISTOGRAM_BOUNDS];
extern const uint64_t  ngx_etcd_answer_bounds[NGX_ETCD_HISTOGRAM_BOUNDS];


/* The index of the count that a duration belongs to. */

static ngx_inline ngx_uint_t
ngx_etcd_histogram_place(const uint64_t *bounds, uint64_t us)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_HISTOGRAM_BOUNDS && us > bounds[i]; i++) {
        /* void */
    }

    return i;
}


/* Adds the time until a change was seen. */
void ngx_etcd_histogram_add(ngx_etcd_histogram_t *histogram, uint64_t us);


#endif /* _NGX_ETCD_COUNTER_H_INCLUDED_ */
