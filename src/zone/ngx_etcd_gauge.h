
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A number in shared memory that is the sum of all processes: each process
 * writes its own share, without a lock.  The share of a dead process is not
 * counted.
 */


#ifndef _NGX_ETCD_GAUGE_H_INCLUDED_
#define _NGX_ETCD_GAUGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_zone.h>


/* A sum over processes.  All zero: no process has a share. */

typedef struct {
    ngx_etcd_atomic64_t shares[NGX_MAX_PROCESSES];     /* pid << 32 | number */
} ngx_etcd_gauge_t;


/* Sets the share of the calling process. */
void ngx_etcd_gauge_set(ngx_etcd_gauge_t *gauge, uint32_t n);

ngx_uint_t ngx_etcd_gauge_sum(ngx_etcd_gauge_t *gauge);


#endif /* _NGX_ETCD_GAUGE_H_INCLUDED_ */
