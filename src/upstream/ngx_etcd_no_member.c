
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_no_member.h>
#include <ngx_etcd_str.h>


/* bytes of a line's text, and of the name of a set in it */

#define NGX_ETCD_NO_MEMBER_LINE  512
#define NGX_ETCD_NO_MEMBER_SET   ((size_t) 128)


/* The lines of the log say this of a refusal that has no numbers. */

static char  *ngx_etcd_no_member_texts[] = {
    "",
    "there is no such set",
    "it has not been read from etcd yet",
    "it has not been read, etcd does not answer",
    "it has not been read, etcd refuses the user or the password",
    "etcd does not let the user read the prefix",
    "the zone is full",
    "its zone is locked or there is no memory"
};


/*
 * The states of members, as the log names them, with the refusal if no member
 * is in a better state.  A request that is refused has tried the members that
 * are up, among which a worker counts backup and held ones.
 */

static struct {
    char                *text;
    ngx_etcd_refusal_e   refusal;
} ngx_etcd_no_member_states[NGX_ETCD_MEMBER_STATES] = {
    [NGX_ETCD_MEMBER_UP] = { "tried", NGX_ETCD_REFUSAL_FAILING },
    [NGX_ETCD_MEMBER_BUSY] = { "busy", NGX_ETCD_REFUSAL_BUSY },
    [NGX_ETCD_MEMBER_FAILING] = { "failing", NGX_ETCD_REFUSAL_FAILING },
    [NGX_ETCD_MEMBER_EJECTED] = { "ejected", NGX_ETCD_REFUSAL_EJECTED },
    [NGX_ETCD_MEMBER_UNHEALTHY] = { "failed checks",
                                    NGX_ETCD_REFUSAL_UNHEALTHY },
    [NGX_ETCD_MEMBER_UNPROVEN] = { "not checked yet",
                                   NGX_ETCD_REFUSAL_UNHEALTHY },
    [NGX_ETCD_MEMBER_DRAINED] = { "drained", NGX_ETCD_REFUSAL_DRAINED },
    [NGX_ETCD_MEMBER_DOWN] = { "down", NGX_ETCD_REFUSAL_DOWN },
    [NGX_ETCD_MEMBER_UNRESOLVED] = { "unresolved",
                                     NGX_ETCD_REFUSAL_UNRESOLVED }
};


ngx_etcd_refusal_e
ngx_etcd_no_member_unchanged(ngx_etcd_member_set_state_e state)
{
    return (state == NGX_ETCD_MEMBER_SET_DENIED) ? NGX_ETCD_REFUSAL_DENIED
           : (state == NGX_ETCD_MEMBER_SET_FULL) ? NGX_ETCD_REFUSAL_ZONE_FULL
           : NGX_ETCD_REFUSAL_NONE;
}


ngx_etcd_refusal_e
ngx_etcd_no_member_unread(ngx_etcd_service_conf_t *service,
    ngx_etcd_member_set_state_e state)
{
    ngx_etcd_refusal_e  refusal;

    refusal = ngx_etcd_no_member_unchanged(state);

    if (refusal != NGX_ETCD_REFUSAL_NONE) {
        return refusal;
    }

    switch (service->zone->sh->cluster.state) {

    case NGX_ETCD_CLUSTER_IDLE:
    case NGX_ETCD_CLUSTER_CONNECTING:
        return NGX_ETCD_REFUSAL_UNREACHABLE;

    case NGX_ETCD_CLUSTER_UNAUTHORIZED:
        return NGX_ETCD_REFUSAL_UNAUTHORIZED;

    default:
        return NGX_ETCD_REFUSAL_LOADING;
    }
}


static ngx_etcd_member_state_e
ngx_etcd_no_member_state(ngx_etcd_peer_t *peer)
{
    ngx_etcd_member_condition_t  member;

    ngx_memzero(&member, sizeof(ngx_etcd_member_condition_t));

    member.attr = &peer->attr;
    member.fails = ngx_etcd_peer_fails(peer);
    member.idle = ngx_etcd_peer_idle(peer);
    member.conns = ngx_etcd_peer_conns(peer);
    member.verdict = ngx_etcd_peer_verdict(peer);

    return ngx_etcd_health_state(&member);
}


