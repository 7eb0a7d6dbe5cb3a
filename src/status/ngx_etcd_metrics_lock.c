
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Metrics of locks.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_metrics.h>


static ngx_int_t ngx_etcd_metrics_each_lock(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family);

static uint64_t ngx_etcd_metrics_held(void *object);
static uint64_t ngx_etcd_metrics_waiting(void *object);
static uint64_t ngx_etcd_metrics_acquired(void *object);
static uint64_t ngx_etcd_metrics_timeouts(void *object);
static uint64_t ngx_etcd_metrics_lost(void *object);
static uint64_t ngx_etcd_metrics_handoffs(void *object);


const ngx_etcd_metrics_t  ngx_etcd_metrics_lock[] = {

    ngx_etcd_metrics_gauge("nginx_etcd_lock_held",
        "Requests that hold the lock.",
        ngx_etcd_metrics_each_lock, ngx_etcd_metrics_held),

    ngx_etcd_metrics_gauge("nginx_etcd_lock_waiting",
        "Requests that wait for the lock.",
        ngx_etcd_metrics_each_lock, ngx_etcd_metrics_waiting),

    ngx_etcd_metrics_counter("nginx_etcd_lock_acquired",
        "Requests that got the lock.",
        ngx_etcd_metrics_each_lock, ngx_etcd_metrics_acquired),

    ngx_etcd_metrics_counter("nginx_etcd_lock_timeouts",
        "Requests that did not get the lock in time.",
        ngx_etcd_metrics_each_lock, ngx_etcd_metrics_timeouts),

    ngx_etcd_metrics_counter("nginx_etcd_lock_lost",
        "Requests that lost the lock while they held it.",
        ngx_etcd_metrics_each_lock, ngx_etcd_metrics_lost),

    ngx_etcd_metrics_counter("nginx_etcd_lock_handoffs",
        "Requests that were handed the lock within a worker.",
        ngx_etcd_metrics_each_lock, ngx_etcd_metrics_handoffs),

    ngx_etcd_metrics_end
};


static ngx_int_t
ngx_etcd_metrics_each_lock(ngx_etcd_status_t *status,
    const ngx_etcd_metrics_t *family)
{
    ngx_int_t                rc;
    ngx_uint_t               n;
    ngx_etcd_status_lock_t   lock;
    ngx_etcd_metric_label_t  labels[NGX_ETCD_METRICS_LABELS];

    rc = ngx_etcd_status_lock(status, &lock);

    if (rc != NGX_OK) {
        return (rc == NGX_DECLINED) ? NGX_OK : rc;
    }

    n = ngx_etcd_metrics_label(labels, 0, "cluster", &lock.cluster->name);
    n = ngx_etcd_metrics_label(labels, n, "lock", &lock.name);

    return ngx_etcd_metrics_row(status, family, labels, n, &lock);
}


static uint64_t
ngx_etcd_metrics_held(void *object)
{
    ngx_etcd_status_lock_t *lock = object;

    return lock->held;
}


static uint64_t
ngx_etcd_metrics_waiting(void *object)
{
    ngx_etcd_status_lock_t *lock = object;

    return lock->waiting;
}


static uint64_t
ngx_etcd_metrics_acquired(void *object)
{
    ngx_etcd_status_lock_t *lock = object;

    return lock->acquired;
}


static uint64_t
ngx_etcd_metrics_timeouts(void *object)
{
    ngx_etcd_status_lock_t *lock = object;

    return lock->timeouts;
}


static uint64_t
ngx_etcd_metrics_lost(void *object)
{
    ngx_etcd_status_lock_t *lock = object;

    return lock->lost;
}


static uint64_t
ngx_etcd_metrics_handoffs(void *object)
{
    ngx_etcd_status_lock_t *lock = object;

    return lock->handoffs;
}
