
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A histogram of durations in shared memory, updated by all processes without
 * a lock.
 */


#ifndef _NGX_ETCD_HISTOGRAM_H_INCLUDED_
#define _NGX_ETCD_HISTOGRAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_HISTOGRAM_BOUNDS  12


/* All zero: no samples. */

typedef struct {
    volatile uint64_t    counts[NGX_ETCD_HISTOGRAM_BOUNDS + 1];
    volatile uint64_t    sum;                               /* us */
} ngx_etcd_histogram_t;


/*
 * Upper bounds in us, ascending.  counts[i] counts samples above bound i - 1,
 * up to and including bound i; the last one counts all samples above.
 */

extern const uint64_t  ngx_etcd_histogram_bounds[NGX_ETCD_HISTOGRAM_BOUNDS];


void ngx_etcd_histogram_add(ngx_etcd_histogram_t *histogram, uint64_t us);


#endif /* _NGX_ETCD_HISTOGRAM_H_INCLUDED_ */
