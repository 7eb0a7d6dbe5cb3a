
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_source.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_agent.h>
#include <ngx_etcd_check_share.h>
#include <ngx_etcd_conn_queue.h>
#include <ngx_etcd_no_member.h>
#include <ngx_etcd_peer_data.h>
#include <ngx_etcd_writable.h>
#include <ngx_etcd_status_object.h>


ngx_str_t  ngx_etcd_status_cluster_states[] = {
    ngx_string("idle"),
    ngx_string("connecting"),
    ngx_string("unauthorized"),
    ngx_string("syncing"),
    ngx_string("denied"),
    ngx_string("zone full"),
    ngx_string("stale"),
    ngx_string("synced"),
    ngx_null_string
};

/* of ngx_etcd_member_state_e */

ngx_str_t  ngx_etcd_status_member_states[] = {
    ngx_string("up"),
    ngx_string("backup"),
    ngx_string("held"),
    ngx_string("busy"),
    ngx_string("failing"),
    ngx_string("ejected"),
    ngx_string("unhealthy"),
    ngx_string("unproven"),
    ngx_string("drained"),
    ngx_string("down"),
    ngx_string("unresolved"),
    ngx_string("shadowed"),
    ngx_null_string
};

ngx_str_t  ngx_etcd_status_upstream_states[] = {
    ngx_string("ok"),
    ngx_string("degraded"),
    ngx_string("down"),
    ngx_null_string
};

ngx_str_t  ngx_etcd_status_endpoint_states[] = {
    ngx_string("unused"),
    ngx_string("connecting"),
    ngx_string("connected"),
    ngx_string("failed"),
    ngx_null_string
};

ngx_str_t  ngx_etcd_status_unused_kinds[] = {
    ngx_string("field"),
    ngx_string("tag"),
    ngx_string("scheme"),
    ngx_string("lease"),
    ngx_string("other"),
    ngx_string("hidden"),
    ngx_null_string
};

/* of ngx_etcd_status_variable_state_e */

ngx_str_t  ngx_etcd_status_variable_states[] = {
    ngx_string("unknown"),
    ngx_string("default"),
    ngx_string("set"),
    ngx_string("kept"),
    ngx_string("invalid"),
    ngx_string("denied"),
    ngx_null_string
};

ngx_str_t  ngx_etcd_status_classes[] = {
    ngx_string("1xx"),
    ngx_string("2xx"),
    ngx_string("3xx"),
    ngx_string("4xx"),
    ngx_string("5xx"),
    ngx_null_string
};

const ngx_etcd_status_map_t  ngx_etcd_status_no_map = {
    NGX_ETCD_STATUS_ABSENT,
    NGX_ETCD_STATUS_ABSENT,
    NGX_ETCD_STATUS_ABSENT,
    { NULL, 0, 0 },
    NGX_ETCD_STATUS_ABSENT,
    NGX_ETCD_STATUS_ABSENT,
    NGX_ETCD_STATUS_ABSENT,
    NGX_ETCD_STATUS_ABSENT,
    NGX_ETCD_STATUS_ABSENT
};


static void
ngx_etcd_status_object_database(ngx_etcd_status_cluster_t *cluster,
    ngx_etcd_conf_t *ecf)
{
    ngx_etcd_zone_space_t  *space;

    cluster->db_size = NGX_ETCD_STATUS_ABSENT;
    cluster->db_quota = NGX_ETCD_STATUS_ABSENT;
    cluster->db_nospace = NGX_ETCD_STATUS_ABSENT;

    space = &ecf->zone.sh->space;

    if (space->size == 0 || !ngx_etcd_db_space_wanted(ecf)) {
        return;
    }

    cluster->db_size = space->size;
    cluster->db_nospace = space->nospace;

    if (space->quota != 0) {
        cluster->db_quota = space->quota;
    }
}


