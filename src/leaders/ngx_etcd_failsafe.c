
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_failsafe.h>
#include <ngx_etcd_patroni_member.h>
#include <ngx_etcd_str.h>


typedef struct {
    ngx_etcd_failsafe_t           *failsafe;
    ngx_etcd_probe_t               probe;
} ngx_etcd_failsafe_member_t;


struct ngx_etcd_failsafe_s {
    ngx_etcd_service_t            *service;
    ngx_event_t                    timer;

    /* own memory, copied from the last selection */

    ngx_etcd_failsafe_targets_t    targets;
    ngx_etcd_failsafe_member_t    *members;

    /* a round: every target is asked once */

    uint64_t                       asked;       /* ngx_etcd_clock(); 0: there
                                                   was none */
    ngx_uint_t                     pending;     /* answers */
    unsigned                       confirmed:1; /* by the leader */
    unsigned                       silent:1;    /* the leader, in the last
                                                   round */

    /* logged so far */

    unsigned                       used:1;      /* the leader stays in use */
    ngx_etcd_causes_t              causes;      /* why the leader is not used
                                                   */
    size_t                         reason_len;
    u_char                         reason[NGX_ETCD_FAILSAFE_REASON];
};


static void
ngx_etcd_failsafe_cancel(ngx_etcd_failsafe_t *failsafe)
{
    ngx_uint_t  i;

    for (i = 0; i < failsafe->targets.n; i++) {
        ngx_etcd_probe_cancel(&failsafe->members[i].probe);
    }

    failsafe->pending = 0;
    failsafe->confirmed = 0;
    failsafe->silent = 0;
}


/* Ends the confirmation at once, before it expires. */

static void
ngx_etcd_failsafe_end(ngx_etcd_failsafe_t *failsafe)
{
    ngx_etcd_failsafe_cancel(failsafe);

    ngx_etcd_member_set_confirm(failsafe->service->conf->zone,
                                failsafe->service->conf->set, 0);
}


static void
ngx_etcd_failsafe_pause(ngx_etcd_failsafe_t *failsafe)
{
    if (failsafe->asked != 0) {
        ngx_etcd_failsafe_end(failsafe);
        failsafe->asked = 0;
    }
}


static void
ngx_etcd_failsafe_ask(ngx_etcd_failsafe_t *failsafe, uint64_t now)
{
    ngx_uint_t           i;
    ngx_etcd_ssl_t      *ssl;
    ngx_etcd_service_t  *service;

    service = failsafe->service;
    ssl = service->conf->leader->api_ssl;

    if (ssl != NULL) {
        ngx_etcd_ssl_refresh(ssl, "upstream", &service->conf->name,
                             service->log);
    }

    failsafe->asked = now;
    failsafe->pending = failsafe->targets.n;
    failsafe->confirmed = 0;
    failsafe->silent = 0;

    for (i = 0; i < failsafe->targets.n; i++) {
        ngx_etcd_probe_start(&failsafe->members[i].probe,
                             &failsafe->targets.targets[i],
                             NGX_ETCD_PATRONI_PRIMARY,
                             NGX_ETCD_FAILSAFE_TIMEOUT);
    }
}


/*
 * Logs one line when a stale leader begins to be used, and one when this ends.
 */

