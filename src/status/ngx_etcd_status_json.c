
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The status as JSON.  jansson writes the small objects; this file writes the
 * text between them, and the members, which may be many.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_peer_data.h>
#include <ngx_etcd_status_json.h>


#define NGX_ETCD_STATUS_JSON_ROWS  16       /* rows of a list per step */


/* the stages of an upstream */

typedef enum {
    NGX_ETCD_STATUS_JSON_HEAD = 0,
    NGX_ETCD_STATUS_JSON_MEMBERS,
    NGX_ETCD_STATUS_JSON_LIST,
    NGX_ETCD_STATUS_JSON_INVALID
} ngx_etcd_status_json_stage_e;


static ngx_int_t ngx_etcd_status_json_head(ngx_etcd_status_t *status);
static ngx_int_t ngx_etcd_status_json_clusters(ngx_etcd_status_t *status);
static json_t *ngx_etcd_status_json_cluster(ngx_etcd_conf_t *ecf);
static json_t *ngx_etcd_status_json_endpoints(
    ngx_etcd_zone_endpoints_t *endpoints);
static json_t *ngx_etcd_status_json_endpoint(ngx_etcd_zone_endpoint_t *ep);
static ngx_int_t ngx_etcd_status_json_http(ngx_etcd_status_t *status);
static ngx_int_t ngx_etcd_status_json_stream(ngx_etcd_status_t *status);
static ngx_int_t ngx_etcd_status_json_upstreams(ngx_etcd_status_t *status,
    ngx_uint_t stream);
static ngx_int_t ngx_etcd_status_json_upstream(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream);
static ngx_int_t ngx_etcd_status_json_open(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream);
static ngx_int_t ngx_etcd_status_json_members(ngx_etcd_status_t *status,
    ngx_etcd_table_t *table);
static void ngx_etcd_status_json_member(ngx_etcd_writer_t *out,
    ngx_etcd_table_t *table, ngx_etcd_view_member_t *member);
static void ngx_etcd_status_json_reason(ngx_etcd_writer_t *out,
    ngx_etcd_member_pack_t *record);
static ngx_int_t ngx_etcd_status_json_list(ngx_etcd_status_t *status);
static void ngx_etcd_status_json_invalid(ngx_etcd_status_t *status);
static ngx_int_t ngx_etcd_status_json_elections(ngx_etcd_status_t *status);
static json_t *ngx_etcd_status_json_election(ngx_etcd_campaign_t *campaign);
static ngx_int_t ngx_etcd_status_json_zone(ngx_etcd_status_t *status);
static ngx_int_t ngx_etcd_status_json_events(ngx_etcd_status_t *status);
static ngx_int_t ngx_etcd_status_json_take_events(ngx_etcd_status_t *status,
    ngx_etcd_conf_t *ecf);
static json_t *ngx_etcd_status_json_event(ngx_etcd_zone_event_t *event);
static ngx_int_t ngx_etcd_status_json_pool(ngx_etcd_status_t *status);
static void ngx_etcd_status_json_comma(ngx_etcd_status_t *status);


const ngx_etcd_status_pt  ngx_etcd_status_json[] = {
    ngx_etcd_status_json_head,
    ngx_etcd_status_json_clusters,
    ngx_etcd_status_json_http,
    ngx_etcd_status_json_stream,
    ngx_etcd_status_json_elections,
    ngx_etcd_status_json_locks,
    ngx_etcd_status_json_settings,
    ngx_etcd_status_json_zone,
    ngx_etcd_status_json_events,
    NULL
};


/*
 * json_pack() takes the ownership of its "o" arguments; if one is NULL,
 * json_pack() fails and releases the others.
 */