static void
ngx_etcd_status_object_str(ngx_str_t *str, u_char *data, size_t len)
{
    str->data = data;
    str->len = len;
}


static void
ngx_etcd_status_object_endpoints(ngx_etcd_status_cluster_t *cluster,
    ngx_etcd_conf_t *ecf)
{
    uint64_t                     version;
    ngx_uint_t                   i;
    ngx_etcd_endpoint_t         *configured;
    ngx_etcd_zone_endpoint_t    *ep;
    ngx_etcd_status_endpoint_t  *shown;

    ngx_memzero(cluster->endpoint_states, sizeof(cluster->endpoint_states));
    ngx_str_null(&cluster->endpoint);

    if (ngx_etcd_zone_get_endpoints(&ecf->zone, &cluster->known) != NGX_OK
        || cluster->known.n == 0)
    {
        /* before there is an agent, no endpoints are published */

        configured = ecf->client.endpoints.elts;

        cluster->known.n = ecf->client.endpoints.nelts;
        cluster->known.current = -1;
        cluster->known.refusal_len = 0;

        for (i = 0; i < cluster->known.n; i++) {
            ep = &cluster->known.list[i];

            ep->state = NGX_ETCD_ENDPOINT_UNUSED;
            ep->learned = 0;
            ep->error_len = 0;
            ep->url_len = ngx_min(configured[i].url.len,
                                  NGX_ETCD_ZONE_URL_LEN);
            ngx_memcpy(ep->url, configured[i].url.data, ep->url_len);
        }
    }

    for (i = 0; i < cluster->known.n; i++) {
        ep = &cluster->known.list[i];
        shown = &cluster->list[i];

        ngx_etcd_status_object_str(&shown->url, ep->url, ep->url_len);
        shown->state = ngx_etcd_status_endpoint_states[ep->state & 3];
        shown->learned = ep->learned ? 1 : NGX_ETCD_STATUS_ABSENT;
        shown->cluster = ecf->name;

        shown->failing = NGX_ETCD_STATUS_ABSENT;
        ngx_str_null(&shown->error);

        if (ep->error_len != 0) {
            ngx_etcd_status_object_str(&shown->error, ep->error, ep->error_len);
            shown->failing = ngx_max(ngx_time() - ep->since, 0);
        }

        shown->known = NGX_ETCD_STATUS_ABSENT;
        ngx_str_null(&shown->version);

        version = ngx_etcd_server_versions_get(&ecf->zone, &shown->url);

        if (version != 0) {
            shown->version.data = shown->version_text;
            shown->version.len = ngx_etcd_server_version_text(
                                     shown->version_text, version)
                                 - shown->version_text;
            shown->known = 1;
        }

        cluster->endpoint_states[ep->state & 3]++;

        if (cluster->known.current == (ngx_int_t) i) {
            cluster->endpoint = shown->url;
        }
    }

    cluster->endpoints.elts = cluster->list;
    cluster->endpoints.nelts = cluster->known.n;
    cluster->endpoints.size = sizeof(ngx_etcd_status_endpoint_t);
}


