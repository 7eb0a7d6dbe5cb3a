
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_source.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_agent.h>
#include <ngx_etcd_peer_data.h>
#include <ngx_etcd_db_space.h>
#include <ngx_etcd_server_versions.h>
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

ngx_str_t  ngx_etcd_status_member_states[] = {
    ngx_string("up"),
    ngx_string("backup"),
    ngx_string("drain"),
    ngx_string("down"),
    ngx_string("unresolved"),
    ngx_string("unproven"),
    ngx_string("unhealthy"),
    ngx_string("ejected"),
    ngx_string("held"),
    ngx_null_string
};

ngx_str_t  ngx_etcd_status_endpoint_states[] = {
    ngx_string("unused"),
    ngx_string("connecting"),
    ngx_string("connected"),
    ngx_string("failed"),
    ngx_null_string
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

        for (i = 0; i < cluster->known.n; i++) {
            ep = &cluster->known.list[i];

            ep->state = NGX_ETCD_ENDPOINT_UNUSED;
            ep->learned = 0;
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
    ngx_msec_int_t            silence;
    ngx_etcd_zone_cluster_t  *zc;

    zc = &ecf->zone.sh->cluster;
    silence = (ngx_msec_int_t) (ngx_current_msec - ecf->zone.sh->heartbeat);

    cluster->name = ecf->name;
    cluster->state = ngx_etcd_status_cluster_states[
                                    ngx_etcd_status_cluster_state(ecf)];

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
    cluster->visible = &ecf->zone.sh->visible;
    cluster->zone.size = ecf->zone_size;
    cluster->zone.used = ngx_etcd_zone_used(&ecf->zone);
    cluster->zone.stall = ecf->zone.sh->stall;

    ngx_etcd_status_object_database(cluster, ecf);
    ngx_etcd_status_object_endpoints(cluster, ecf);
}


void
ngx_etcd_status_object_upstream(ngx_etcd_status_upstream_t *upstream,
    ngx_etcd_conf_t *ecf, ngx_etcd_service_conf_t *service)
{
    ngx_memzero(upstream, sizeof(ngx_etcd_status_upstream_t));

    upstream->name = service->name;
    upstream->cluster = ecf->name;
    upstream->prefix = service->prefix;
    upstream->service = service;
    upstream->lowest = NGX_ETCD_MEMBER_MAX_PRIORITY;
    upstream->catalog = ngx_etcd_catalog_of(service);
    upstream->sets = NGX_ETCD_STATUS_ABSENT;
    upstream->limit = NGX_ETCD_STATUS_ABSENT;
    upstream->over = NGX_ETCD_STATUS_ABSENT;
    upstream->unmatched = NGX_ETCD_STATUS_ABSENT;
    upstream->tables = NGX_ETCD_STATUS_ABSENT;

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
    upstream->failsafe = NGX_ETCD_STATUS_ABSENT;
    upstream->has_leader = NGX_ETCD_STATUS_ABSENT;
    upstream->terms = NGX_ETCD_STATUS_ABSENT;
    upstream->ejections = NGX_ETCD_STATUS_ABSENT;
    upstream->holds = NGX_ETCD_STATUS_ABSENT;
    upstream->would_hold = NGX_ETCD_STATUS_ABSENT;
    upstream->held = NGX_ETCD_STATUS_ABSENT;
    upstream->checks = NGX_ETCD_STATUS_ABSENT;
    upstream->check_failures = NGX_ETCD_STATUS_ABSENT;
    upstream->panic = NGX_ETCD_STATUS_ABSENT;
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
    upstream->closed = ngx_etcd_status_object_closed(&catalog->service.rules);
    upstream->queued = catalog->service.rules.queue ? 0
                                                    : NGX_ETCD_STATUS_ABSENT;
    upstream->requests = map->requests;
    upstream->sets = map->map.n;
    upstream->limit = map->limit;
    upstream->over = map->over;
    upstream->unmatched = map->unmatched;
    upstream->tables = catalog->cache.n;
}


void
ngx_etcd_status_object_update(ngx_etcd_status_upstream_t *upstream,
    ngx_etcd_view_t *view)
{
    int64_t                   left;
    ngx_etcd_gauge_t         *waiting;
    ngx_etcd_service_conf_t  *service;

    service = upstream->service;
    waiting = service->set->waiting;

    upstream->generation = view->generation;
    upstream->revision = view->revision;
    upstream->ninvalid = view->ninvalid;
    ngx_etcd_status_unused(upstream->unused, view);
    upstream->staleness = ngx_etcd_source_staleness(service, service->set);
    upstream->waiting = waiting ? ngx_etcd_gauge_sum(waiting) : 0;
    upstream->closed = ngx_etcd_status_object_closed(&service->rules);
    upstream->queued = service->rules.queue
                       ? (int64_t) ngx_etcd_member_set_queue_sum(service->set)
                       : NGX_ETCD_STATUS_ABSENT;
    ngx_etcd_status_object_absent(upstream);

    if (service->guard.hold != 0) {
        upstream->holds = service->set->counts.holds;

        if (service->guard.dry) {
            upstream->would_hold = service->set->counts.dry_holds;
        }

        if (service->set->held_until != 0) {
            left = service->set->held_until - ngx_etcd_clock();
            upstream->held = ngx_max(left, 0) / 1000;
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
        upstream->checks = service->set->checks.done;
        upstream->check_failures = service->set->checks.failed;
        upstream->panic = service->set->checks.panic;
    }

    if (service->table == NULL) {
        return;
    }

    if (service->rules.failsafe) {
        upstream->failsafe = ngx_etcd_table_failsafe(service->table);
    }

    /* an upstream whose only peer is the leader */

    if (service->rules.sole) {
        upstream->has_leader = ngx_etcd_table_usable(service->table);
        upstream->terms = view->terms;
    }
}


static void
ngx_etcd_status_object_check(ngx_etcd_status_member_t *member,
    ngx_etcd_view_member_t *view)
{
    ngx_etcd_note_t  *note;

    note = &view->note;

    ngx_str_null(&member->check);
    member->check_for = NGX_ETCD_STATUS_ABSENT;
    member->check_took = NGX_ETCD_STATUS_ABSENT;
    member->check_row = NGX_ETCD_STATUS_ABSENT;
    member->check_up = NGX_ETCD_STATUS_ABSENT;

    if (note->result == NGX_ETCD_CHECK_NONE) {
        return;
    }

    ngx_etcd_check_result_text(note->result, note->status, member->check_text,
                               &member->check);

    member->check_for = ngx_max((int32_t) ((uint32_t) ngx_time()
                                           - note->since), 0);
    member->check_took = note->took;
    member->check_row = note->row;
    member->check_up = !(view->verdict & NGX_ETCD_VERDICT_CHECKS);
}


void
ngx_etcd_status_object_member(ngx_etcd_status_member_t *member,
    ngx_etcd_status_upstream_t *upstream, ngx_etcd_view_member_t *view)
{
    ngx_etcd_member_pack_t  record;

    ngx_etcd_member_pack_read(&record, view->payload);

    member->view = *view;
    member->address = record.name;
    member->name = record.name;
    member->weight = record.attr.weight;
    member->near = upstream->service->rules.spill ? record.attr.near
                                                  : NGX_ETCD_STATUS_ABSENT;
    member->state = ngx_etcd_status_member_states[
                  ngx_etcd_status_object_member_state(upstream->lowest,
                                                      &record, view)];
    member->ejected = NGX_ETCD_STATUS_ABSENT;

    if (view->note.until != 0) {
        member->ejected = ngx_max((int32_t) (view->note.until
                                             - (uint32_t) ngx_time()), 0);
    }

    ngx_etcd_status_object_check(member, view);

    member->cluster = upstream->cluster;
    member->module = upstream->module;
    member->upstream = upstream->name;
    member->set = upstream->set;

    ngx_str_null(&member->host);
    ngx_str_null(&member->reason);

    member->lease.data = view->lease ? member->lease_text : NULL;
    member->lease.len = ngx_sprintf(member->lease_text, "%xL", view->lease)
                        - member->lease_text;

    if (record.host.len != 0) {
        member->host.data = member->host_text;
        member->host.len = ngx_sprintf(member->host_text, "%V:%ui",
                                       &record.host, (ngx_uint_t) record.port)
                           - member->host_text;

        if (record.unresolved) {
            member->reason = record.name;

        } else if (record.refused + record.beyond != 0) {
            member->reason.data = member->reason_text;
            member->reason.len = ngx_snprintf(member->reason_text,
                                     sizeof(member->reason_text),
                                     "not all addresses of its host are used: "
                                     "%ui may not be, %ui are too many",
                                     record.refused, record.beyond)
                                 - member->reason_text;
        }
    }

    if (record.unresolved) {
        member->address = member->host;
    }
}


ngx_etcd_status_member_state_e
ngx_etcd_status_object_member_state(ngx_uint_t lowest,
    ngx_etcd_member_pack_t *record, ngx_etcd_view_member_t *view)
{
    ngx_etcd_member_attr_t  *attr;

    attr = &record->attr;

    if (record->unresolved) {
        return NGX_ETCD_STATUS_UNRESOLVED;
    }

    if (attr->down) {
        return NGX_ETCD_STATUS_DOWN;
    }

    if (attr->drain) {
        return NGX_ETCD_STATUS_DRAIN;
    }

    if (view->verdict & NGX_ETCD_VERDICT_UNPROVEN) {
        return NGX_ETCD_STATUS_UNPROVEN;
    }

    if (view->verdict & NGX_ETCD_VERDICT_FAILED) {
        return NGX_ETCD_STATUS_UNHEALTHY;
    }

    if (view->verdict & NGX_ETCD_VERDICT_EJECTED) {
        return NGX_ETCD_STATUS_EJECTED;
    }

    if (view->held) {
        return NGX_ETCD_STATUS_HELD;
    }

    return (attr->backup || attr->priority > lowest) ? NGX_ETCD_STATUS_BACKUP
                                                     : NGX_ETCD_STATUS_UP;
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
    ngx_etcd_lock_stats_t  *stats;

    stats = name->stats;

    lock->name = name->name;
    lock->cluster = name->cluster->name;
    lock->lock = name;
    lock->held = ngx_etcd_gauge_sum(&stats->held);
    lock->waiting = ngx_etcd_gauge_sum(&stats->waiting);
    lock->acquired = stats->acquired;
    lock->timeouts = stats->timeouts;
    lock->lost = stats->lost;
    lock->handoffs = stats->handoffs;
}


static void
ngx_etcd_status_object_variable_state(ngx_etcd_status_variable_t *variable,
    ngx_etcd_value_map_t *map, ngx_uint_t exact)
{
    if (map->state == NGX_ETCD_VALUE_DENIED) {
        ngx_str_set(&variable->state, "denied");

    } else if (exact && variable->refused != NGX_ETCD_STATUS_ABSENT) {
        ngx_str_set(&variable->state, "invalid");

    } else if (exact && variable->value.data != NULL) {
        ngx_str_set(&variable->state, "set");

    } else if (map->state != NGX_ETCD_VALUE_SYNCED) {
        ngx_str_set(&variable->state, "unknown");

    } else if (exact) {
        ngx_str_set(&variable->state, "default");

    } else {
        ngx_str_set(&variable->state, "set");
    }
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

    if (!sv->secret && sv->otherwise.data != NULL) {
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

    ngx_etcd_status_object_variable_state(variable, map, sv->map->exact);
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