/*
 * The numbers of members by state, which are counted once a millisecond: any
 * number of requests may be refused in it.
 */

ngx_uint_t *
ngx_etcd_no_member_count(ngx_etcd_table_t *table)
{
    ngx_uint_t                 i, known;
    ngx_etcd_peer_t           *peer;

    static ngx_uint_t          n[NGX_ETCD_MEMBER_STATES];
    static uint64_t            generation;
    static ngx_msec_t          counted;
    static ngx_etcd_table_t   *last;

    if (last == table
        && counted == ngx_current_msec
        && generation == table->reader.generation)
    {
        return n;
    }

    last = table;
    counted = ngx_current_msec;
    generation = table->reader.generation;

    ngx_memzero(n, sizeof(n));

    known = 0;

    for (i = 0; i < table->nslots; i++) {
        peer = table->slots[i];

        if (peer != NULL) {
            n[ngx_etcd_no_member_state(peer)]++;
            known++;
        }
    }

    /* a table has no peers for hosts without an address */

    if (table->set->commit.nmembers > known) {
        n[NGX_ETCD_MEMBER_UNRESOLVED] = table->set->commit.nmembers - known;
    }

    return n;
}


/* The number of members that the request may still try. */

static ngx_uint_t
ngx_etcd_no_member_left(ngx_etcd_table_t *table, ngx_etcd_pick_t *pick,
    ngx_uint_t *n)
{
    ngx_uint_t        i, tried;
    ngx_etcd_peer_t  *peer;

    tried = 0;

    for (i = 0; i < pick->ntried; i++) {
        peer = pick->tried[i].peer;

        /* a peer that was tried may be of another line */

        if (peer->index < table->nslots
            && table->slots[peer->index] == peer
            && ngx_etcd_no_member_state(peer) == NGX_ETCD_MEMBER_UP)
        {
            tried++;
        }
    }

    return (n[NGX_ETCD_MEMBER_UP] > tried) ? n[NGX_ETCD_MEMBER_UP] - tried : 0;
}


/*
 * Members that are down or drained are out on purpose: what ails most of the
 * others is the reason, if there are others.
 */

static ngx_etcd_refusal_e
ngx_etcd_no_member_most(ngx_uint_t *n)
{
    ngx_uint_t  i, most, purpose, most_purpose;

    most = 0;
    most_purpose = 0;

    for (i = 0; i < NGX_ETCD_MEMBER_STATES; i++) {
        purpose = (i == NGX_ETCD_MEMBER_DRAINED || i == NGX_ETCD_MEMBER_DOWN);

        if (n[i] != 0
            && (n[most] == 0
                || (most_purpose && !purpose)
                || (most_purpose == purpose && n[i] > n[most])))
        {
            most = i;
            most_purpose = purpose;
        }
    }

    return n[most] ? ngx_etcd_no_member_states[most].refusal
                   : NGX_ETCD_REFUSAL_NO_MEMBERS;
}


/* The refusal if no member can be used: some may be up. */

static ngx_etcd_refusal_e
ngx_etcd_no_member_known(ngx_etcd_service_conf_t *service,
    ngx_etcd_member_set_t *set, ngx_uint_t *n)
{
    ngx_etcd_refusal_e      refusal;
    ngx_etcd_table_conf_t  *rules;

    rules = &service->rules;
    refusal = ngx_etcd_no_member_most(n);

    if (refusal == NGX_ETCD_REFUSAL_NO_MEMBERS
        && set->state != NGX_ETCD_MEMBER_SET_SYNCED)
    {
        return ngx_etcd_no_member_unread(service, set->state);
    }

    if (rules->max_stale != 0 && ngx_etcd_table_set_expired(rules, set)) {
        return NGX_ETCD_REFUSAL_STALE;
    }

    return (refusal == NGX_ETCD_REFUSAL_NO_MEMBERS && rules->leader)
           ? NGX_ETCD_REFUSAL_NO_LEADER : refusal;
}