void
ngx_etcd_status_object_cluster(ngx_etcd_status_cluster_t *cluster,
    ngx_etcd_conf_t *ecf)
{
    u_char                           *p;
    ngx_msec_int_t                    silence;
    ngx_etcd_zone_cluster_t          *zc;
    ngx_etcd_status_culprit_t         culprit;
    ngx_etcd_status_cluster_state_e   state;

    zc = &ecf->zone.sh->cluster;
    silence = (ngx_msec_int_t) (ngx_current_msec - ecf->zone.sh->heartbeat);

    cluster->name = ecf->name;
    state = ngx_etcd_status_cluster_state(ecf, &culprit);
    cluster->state = ngx_etcd_status_cluster_states[state];

    cluster->id.data = cluster->id_text;
    cluster->id.len = ngx_sprintf(cluster->id_text, "%xL", zc->cluster_id)
                      - cluster->id_text;

    cluster->agent_up = NGX_ETCD_STATUS_ABSENT;

    if (ngx_etcd_agent_wanted(ecf)) {
        cluster->agent_up = (ngx_etcd_zone_owner(&ecf->zone) != 0
                             && silence <= NGX_ETCD_AGENT_STALE);
    }

    cluster->revision = ngx_etcd_peer_data_known(ecf);
    cluster->staleness = ngx_etcd_zone_staleness(&ecf->zone);
    cluster->reconnects = zc->reconnects;
    cluster->resyncs = zc->resyncs;
    cluster->repairs = zc->repairs;
    cluster->visible = ecf->zone.sh->visible;
    cluster->zone.size = ecf->zone_size;
    cluster->zone.used = ngx_etcd_zone_used(&ecf->zone);
    cluster->zone.stall = ecf->zone.sh->stall;

    ngx_etcd_status_object_database(cluster, ecf);
    ngx_etcd_status_object_endpoints(cluster, ecf);

    ngx_str_null(&cluster->reason);

    p = ngx_etcd_status_cluster_reason(cluster->reason_text, state, &culprit,
                                       &cluster->known);

    if (p != cluster->reason_text) {
        ngx_etcd_status_object_str(&cluster->reason, cluster->reason_text,
                                   p - cluster->reason_text);
    }
}


void
ngx_etcd_status_object_upstream(ngx_etcd_status_upstream_t *upstream,
    ngx_etcd_conf_t *ecf, ngx_etcd_service_conf_t *service)
{
    ngx_memzero(upstream, sizeof(ngx_etcd_status_upstream_t));

    upstream->name = service->name;
    upstream->line.number = service->line.number
                            ? (int64_t) service->line.number
                            : NGX_ETCD_STATUS_ABSENT;
    upstream->cluster = ecf->name;
    upstream->prefix = service->prefix;
    upstream->service = service;
    upstream->lowest = NGX_ETCD_MEMBER_MAX_PRIORITY;
    upstream->catalog = ngx_etcd_catalog_of(service);
    upstream->map = ngx_etcd_status_no_map;

    ngx_str_set(&upstream->module, "http");

    if (service->stream) {
        ngx_str_set(&upstream->module, "stream");
    }

    upstream->kind.data = (u_char *) service->source->kind;
    upstream->kind.len = ngx_strlen(service->source->kind);
}


/* Clears the numbers that only some upstreams have. */

static void
ngx_etcd_status_object_absent(ngx_etcd_status_upstream_t *upstream)
{
    upstream->line.in_use = NGX_ETCD_STATUS_ABSENT;
    upstream->leader.failsafe = NGX_ETCD_STATUS_ABSENT;
    upstream->leader.has_leader = NGX_ETCD_STATUS_ABSENT;
    upstream->leader.terms = NGX_ETCD_STATUS_ABSENT;
    upstream->ejections = NGX_ETCD_STATUS_ABSENT;
    upstream->sums.queued = NGX_ETCD_STATUS_ABSENT;
    upstream->guard.holds = NGX_ETCD_STATUS_ABSENT;
    upstream->guard.would_hold = NGX_ETCD_STATUS_ABSENT;
    upstream->guard.held = NGX_ETCD_STATUS_ABSENT;
    upstream->sums.checks = NGX_ETCD_STATUS_ABSENT;
    upstream->sums.check_failures = NGX_ETCD_STATUS_ABSENT;
    upstream->observer.heard = NGX_ETCD_STATUS_ABSENT;
    upstream->sums.panic = NGX_ETCD_STATUS_ABSENT;
}


void
ngx_etcd_status_object_uncounted(ngx_etcd_answers_t *answers)
{
    answers->responses[0] = (uint64_t) NGX_ETCD_STATUS_ABSENT;
    answers->sent = (uint64_t) NGX_ETCD_STATUS_ABSENT;
    answers->received = (uint64_t) NGX_ETCD_STATUS_ABSENT;
    answers->times.sum = (uint64_t) NGX_ETCD_STATUS_ABSENT;
}