static void
ngx_etcd_failsafe_log(ngx_etcd_failsafe_t *failsafe, int64_t staleness)
{
    ngx_str_t            reason;
    ngx_uint_t           stale, used;
    ngx_etcd_service_t  *service;

    service = failsafe->service;

    stale = (staleness > (int64_t) service->conf->rules.max_stale);
    used = stale && ngx_etcd_member_set_confirmed(service->conf->set);

    reason.data = failsafe->reason;
    reason.len = failsafe->reason_len;

    if (failsafe->targets.n == 0) {
        reason.data = (u_char *) failsafe->targets.reason;
        reason.len = ngx_strlen(reason.data);
    }

    if (used && !failsafe->used) {
        ngx_log_error(NGX_LOG_WARN, service->log, 0,
                      "etcd: upstream \"%V\": no proof from etcd for %L ms, "
                      "leader \"%V\" of \"%V\" stays in use: its API confirms "
                      "it", &service->conf->name, staleness,
                      ngx_etcd_shown(&failsafe->targets.leader),
                      ngx_etcd_shown(&service->conf->prefix));

    } else if (!used && failsafe->used && !stale) {
        ngx_log_error(NGX_LOG_NOTICE, service->log, 0,
                      "etcd: upstream \"%V\": etcd confirms the leader of "
                      "\"%V\" again", &service->conf->name,
                      ngx_etcd_shown(&service->conf->prefix));

    } else if (!used && stale
               && (failsafe->used
                   || ngx_etcd_cause_level(&failsafe->causes, 0, &reason)
                      == NGX_LOG_ERR))
    {
        ngx_log_error(NGX_LOG_ERR, service->log, 0,
                      "etcd: upstream \"%V\": no proof from etcd for %L ms, "
                      "the leader of \"%V\" is not used: %V",
                      &service->conf->name, staleness,
                      ngx_etcd_shown(&service->conf->prefix), &reason);
    }

    failsafe->used = used;

    if (!stale) {
        (void) ngx_etcd_cause_forget(&failsafe->causes);
    }
}


static void
ngx_etcd_failsafe_timer(ngx_event_t *ev)
{
    int64_t               staleness;
    uint64_t              now;
    ngx_etcd_service_t   *service;
    ngx_etcd_failsafe_t  *failsafe;

    failsafe = ev->data;
    service = failsafe->service;

    if (!ngx_etcd_service_used(service)) {
        ngx_etcd_failsafe_pause(failsafe);
        ngx_add_timer(ev, NGX_ETCD_FAILSAFE_UNUSED);
        return;
    }

    staleness = ngx_etcd_member_set_staleness(service->conf->set);
    now = ngx_etcd_clock();

    /* early: a confirmation is known when the staleness exceeds its limit */

    if (failsafe->targets.n == 0
        || staleness < (int64_t) (service->conf->rules.max_stale / 2))
    {
        ngx_etcd_failsafe_pause(failsafe);

    } else if (now - failsafe->asked >= NGX_ETCD_FAILSAFE_INTERVAL
               || (failsafe->silent && failsafe->pending == 0))
    {
        ngx_etcd_failsafe_ask(failsafe, now);
    }

    ngx_etcd_failsafe_log(failsafe, staleness);

    ngx_add_timer(ev, NGX_ETCD_FAILSAFE_TICK);
}


ngx_etcd_failsafe_t *
ngx_etcd_failsafe_create(ngx_etcd_service_t *service, ngx_pool_t *pool)
{
    ngx_etcd_failsafe_t  *failsafe;

    failsafe = ngx_pcalloc(pool, sizeof(ngx_etcd_failsafe_t));
    if (failsafe == NULL) {
        return NULL;
    }

    failsafe->service = service;
    failsafe->targets.reason = "the leader is not known";

    ngx_etcd_event_init_timer(&failsafe->timer, ngx_etcd_failsafe_timer,
                              failsafe, service->log);

    ngx_add_timer(&failsafe->timer, NGX_ETCD_FAILSAFE_TICK);

    return failsafe;
}


static void
ngx_etcd_failsafe_free(ngx_etcd_failsafe_t *failsafe)
{
    ngx_etcd_failsafe_cancel(failsafe);

    if (failsafe->members != NULL) {
        ngx_free(failsafe->members);
        failsafe->members = NULL;
    }

    ngx_memzero(&failsafe->targets, sizeof(ngx_etcd_failsafe_targets_t));
    failsafe->asked = 0;
}


void
ngx_etcd_failsafe_destroy(ngx_etcd_failsafe_t *failsafe)
{
    ngx_etcd_failsafe_free(failsafe);

    ngx_etcd_event_stop(&failsafe->timer);
}


static void
ngx_etcd_failsafe_reason(ngx_etcd_failsafe_t *failsafe, const char *fmt, ...)
{
    u_char   *p;
    va_list   args;

    va_start(args, fmt);
    p = ngx_vslprintf(failsafe->reason,
                      failsafe->reason + NGX_ETCD_FAILSAFE_REASON, fmt, args);
    va_end(args);

    failsafe->reason_len = p - failsafe->reason;
}