ngx_etcd_refusal_e
ngx_etcd_no_member_reason(ngx_etcd_table_t *table, ngx_etcd_pick_t *pick)
{
    ngx_uint_t          *n;
    ngx_etcd_refusal_e   refusal;

    n = ngx_etcd_no_member_count(table);
    refusal = ngx_etcd_no_member_known(ngx_etcd_service_of(table), table->set,
                                       n);

    return (refusal >= NGX_ETCD_REFUSAL_UNRESOLVED
            && refusal <= NGX_ETCD_REFUSAL_BUSY
            && ngx_etcd_no_member_left(table, pick, n))
           ? NGX_ETCD_REFUSAL_FAILED : refusal;
}


ngx_etcd_refusal_e
ngx_etcd_no_member_now(ngx_etcd_service_conf_t *service,
    ngx_etcd_member_set_t *set, ngx_uint_t *n, ngx_uint_t *degraded)
{
    ngx_uint_t          i, usable, panic;
    ngx_etcd_refusal_e  refusal;

    refusal = ngx_etcd_no_member_known(service, set, n);

    usable = n[NGX_ETCD_MEMBER_UP] + n[NGX_ETCD_MEMBER_BACKUP]
             + n[NGX_ETCD_MEMBER_HELD];

    /* in a panic of checks they get requests; a catalog has no lines */

    panic = (service->line.next != NULL) ? ngx_etcd_table_panic(service->table)
                                         : set->checks.panic;

    if (panic) {
        usable += n[NGX_ETCD_MEMBER_UNHEALTHY];
    }

    *degraded = (n[NGX_ETCD_MEMBER_UNRESOLVED] != 0);

    for (i = NGX_ETCD_MEMBER_FAILING; i < NGX_ETCD_MEMBER_DRAINED; i++) {
        *degraded |= (n[i] != 0);
    }

    return (usable == 0 || refusal == NGX_ETCD_REFUSAL_STALE)
           ? refusal : NGX_ETCD_REFUSAL_NONE;
}


/* The set of a prefix with variables, in brackets. */

static u_char *
ngx_etcd_no_member_set(u_char *p, u_char *last,
    ngx_etcd_service_conf_t *service, ngx_etcd_table_t *table)
{
    ngx_str_t                 set;
    ngx_etcd_cached_table_t  *cached;
    ngx_etcd_catalog_conf_t  *catalog;

    catalog = ngx_etcd_catalog_of(service);

    if (catalog == NULL) {
        return p;
    }

    cached = (ngx_etcd_cached_table_t *) table;

    ngx_etcd_pattern_name(&catalog->pattern, &cached->prefix, &set);

    return ngx_slprintf(p, last, " (%*s)",
                        ngx_min(set.len, NGX_ETCD_NO_MEMBER_SET), set.data);
}


/* "5 members, 1 drained, 3 failed checks, 1 failing" */

static u_char *
ngx_etcd_no_member_numbers(u_char *p, u_char *last, ngx_uint_t *n)
{
    ngx_uint_t  i, all;

    all = 0;

    for (i = 0; i < NGX_ETCD_MEMBER_STATES; i++) {
        all += n[i];
    }

    p = ngx_slprintf(p, last, (all == 1) ? "%ui member" : "%ui members", all);

    for (i = 0; i < NGX_ETCD_MEMBER_STATES; i++) {
        if (n[i] != 0) {
            p = ngx_slprintf(p, last, ", %ui %s", n[i],
                             ngx_etcd_no_member_states[i].text);
        }
    }

    return p;
}