/* Of a set alone, outcomes are not counted. */

static void
ngx_etcd_status_object_outcomes(ngx_etcd_status_upstream_t *upstream)
{
    ngx_etcd_outcomes_t  *outcomes;

    outcomes = &upstream->outcomes;

    if (upstream->service->outcome != NULL) {
        ngx_etcd_outcome_sum(upstream->service->outcome, outcomes);
        return;
    }

    ngx_etcd_status_object_uncounted(&outcomes->answers);
    outcomes->refused[0] = (uint64_t) NGX_ETCD_STATUS_ABSENT;
}


/* Connections are closed by a parameter of "etcd_members". */

static int64_t
ngx_etcd_status_object_closed(ngx_etcd_table_conf_t *rules)
{
    return rules->closing.after ? (int64_t) *rules->closing.closed
                                : NGX_ETCD_STATUS_ABSENT;
}


void
ngx_etcd_status_object_catalog(ngx_etcd_status_upstream_t *upstream)
{
    ngx_etcd_set_map_t       *map;
    ngx_etcd_catalog_conf_t  *catalog;

    catalog = upstream->catalog;
    map = catalog->map;

    upstream->prefix = catalog->pattern.text;
    upstream->generation = map->changes;
    upstream->revision = map->revision;
    upstream->staleness = catalog->service.source->verified
                          ? ngx_etcd_zone_since(&map->verified)
                          : ngx_etcd_zone_staleness(catalog->service.zone);
    ngx_etcd_status_object_absent(upstream);
    ngx_etcd_status_object_outcomes(upstream);
    upstream->closed = ngx_etcd_status_object_closed(&catalog->service.rules);

    if (catalog->service.rules.queue) {
        upstream->sums.queued = 0;
    }

    upstream->sums.requests = map->requests;
    upstream->map.sets = map->map.n;
    upstream->map.down = 0;
    upstream->map.degraded = 0;
    upstream->map.limit = map->limit;
    upstream->map.over = map->over;
    upstream->map.unmatched = map->unmatched;
    upstream->map.tables = catalog->cache.n;
    upstream->map.requests = map->requests;
}


void
ngx_etcd_status_object_unused(ngx_etcd_status_sums_t *sums,
    ngx_etcd_view_t *view)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_STATUS_UNUSED; i++) {
        sums->unused[i] = view->unused[i + 1];
    }

    /* a view does not name all of them */

    sums->states[NGX_ETCD_MEMBER_SHADOWED] =
                                         view->unused[NGX_ETCD_UNUSED_HIDDEN];
}


/* "state" becomes one of the names. */

static void
ngx_etcd_status_object_state(ngx_str_t *state, ngx_str_t *reason,
    ngx_etcd_refusal_e refusal, ngx_uint_t degraded,
    ngx_etcd_refusal_e unchanged)
{
    *state = ngx_etcd_status_upstream_states[
                               refusal ? 2 : (degraded || unchanged) ? 1 : 0];

    *reason = *ngx_etcd_refusal_word(refusal ? refusal : unchanged);
}


void
ngx_etcd_status_object_set(ngx_etcd_status_set_t *one,
    ngx_etcd_service_conf_t *service, ngx_etcd_member_set_t *set)
{
    ngx_uint_t          degraded;
    ngx_etcd_refusal_e  refusal;

    refusal = ngx_etcd_no_member_now(service, set, one->sums.states, &degraded);

    ngx_etcd_status_object_state(&one->state, &one->reason, refusal, degraded,
                                 ngx_etcd_no_member_unchanged(set->state));
}


/* An upstream is down if no set can be used, for the reason of the first. */