static ngx_int_t
ngx_etcd_status_json_head(ngx_etcd_status_t *status)
{
    uint64_t           owner;
    ngx_etcd_conf_t  **ecf;

    ecf = status->conf->clusters.elts;
    owner = status->conf->clusters.nelts ? ngx_etcd_zone_owner(&ecf[0]->zone)
                                         : 0;

    ngx_etcd_writer_literal(&status->out, "{");
    ngx_etcd_writer_json(&status->out,
                         json_pack("{s:s, s:s, s:{s:I, s:I}}",
                             "version", NGX_ETCD_VERSION,
                             "nginx", NGINX_VERSION,
                             "agent",
                             "pid",
                             (json_int_t) ngx_etcd_zone_owner_pid(owner),
                             "epoch",
                             (json_int_t) ngx_etcd_zone_owner_epoch(owner)),
                         JSON_EMBED);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_status_json_clusters(ngx_etcd_status_t *status)
{
    ngx_etcd_conf_t  *ecf;

    ngx_etcd_status_json_begin(status, ",\"clusters\":{");

    ecf = ngx_etcd_status_cluster(status);

    if (ecf == NULL) {
        ngx_etcd_writer_literal(&status->out, "}");
        return NGX_OK;
    }

    ngx_etcd_status_json_name(status, &ecf->name);
    ngx_etcd_writer_json(&status->out, ngx_etcd_status_json_cluster(ecf), 0);

    status->row++;

    return NGX_AGAIN;
}


static json_t *
ngx_etcd_status_json_cluster(ngx_etcd_conf_t *ecf)
{
    u_char                     id[NGX_INT64_LEN];
    json_t                    *current;
    ngx_etcd_zone_cluster_t   *zc;
    ngx_etcd_zone_endpoint_t  *ep;
    ngx_etcd_zone_endpoints_t  endpoints;

    zc = &ecf->zone.sh->cluster;

    ngx_etcd_status_endpoints(ecf, &endpoints);

    if (endpoints.current < 0) {
        current = json_string("");

    } else {
        ep = &endpoints.list[endpoints.current];
        current = ngx_etcd_writer_string(ep->url, ep->url_len);
    }

    *ngx_sprintf(id, "%xL", zc->cluster_id) = '\0';

    return json_pack("{s:s, s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:I}",
                     "state", ngx_etcd_status_cluster_state(ecf),
                     "endpoint", current,
                     "endpoints", ngx_etcd_status_json_endpoints(&endpoints),
                     "cluster_id", (char *) id,
                     "revision", (json_int_t) ngx_etcd_peer_data_known(ecf),
                     "staleness_ms",
                     (json_int_t) ngx_etcd_zone_staleness(&ecf->zone),
                     "reconnects", (json_int_t) zc->reconnects,
                     "resyncs", (json_int_t) zc->resyncs,
                     "repairs", (json_int_t) zc->repairs);
}


static json_t *
ngx_etcd_status_json_endpoints(ngx_etcd_zone_endpoints_t *endpoints)
{
    json_t      *list;
    ngx_uint_t   i;

    list = json_array();

    for (i = 0; i < endpoints->n; i++) {
        if (json_array_append_new(list,
                          ngx_etcd_status_json_endpoint(&endpoints->list[i]))
            != 0)
        {
            json_decref(list);
            return NULL;
        }
    }

    return list;
}


static json_t *
ngx_etcd_status_json_endpoint(ngx_etcd_zone_endpoint_t *ep)
{
    json_t  *item;

    item = json_pack("{s:o, s:s}",
                     "url", ngx_etcd_writer_string(ep->url, ep->url_len),
                     "state", ngx_etcd_status_endpoint_states[ep->state & 3]);

    if (item != NULL && ep->learned
        && json_object_set_new(item, "learned", json_true()) != 0)
    {
        json_decref(item);
        return NULL;
    }

    return item;
}


static ngx_int_t
ngx_etcd_status_json_http(ngx_etcd_status_t *status)
{
    ngx_etcd_status_json_begin(status, ",\"upstreams\":{");

    return ngx_etcd_status_json_upstreams(status, 0);
}


static ngx_int_t
ngx_etcd_status_json_stream(ngx_etcd_status_t *status)
{
    ngx_etcd_status_json_begin(status, ",\"stream_upstreams\":{");

    return ngx_etcd_status_json_upstreams(status, 1);
}


static ngx_int_t
ngx_etcd_status_json_upstreams(ngx_etcd_status_t *status, ngx_uint_t stream)
{
    ngx_int_t                    rc;
    ngx_etcd_status_upstream_t  *upstream;

    upstream = ngx_etcd_status_upstream(status);

    while (upstream != NULL && upstream->service->stream != stream) {
        status->row++;
        upstream = ngx_etcd_status_upstream(status);
    }

    if (upstream == NULL) {
        ngx_etcd_writer_literal(&status->out, "}");
        return NGX_OK;
    }

    rc = ngx_etcd_status_json_upstream(status, upstream);

    if (rc != NGX_OK) {
        return rc;
    }

    ngx_etcd_status_destroy(status);

    /* the next upstream is preceded by a comma */

    status->row++;
    status->stage = NGX_ETCD_STATUS_JSON_HEAD;
    status->items = 1;

    return NGX_AGAIN;
}


static ngx_int_t
ngx_etcd_status_json_upstream(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t  rc;

    switch (status->stage) {

    case NGX_ETCD_STATUS_JSON_HEAD:
        rc = ngx_etcd_status_json_open(status, upstream);
        break;

    case NGX_ETCD_STATUS_JSON_MEMBERS:
        rc = ngx_etcd_status_json_members(status, &upstream->service->table);
        break;

    case NGX_ETCD_STATUS_JSON_LIST:
        rc = ngx_etcd_status_json_list(status);
        break;

    default: /* NGX_ETCD_STATUS_JSON_INVALID */
        ngx_etcd_status_json_invalid(status);

        if (status->items == status->list.nelts) {
            ngx_etcd_writer_literal(&status->out, "]}");
            return NGX_OK;
        }

        return NGX_AGAIN;
    }

    if (rc == NGX_OK) {
        status->stage++;
        status->items = 0;
        rc = NGX_AGAIN;
    }

    return rc;
}


static ngx_int_t
ngx_etcd_status_json_open(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t                 rc;
    ngx_etcd_service_conf_t  *service;

    service = upstream->service;

    rc = ngx_etcd_status_open(status, service);
    if (rc != NGX_OK) {
        return rc;
    }

    ngx_etcd_status_json_name(status, &service->name);
    ngx_etcd_writer_literal(&status->out, "{");
    ngx_etcd_writer_json(&status->out,
                         json_pack("{s:o, s:o, s:s, s:I, s:I, s:I, s:I}",
                             "cluster",
                             ngx_etcd_writer_str(&upstream->cluster->name),
                             "prefix", ngx_etcd_writer_str(&service->prefix),
                             "kind", service->source->kind,
                             "generation",
                             (json_int_t) status->view.generation,
                             "revision", (json_int_t) status->view.revision,
                             "staleness_ms",
                             (json_int_t) ngx_etcd_service_staleness(service),
                             "waiting",
                             (json_int_t) ngx_etcd_status_waiting(service)),
                         JSON_EMBED);

    if (service->rules.failsafe) {
        ngx_etcd_writer_printf(&status->out, ",\"failsafe\":%s",
                               ngx_etcd_table_failsafe(&service->table)
                               ? "true" : "false");
    }

    ngx_etcd_writer_literal(&status->out, ",\"members\":[");

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_status_json_members(ngx_etcd_status_t *status,
    ngx_etcd_table_t *table)
{
    ngx_int_t   rc;
    ngx_uint_t  i;

    rc = ngx_etcd_status_read(status);

    if (rc == NGX_BUSY) {
        return NGX_BUSY;
    }

    for (i = 0; i < status->view.n; i++) {
        ngx_etcd_status_json_comma(status);
        ngx_etcd_status_json_member(&status->out, table,
                                    &status->view.members[i]);
    }

    if (rc == NGX_DONE) {
        ngx_etcd_writer_literal(&status->out, "],\"invalid\":[");
        return NGX_OK;
    }

    return NGX_AGAIN;
}


static void
ngx_etcd_status_json_member(ngx_etcd_writer_t *out, ngx_etcd_table_t *table,
    ngx_etcd_view_member_t *member)
{
    char                    *state;
    u_char                   buf[NGX_ETCD_MEMBER_MAX_HOST + sizeof(":65535")];
    ngx_str_t                host;
    ngx_etcd_member_pack_t   record;

    ngx_etcd_member_pack_read(&record, member->payload);

    host.len = 0;

    if (record.host.len != 0) {
        host.data = buf;
        host.len = ngx_sprintf(buf, "%V:%ui", &record.host,
                               (ngx_uint_t) record.port)
                   - buf;
    }

    ngx_etcd_writer_literal(out, "{\"key\":");
    ngx_etcd_writer_text(out, &member->key);

    ngx_etcd_writer_literal(out, ",\"address\":");
    ngx_etcd_writer_text(out, record.unresolved ? &host : &record.name);

    if (host.len != 0) {
        ngx_etcd_writer_literal(out, ",\"host\":");
        ngx_etcd_writer_text(out, &host);
        ngx_etcd_status_json_reason(out, &record);
    }

    ngx_etcd_writer_literal(out, ",\"weight\":");
    ngx_etcd_writer_number(out, record.attr.weight);

    ngx_etcd_writer_literal(out, ",\"state\":\"");
    state = ngx_etcd_status_member_states[
                                 ngx_etcd_status_member_state(table, &record)];
    ngx_etcd_writer_bytes(out, state, ngx_strlen(state));

    ngx_etcd_writer_literal(out, "\",\"conns\":");
    ngx_etcd_writer_number(out, member->conns);

    ngx_etcd_writer_literal(out, ",\"fails\":");
    ngx_etcd_writer_number(out, member->fails);

    ngx_etcd_writer_literal(out, ",\"requests\":");
    ngx_etcd_writer_number(out, member->requests);

    ngx_etcd_writer_literal(out, ",\"mod_revision\":");
    ngx_etcd_writer_number(out, member->mod_revision);

    ngx_etcd_writer_literal(out, "}");
}


/* Writes why addresses of a host are not used, if so. */

static void
ngx_etcd_status_json_reason(ngx_etcd_writer_t *out,
    ngx_etcd_member_pack_t *record)
{
    if (record->unresolved) {
        ngx_etcd_writer_literal(out, ",\"reason\":");
        ngx_etcd_writer_text(out, &record->name);

    } else if (record->refused + record->beyond != 0) {
        ngx_etcd_writer_printf(out, ",\"reason\":\"not all addresses of its "
                               "host are used: %ui may not be, %ui are too "
                               "many\"", record->refused, record->beyond);
    }
}


static ngx_int_t
ngx_etcd_status_json_list(ngx_etcd_status_t *status)
{
    ngx_int_t  rc;

    if (ngx_etcd_status_json_pool(status) != NGX_OK) {
        return NGX_ERROR;
    }

    status->list.nelts = 0;

    rc = ngx_etcd_view_invalid(&status->view, status->temp, &status->list);

    switch (rc) {

    case NGX_AGAIN:
        return NGX_BUSY;

    case NGX_ERROR:
        return NGX_ERROR;

    default: /* NGX_OK, NGX_DECLINED */
        return NGX_OK;
    }
}


static void
ngx_etcd_status_json_invalid(ngx_etcd_status_t *status)
{
    json_t                   *item;
    ngx_uint_t                n;
    ngx_etcd_view_invalid_t  *invalid;

    invalid = status->list.elts;

    for (n = 0;
         n < NGX_ETCD_STATUS_JSON_ROWS && status->items < status->list.nelts;
         n++)
    {
        item = json_pack("{s:o, s:o, s:I}",
                         "key",
                         ngx_etcd_writer_str(&invalid[status->items].key),
                         "reason",
                         ngx_etcd_writer_str(&invalid[status->items].reason),
                         "mod_revision",
                         (json_int_t) invalid[status->items].mod_revision);

        ngx_etcd_status_json_item(status, item);
    }
}


static ngx_int_t
ngx_etcd_status_json_elections(ngx_etcd_status_t *status)
{
    ngx_etcd_campaign_t  *campaign;

    ngx_etcd_status_json_begin(status, ",\"elections\":{");

    campaign = ngx_etcd_status_election(status);

    if (campaign == NULL) {
        ngx_etcd_writer_literal(&status->out, "}");
        return NGX_OK;
    }

    ngx_etcd_status_json_name(status, &campaign->name);
    ngx_etcd_writer_json(&status->out,
                         ngx_etcd_status_json_election(campaign), 0);

    status->row++;

    return NGX_AGAIN;
}


static json_t *
ngx_etcd_status_json_election(ngx_etcd_campaign_t *campaign)
{
    json_t                *leader, *key;
    ngx_etcd_seat_view_t   view;

    if (ngx_etcd_campaign_leader(campaign, &view) == NGX_OK) {
        leader = ngx_etcd_writer_string(view.value, view.value_len);
        key = ngx_etcd_writer_string(view.key, view.key_len);

    } else {
        leader = json_null();
        key = json_null();
        view.created = 0;
        view.expires = 0;
    }

    return json_pack("{s:o, s:o, s:o, s:I, s:b, s:I}",
                     "prefix", ngx_etcd_writer_str(&campaign->key),
                     "leader", leader,
                     "leader_key", key,
                     "revision", (json_int_t) view.created,
                     "is_leader", (int) ngx_etcd_campaign_leads(campaign),
                     "remaining_ms",
                     (json_int_t) ngx_etcd_campaign_remaining(campaign,
                                                              &view));
}


static ngx_int_t
ngx_etcd_status_json_zone(ngx_etcd_status_t *status)
{
    size_t             size, used;
    ngx_uint_t         i, stall;
    ngx_etcd_conf_t  **ecf;

    ecf = status->conf->clusters.elts;
    size = 0;
    used = 0;
    stall = 0;

    for (i = 0; i < status->conf->clusters.nelts; i++) {
        size += ecf[i]->zone_size;
        used += ngx_etcd_zone_used(&ecf[i]->zone);
        stall = ngx_max(stall, ecf[i]->zone.sh->stall);
    }

    ngx_etcd_writer_literal(&status->out, ",\"zone\":");
    ngx_etcd_writer_json(&status->out,
                         json_pack("{s:I, s:I, s:I}",
                                   "size", (json_int_t) size,
                                   "used", (json_int_t) used,
                                   "stall_us", (json_int_t) stall),
                         0);

    return NGX_OK;
}


/* Stage 0: copy the events of a cluster; stage n: n - 1 events are written. */

static ngx_int_t
ngx_etcd_status_json_events(ngx_etcd_status_t *status)
{
    ngx_uint_t              n;
    ngx_etcd_conf_t        *ecf;
    ngx_etcd_zone_event_t  *event;

    ngx_etcd_status_json_begin(status, ",\"events\":[");

    ecf = ngx_etcd_status_cluster(status);

    if (ecf == NULL) {
        ngx_etcd_writer_literal(&status->out, "]}\n");
        return NGX_OK;
    }

    if (status->stage == 0) {
        return ngx_etcd_status_json_take_events(status, ecf);
    }

    for (n = 0; n < NGX_ETCD_STATUS_JSON_ROWS; n++) {

        if (status->stage > status->list.nelts) {
            status->row++;
            status->stage = 0;
            break;
        }

        event = status->list.elts;
        event += status->stage - 1;

        ngx_etcd_status_json_item(status, ngx_etcd_status_json_event(event));
        status->stage++;
    }

    return NGX_AGAIN;
}


static ngx_int_t
ngx_etcd_status_json_take_events(ngx_etcd_status_t *status,
    ngx_etcd_conf_t *ecf)
{
    if (ngx_etcd_status_json_pool(status) != NGX_OK
        || ngx_array_init(&status->list, status->temp, NGX_ETCD_ZONE_EVENTS,
                          sizeof(ngx_etcd_zone_event_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_etcd_zone_get_events(&ecf->zone, status->list.elts,
                                 &status->list.nelts)
        != NGX_OK)
    {
        return NGX_BUSY;
    }

    status->stage = 1;

    return NGX_AGAIN;
}


static json_t *
ngx_etcd_status_json_event(ngx_etcd_zone_event_t *event)
{
    static char  *changes[] = { "add", "update", "remove", "invalid" };

    u_char    *p;
    u_char     buf[sizeof("2026-11-20T12:00:00.000Z")];
    ngx_tm_t   tm;

    ngx_gmtime(event->time, &tm);

    p = ngx_sprintf(buf, "%4d-%02d-%02dT%02d:%02d:%02d.%03uiZ",
                    tm.ngx_tm_year, tm.ngx_tm_mon, tm.ngx_tm_mday,
                    tm.ngx_tm_hour, tm.ngx_tm_min, tm.ngx_tm_sec,
                    event->msec);

    return json_pack("{s:o, s:o, s:o, s:s, s:I}",
                     "time", ngx_etcd_writer_string(buf, p - buf),
                     "upstream", ngx_etcd_writer_string(event->name,
                                                        event->name_len),
                     "key", ngx_etcd_writer_string(event->key,
                                                   event->key_len),
                     "change", changes[event->change & 3],
                     "revision", (json_int_t) event->revision);
}


/* Creates an empty pool for a list. */

static ngx_int_t
ngx_etcd_status_json_pool(ngx_etcd_status_t *status)
{
    ngx_etcd_status_destroy(status);

    status->temp = ngx_create_pool(4096, status->pool->log);

    return (status->temp != NULL) ? NGX_OK : NGX_ERROR;
}


void
ngx_etcd_status_json_item(ngx_etcd_status_t *status, json_t *item)
{
    ngx_etcd_status_json_comma(status);
    ngx_etcd_writer_json(&status->out, item, 0);
}


static void
ngx_etcd_status_json_comma(ngx_etcd_status_t *status)
{
    if (status->items++ != 0) {
        ngx_etcd_writer_literal(&status->out, ",");
    }
}


void
ngx_etcd_status_json_name(ngx_etcd_status_t *status, ngx_str_t *name)
{
    ngx_etcd_status_json_item(status, ngx_etcd_writer_str(name));
    ngx_etcd_writer_literal(&status->out, ":");
}


void
ngx_etcd_status_json_begin(ngx_etcd_status_t *status, const char *text)
{
    if (!status->begun) {
        status->begun = 1;
        ngx_etcd_writer_bytes(&status->out, text, ngx_strlen(text));
    }
}