static u_char *
ngx_etcd_no_member_why(u_char *p, u_char *last, ngx_etcd_refusal_e refusal,
    ngx_etcd_table_t *table)
{
    ngx_etcd_service_conf_t  *service;

    service = ngx_etcd_service_of(table);

    switch (refusal) {

    case NGX_ETCD_REFUSAL_NO_MEMBERS:
        return ngx_slprintf(p, last, "there is none below %V",
                            ngx_etcd_catalog_of(service)
                            ? &ngx_etcd_catalog_of(service)->pattern.text
                            : &service->prefix);

    case NGX_ETCD_REFUSAL_NO_LEADER:
        return ngx_slprintf(p, last, "there is no leader");

    case NGX_ETCD_REFUSAL_STALE:
        return ngx_slprintf(p, last, "etcd has not confirmed them for %L ms, "
                            "max_stale is %M ms",
                            ngx_etcd_member_set_staleness(table->set),
                            table->conf->max_stale);

    default:
        return (refusal < NGX_ETCD_REFUSAL_NO_MEMBERS)
               ? ngx_slprintf(p, last, "%s", ngx_etcd_no_member_texts[refusal])
               : ngx_etcd_no_member_numbers(p, last,
                                            ngx_etcd_no_member_count(table));
    }
}


void
ngx_etcd_no_member(ngx_etcd_upstream_t *upstream,
    ngx_etcd_pick_t *pick, ngx_log_t *log)
{
    u_char                   *p, *last;
    ngx_uint_t                waited, refused;
    ngx_etcd_table_t         *table;
    ngx_etcd_refusal_e        refusal;
    ngx_etcd_service_conf_t  *service;
    u_char                    buf[NGX_ETCD_NO_MEMBER_LINE];

    service = upstream->service;
    table = ngx_etcd_table_head(pick->table);
    refusal = ngx_etcd_no_member_reason(table, pick);

    /* nothing is left to try */

    if (refusal == NGX_ETCD_REFUSAL_FAILED) {
        refusal = NGX_ETCD_REFUSAL_FAILING;
    }

    waited = (ngx_etcd_refusal_get(pick->pool)
              == NGX_ETCD_REFUSAL_WAIT_TIMEOUT);

    ngx_etcd_outcome_refuse(service->outcome, pick->pool,
                            waited ? NGX_ETCD_REFUSAL_WAIT_TIMEOUT : refusal);

    refused = ngx_etcd_refusal_due(&upstream->refusals);

    if (refused == 0) {
        return;
    }

    last = buf + NGX_ETCD_NO_MEMBER_LINE;

    p = ngx_etcd_no_member_set(buf, last, service, table);
    p = ngx_slprintf(p, last, waited ? " after a wait: " : ": ");
    p = ngx_etcd_no_member_why(p, last, refusal, table);

    while (table->conf->next != NULL) {
        table = table->conf->next;
        refusal = ngx_etcd_no_member_reason(table, pick);

        p = ngx_slprintf(p, last, "; line %ui: ",
                         ngx_etcd_service_of(table)->line.number);
        p = ngx_etcd_no_member_why(p, last, refusal, table);
    }

    ngx_log_error(NGX_LOG_ERR, log, 0,
                  "no usable member of \"%V\"%V; %ui refused", pick->name,
                  ngx_etcd_shown_bytes(buf, p - buf), refused);
}


ngx_etcd_refusal_e
ngx_etcd_no_member_table(ngx_etcd_upstream_t *upstream, ngx_int_t rc,
    ngx_pool_t *pool, ngx_log_t *log)
{
    char                     *reason;
    ngx_uint_t                refused;
    ngx_etcd_refusal_e        refusal;
    ngx_etcd_catalog_conf_t  *catalog;

    catalog = ngx_etcd_catalog_of(upstream->service);

    switch (rc) {

    case NGX_DECLINED:
        refusal = NGX_ETCD_REFUSAL_UNKNOWN;
        break;

    case NGX_BUSY:
        refusal = ngx_etcd_no_member_unread(upstream->service,
                                            catalog->map->state);
        break;

    default:
        refusal = NGX_ETCD_REFUSAL_UNREADABLE;
    }

    ngx_etcd_outcome_refuse(upstream->service->outcome, pool, refusal);

    /* anybody may ask for a set that does not exist: this costs no line */

    if (refusal == NGX_ETCD_REFUSAL_UNKNOWN) {
        return refusal;
    }

    reason = ngx_etcd_no_member_texts[refusal];
    refused = ngx_etcd_refusal_due(&upstream->refusals);

    if (refused != 0) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "no usable member of \"%V\": %s; %ui refused",
                      &upstream->service->name, reason, refused);
    }

    return refusal;
}