void
ngx_etcd_status_object_sets(ngx_etcd_status_upstream_t *upstream,
    ngx_uint_t nsets)
{
    ngx_etcd_refusal_e          refusal;
    ngx_etcd_set_map_t         *map;
    ngx_etcd_status_map_t      *sums;
    ngx_etcd_status_trouble_t  *first;

    map = upstream->catalog->map;
    sums = &upstream->map;
    refusal = NGX_ETCD_REFUSAL_NONE;

    if (nsets == 0) {
        refusal = (map->state == NGX_ETCD_MEMBER_SET_SYNCED)
                  ? NGX_ETCD_REFUSAL_NO_MEMBERS
                  : ngx_etcd_no_member_unread(upstream->service, map->state);
    }

    ngx_etcd_status_object_state(&upstream->state, &upstream->reason, refusal,
                                 sums->down + sums->degraded + map->over != 0,
                                 ngx_etcd_no_member_unchanged(map->state));

    first = sums->troubles.elts;

    if (nsets != 0 && sums->down == (int64_t) nsets && first != NULL) {
        upstream->state = first->state;
        upstream->reason = first->reason;
    }
}


static void
ngx_etcd_status_object_observer(ngx_etcd_status_upstream_t *upstream,
    ngx_etcd_service_conf_t *service)
{
    ngx_etcd_member_set_checks_t  *checks;

    checks = &service->set->checks;

    if (service->observed == NULL) {
        return;
    }

    upstream->observer.role = ngx_etcd_check_share_word(checks->role);

    if (service->observed->len != 0) {
        upstream->observer.zone = *service->observed;
    }

    if (checks->heard != 0) {
        upstream->observer.heard = ngx_etcd_zone_since(&checks->heard);
    }
}


/* Requests go to the first line that has a member for them. */

static int64_t
ngx_etcd_status_object_in_use(ngx_etcd_service_conf_t *service)
{
    ngx_etcd_table_t  *line;

    if (service->line.number == 0) {
        return NGX_ETCD_STATUS_ABSENT;
    }

    line = ngx_etcd_table_head(service->table);

    while (line != service->table && !ngx_etcd_conn_queue_usable(line)) {
        line = line->conf->next;
    }

    return line == service->table && ngx_etcd_conn_queue_usable(line);
}


void
ngx_etcd_status_object_update(ngx_etcd_status_upstream_t *upstream,
    ngx_etcd_view_t *view)
{
    int64_t                   left;
    ngx_uint_t                degraded;
    ngx_etcd_gauge_t         *waiting;
    ngx_etcd_refusal_e        refusal;
    ngx_etcd_service_conf_t  *service;

    service = upstream->service;
    waiting = service->set->waiting;

    upstream->generation = view->generation;
    upstream->revision = view->revision;
    upstream->ninvalid = view->ninvalid;
    ngx_etcd_status_object_unused(&upstream->sums, view);
    upstream->staleness = ngx_etcd_source_staleness(service, service->set);
    upstream->sums.waiting = waiting ? ngx_etcd_gauge_sum(waiting) : 0;
    upstream->closed = ngx_etcd_status_object_closed(&service->rules);
    ngx_etcd_status_object_absent(upstream);
    ngx_etcd_status_object_outcomes(upstream);
    upstream->line.in_use = ngx_etcd_status_object_in_use(service);

    if (service->rules.queue) {
        upstream->sums.queued = ngx_etcd_member_set_queue_sum(service->set);
    }

    if (service->guard.hold != 0) {
        upstream->guard.holds = service->set->counts.holds;

        if (service->guard.dry) {
            upstream->guard.would_hold = service->set->counts.dry_holds;
        }

        if (service->set->held_until != 0) {
            left = service->set->held_until - ngx_etcd_clock();
            upstream->guard.held = ngx_max(left, 0) / 1000;
        }
    }

    if (ngx_etcd_attendant_judges(&service->attendants,
                                  NGX_ETCD_VERDICT_EJECTED))
    {
        upstream->ejections = service->set->counts.ejections;
    }

    if (ngx_etcd_attendant_judges(&service->attendants,
                                  NGX_ETCD_VERDICT_CHECKS))
    {
        upstream->sums.checks = service->set->checks.done;
        upstream->sums.check_failures = service->set->checks.failed;
        upstream->sums.panic = service->set->checks.panic;
    }

    ngx_etcd_status_object_observer(upstream, service);

    if (service->table == NULL) {
        return;
    }

    refusal = ngx_etcd_no_member_now(service, service->set,
                                     ngx_etcd_no_member_count(service->table),
                                     &degraded);

    ngx_etcd_status_object_state(&upstream->state, &upstream->reason, refusal,
                                 degraded,
                                 ngx_etcd_no_member_unchanged(
                                                       service->set->state));

    /* the leader is used without a proof because it was confirmed */

    if (service->rules.failsafe) {
        upstream->leader.failsafe = ngx_etcd_member_set_staleness(service->set)
                             > (int64_t) service->rules.max_stale
                             && ngx_etcd_member_set_confirmed(service->set);
    }

    /* an upstream whose only peer is the leader */

    if (service->rules.sole) {
        upstream->leader.has_leader = ngx_etcd_table_ready(service->table);
        upstream->leader.terms = view->terms;
    }
}