static void
ngx_etcd_failsafe_leader(ngx_etcd_failsafe_t *failsafe, ngx_uint_t status,
    ngx_str_t *text)
{
    ngx_str_t  *name;

    name = ngx_etcd_probe_name(&failsafe->members->probe);

    if (status == 0) {
        failsafe->silent = 1;
        ngx_etcd_failsafe_reason(failsafe, "%V does not answer: %V", name,
                                 text);

    } else if (status != 200) {
        ngx_etcd_failsafe_reason(failsafe, "%V reports by status %ui that it "
                                 "is not the primary", name, status);
        ngx_etcd_failsafe_end(failsafe);

    } else if (ngx_etcd_patroni_api_role(text)
               != NGX_ETCD_PATRONI_ROLE_PRIMARY)
    {
        ngx_etcd_failsafe_reason(failsafe, "%V does not report that it is the "
                                 "primary", name);
        ngx_etcd_failsafe_end(failsafe);

    } else {
        failsafe->confirmed = 1;
    }
}


static void
ngx_etcd_failsafe_done(void *data, ngx_uint_t status, ngx_str_t *text)
{
    ngx_etcd_failsafe_member_t *member = data;

    ngx_etcd_service_t   *service;
    ngx_etcd_failsafe_t  *failsafe;

    failsafe = member->failsafe;
    failsafe->pending--;

    if (member == failsafe->members) {
        ngx_etcd_failsafe_leader(failsafe, status, text);

    } else if (status == 200) {
        ngx_etcd_failsafe_reason(failsafe, "%V reports that it leads",
                                 ngx_etcd_probe_name(&member->probe));
        ngx_etcd_failsafe_end(failsafe);
    }

    if (failsafe->pending != 0 || !failsafe->confirmed) {
        return;
    }

    /* the confirmation is at least as new as the requests */

    service = failsafe->service;

    ngx_etcd_member_set_confirm(service->conf->zone, service->conf->set,
                                failsafe->asked);
}


/* Copies to one block: the members, the targets, the leader's name. */

static ngx_int_t
ngx_etcd_failsafe_copy(ngx_etcd_failsafe_t *failsafe,
    ngx_etcd_failsafe_targets_t *targets)
{
    u_char      *p;
    ngx_uint_t   i;

    if (targets->n == 0) {
        failsafe->targets.reason = targets->reason;
        return NGX_OK;
    }

    p = ngx_calloc(targets->n * (sizeof(ngx_etcd_failsafe_member_t)
                                 + sizeof(ngx_etcd_probe_target_t))
                   + targets->leader.len, failsafe->service->log);
    if (p == NULL) {
        return NGX_ERROR;
    }

    failsafe->targets = *targets;
    failsafe->members = (ngx_etcd_failsafe_member_t *) p;

    for (i = 0; i < targets->n; i++) {
        failsafe->members[i].failsafe = failsafe;
        failsafe->members[i].probe.log = failsafe->service->log;
        failsafe->members[i].probe.done = ngx_etcd_failsafe_done;
        failsafe->members[i].probe.data = &failsafe->members[i];
    }

    p += targets->n * sizeof(ngx_etcd_failsafe_member_t);
    failsafe->targets.targets = (ngx_etcd_probe_target_t *) p;

    p = ngx_cpymem(p, targets->targets,
                   targets->n * sizeof(ngx_etcd_probe_target_t));
    failsafe->targets.leader.data = p;

    ngx_memcpy(p, targets->leader.data, targets->leader.len);

    return NGX_OK;
}


void
ngx_etcd_failsafe_update(ngx_etcd_failsafe_t *failsafe,
    ngx_etcd_failsafe_targets_t *targets)
{
    ngx_etcd_failsafe_targets_t  *old;

    old = &failsafe->targets;

    if (old->n == targets->n
        && old->reason == targets->reason
        && (old->n == 0
            || (old->term == targets->term
                && ngx_etcd_str_equal(&old->leader, &targets->leader)
                && ngx_memcmp(old->targets, targets->targets,
                              old->n * sizeof(ngx_etcd_probe_target_t))
                   == 0)))
    {
        return;
    }

    ngx_etcd_failsafe_end(failsafe);
    ngx_etcd_failsafe_free(failsafe);

    if (ngx_etcd_failsafe_copy(failsafe, targets) != NGX_OK) {
        old->n = 0;
        old->reason = "no memory";
    }
}
