
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Patroni's failsafe mode: without etcd the primary stays the primary as long
 * as all members of the key "failsafe" answer it.  When etcd proves nothing
 * any more, the agent asks these members itself.  A stale leader stays in use
 * while its own API says that it is the primary and no other API says so.
 */


#ifndef _NGX_ETCD_FAILSAFE_H_INCLUDED_
#define _NGX_ETCD_FAILSAFE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_probe.h>
#include <ngx_etcd_service.h>


/*
 * Milliseconds between two checks of the staleness, between two rounds of
 * requests, and for one request.  A confirmation is valid for
 * NGX_ETCD_MEMBER_SET_FAILSAFE ms: a round in which the leader does not answer
 * can be repeated once.
 */

#define NGX_ETCD_FAILSAFE_TICK      100
#define NGX_ETCD_FAILSAFE_UNUSED    1000    /* check of a leader that no request
                                               uses */
#define NGX_ETCD_FAILSAFE_INTERVAL  1000
#define NGX_ETCD_FAILSAFE_TIMEOUT   800

#define NGX_ETCD_FAILSAFE_MEMBERS   32      /* more are not asked */
#define NGX_ETCD_FAILSAFE_REASON    256


typedef struct ngx_etcd_failsafe_s  ngx_etcd_failsafe_t;


/* The APIs to ask: the first one is the leader's. */

typedef struct {
    ngx_str_t                   leader;     /* name of the leader */
    uint64_t                    term;       /* create_revision */
    ngx_etcd_probe_target_t    *targets;
    ngx_uint_t                  n;          /* 0: no API */
    char                       *reason;     /* why there is no API */
} ngx_etcd_failsafe_targets_t;


/*
 * Created for a service of the agent; memory is of the pool.  NULL: no memory.
 */
ngx_etcd_failsafe_t *ngx_etcd_failsafe_create(ngx_etcd_service_t *service,
    ngx_pool_t *pool);
void ngx_etcd_failsafe_destroy(ngx_etcd_failsafe_t *failsafe);

/*
 * Called after each selection.  Copies the targets.  Other targets than before
 * end the confirmation.
 */
void ngx_etcd_failsafe_update(ngx_etcd_failsafe_t *failsafe,
    ngx_etcd_failsafe_targets_t *targets);


#endif /* _NGX_ETCD_FAILSAFE_H_INCLUDED_ */