void
ngx_etcd_status_object_election(ngx_etcd_status_election_t *election,
    ngx_etcd_campaign_t *campaign, ngx_uint_t ask)
{
    ngx_uint_t                      own;
    ngx_etcd_election_slot_view_t  *view;

    view = &election->view;

    election->name = campaign->name;
    election->cluster = campaign->cluster->name;
    election->prefix = campaign->key;
    election->has_leader = ngx_etcd_campaign_leader(campaign, view, &own)
                           == NGX_OK;
    election->leaders = campaign->slot->leaders;

    if (election->has_leader) {
        ngx_etcd_status_object_str(&election->leader, view->value,
                                   view->value_len);
        ngx_etcd_status_object_str(&election->leader_key, view->key,
                                   view->key_len);

    } else {
        ngx_str_null(&election->leader);
        ngx_str_null(&election->leader_key);
        view->created = 0;
        view->expires = 0;
    }

    election->revision = view->created;
    election->is_leader = own;

    if (ask) {
        election->remaining = ngx_etcd_campaign_remaining(campaign, view, own);
    }
}


void
ngx_etcd_status_object_lock(ngx_etcd_status_lock_t *lock,
    ngx_etcd_lock_name_t *name)
{
    ngx_uint_t              i;
    ngx_etcd_lock_stats_t  *stats;

    stats = name->stats;

    lock->name = name->name;
    lock->cluster = name->cluster->name;
    lock->lock = name;
    lock->held = ngx_etcd_gauge_sum(&stats->held);
    lock->waiting = ngx_etcd_gauge_sum(&stats->waiting);
    lock->acquired = stats->acquired;
    lock->timeouts = stats->timeouts;

    for (i = 0; i < NGX_ETCD_REFUSALS_OF_LOCK; i++) {
        lock->refused[i] = stats->refused[i];
    }

    lock->lost = lock->refused[NGX_ETCD_REFUSAL_LOCK_LOST
                               - NGX_ETCD_REFUSAL_LOCK_HELD];
    lock->handoffs = stats->handoffs;
}


static ngx_etcd_status_variable_state_e
ngx_etcd_status_object_variable_state(ngx_etcd_status_variable_t *variable,
    ngx_etcd_value_map_t *map, ngx_uint_t exact)
{
    ngx_uint_t  valid;

    valid = !exact || variable->revision != 0;

    if (map->state == NGX_ETCD_VALUE_DENIED) {
        return NGX_ETCD_STATUS_VARIABLE_DENIED;
    }

    if (variable->refused != NGX_ETCD_STATUS_ABSENT) {
        return valid ? NGX_ETCD_STATUS_VARIABLE_KEPT
                     : NGX_ETCD_STATUS_VARIABLE_INVALID;
    }

    if (map->state != NGX_ETCD_VALUE_SYNCED && (!exact || !valid)) {
        return NGX_ETCD_STATUS_VARIABLE_UNKNOWN;
    }

    return valid ? NGX_ETCD_STATUS_VARIABLE_SET
                 : NGX_ETCD_STATUS_VARIABLE_DEFAULT;
}


/* The value of a key without variables. */

static void
ngx_etcd_status_object_variable_value(ngx_etcd_status_variable_t *variable,
    ngx_etcd_set_variable_t *sv)
{
    ngx_str_t                  key = ngx_string("");
    ngx_etcd_value_map_read_t  read;

    ngx_memzero(&read, sizeof(ngx_etcd_value_map_read_t));

    read.part = NGX_ETCD_VALUE_MAP_TEXT;
    read.buf = sv->map->copy;

    if (ngx_etcd_value_map_get(sv->map, &key, &read) == NGX_OK) {
        variable->value = read.value;
    }

    variable->revision = read.modified;

    if (read.refused != 0) {
        variable->refused = read.refused;

        ngx_etcd_value_reason(read.source, sv->max_size,
                              variable->reason_text, &variable->reason);
    }
}


void
ngx_etcd_status_object_variable(ngx_etcd_status_variable_t *variable,
    ngx_etcd_set_variable_t *sv)
{
    ngx_etcd_value_map_t  *map;

    variable->name = sv->name;
    variable->cluster = sv->cluster->name;
    variable->key = sv->key;
    variable->refused = NGX_ETCD_STATUS_ABSENT;
    variable->values = NGX_ETCD_STATUS_ABSENT;
    variable->limit = NGX_ETCD_STATUS_ABSENT;
    variable->unused = NGX_ETCD_STATUS_ABSENT;
    variable->invalid = NGX_ETCD_STATUS_ABSENT;

    ngx_str_null(&variable->value);
    ngx_str_null(&variable->reason);
    ngx_str_set(&variable->otherwise, "");

    if (sv->type != NGX_ETCD_VALUE_PEM && sv->otherwise.data != NULL) {
        variable->otherwise = sv->otherwise;
    }

    map = sv->map->map;

    if (sv->map->exact) {
        ngx_etcd_status_object_variable_value(variable, sv);

    } else {

        /* values are not shown: there may be many, and private keys */

        variable->revision = map->revision;
        variable->values = map->map.n;
        variable->limit = sv->map->limit;
        variable->unused = map->over;
        variable->invalid = map->map.refused;
    }

    variable->state = ngx_etcd_status_variable_states[
                          ngx_etcd_status_object_variable_state(variable, map,
                                                            sv->map->exact)];
}


void
ngx_etcd_status_object_event(ngx_etcd_status_event_t *event,
    ngx_etcd_zone_event_t *change)
{
    static ngx_str_t  changes[] = {
        ngx_string("add"), ngx_string("update"), ngx_string("remove"),
        ngx_string("invalid")
    };

    u_char    *p;
    ngx_tm_t   tm;

    ngx_gmtime(change->time, &tm);

    p = ngx_sprintf(event->time_text, "%4d-%02d-%02dT%02d:%02d:%02d.%03uiZ",
                    tm.ngx_tm_year, tm.ngx_tm_mon, tm.ngx_tm_mday,
                    tm.ngx_tm_hour, tm.ngx_tm_min, tm.ngx_tm_sec,
                    change->msec);

    ngx_etcd_status_object_str(&event->time, event->time_text,
                               p - event->time_text);
    ngx_etcd_status_object_str(&event->upstream, change->name,
                               change->name_len);
    ngx_etcd_status_object_str(&event->key, change->key, change->key_len);

    event->change = changes[change->change & 3];
    event->revision = change->revision;
}
