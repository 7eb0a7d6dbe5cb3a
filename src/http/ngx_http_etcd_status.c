
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <jansson.h>
#include <ngx_etcd_agent.h>
#include <ngx_etcd_record.h>
#include <ngx_http_etcd_module.h>


/* members that are copied under the zone's mutex at one time: a chunk */

#define NGX_HTTP_ETCD_STATUS_SLOTS  NGX_ETCD_SET_SLOTS


static ngx_int_t ngx_http_etcd_status_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_etcd_status_send(ngx_http_request_t *r,
    json_t *root);

static json_t *ngx_http_etcd_status_root(ngx_etcd_main_conf_t *emcf);
static json_t *ngx_http_etcd_status_clusters(ngx_etcd_main_conf_t *emcf);
static json_t *ngx_http_etcd_status_cluster(ngx_etcd_conf_t *ecf);
static char *ngx_http_etcd_status_state(ngx_etcd_conf_t *ecf);
static json_t *ngx_http_etcd_status_endpoints(ngx_etcd_conf_t *ecf);
static json_t *ngx_http_etcd_status_upstreams(ngx_etcd_main_conf_t *emcf,
    ngx_uint_t stream);
static json_t *ngx_http_etcd_status_upstream(ngx_etcd_conf_t *ecf,
    ngx_etcd_service_conf_t *service);
static json_t *ngx_http_etcd_status_members(ngx_etcd_service_conf_t *service);
static json_t *ngx_http_etcd_status_member(ngx_etcd_slot_t *slot);
static char *ngx_http_etcd_status_member_state(ngx_etcd_member_attr_t *attr);
static json_t *ngx_http_etcd_status_invalid(ngx_etcd_service_conf_t *service);
static json_t *ngx_http_etcd_status_zone(ngx_etcd_main_conf_t *emcf);
static json_t *ngx_http_etcd_status_events(ngx_etcd_main_conf_t *emcf);
static json_t *ngx_http_etcd_status_event(ngx_etcd_zone_event_t *event);
static json_t *ngx_http_etcd_status_string(u_char *data, size_t len);
static json_t *ngx_http_etcd_status_str(ngx_str_t *str);


char *
ngx_http_etcd_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t                 *value;
    ngx_http_core_loc_conf_t  *clcf;

    value = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "json") != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid status format \"%V\", there is: json",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->handler == ngx_http_etcd_status_handler) {
        return "is duplicate";
    }

    clcf->handler = ngx_http_etcd_status_handler;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_etcd_status_handler(ngx_http_request_t *r)
{
    json_t                *root;
    ngx_int_t              rc;
    ngx_etcd_main_conf_t  *emcf;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    emcf = (ngx_etcd_main_conf_t *) ngx_get_conf(ngx_cycle->conf_ctx,
                                                 ngx_etcd_module);

    root = ngx_http_etcd_status_root(emcf);

    if (root == NULL) {

        /* no memory, or a zone's mutex held by a process that does not run */

        return NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    rc = ngx_http_etcd_status_send(r, root);

    json_decref(root);

    return rc;
}


static ngx_int_t
ngx_http_etcd_status_send(ngx_http_request_t *r, json_t *root)
{
    size_t        size;
    ngx_int_t     rc;
    ngx_buf_t    *b;
    ngx_chain_t   out;

    size = json_dumpb(root, NULL, 0, JSON_COMPACT);

    if (size == 0) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b = ngx_create_temp_buf(r->pool, size + 1);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b->last += json_dumpb(root, (char *) b->pos, size, JSON_COMPACT);
    *b->last++ = '\n';

    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = b->last - b->pos;
    ngx_str_set(&r->headers_out.content_type, "application/json");
    r->headers_out.content_type_len = r->headers_out.content_type.len;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


/*
 * json_pack() takes over what it is given ("o"), fails as a whole on a NULL
 * among it, and releases the rest then.
 */

static json_t *
ngx_http_etcd_status_root(ngx_etcd_main_conf_t *emcf)
{
    uint64_t           owner;
    ngx_etcd_conf_t  **ecf;

    ecf = emcf->clusters.elts;
    owner = emcf->clusters.nelts ? ngx_etcd_zone_owner(&ecf[0]->zone) : 0;

    return json_pack("{s:s, s:s, s:{s:I, s:I}, s:o, s:o, s:o, s:{}, s:{}, "
                     "s:o, s:o}",
                     "version", NGX_ETCD_VERSION,
                     "nginx", NGINX_VERSION,
                     "agent",
                     "pid", (json_int_t) ngx_etcd_zone_owner_pid(owner),
                     "epoch", (json_int_t) ngx_etcd_zone_owner_epoch(owner),
                     "clusters", ngx_http_etcd_status_clusters(emcf),
                     "upstreams", ngx_http_etcd_status_upstreams(emcf, 0),
                     "stream_upstreams",
                     ngx_http_etcd_status_upstreams(emcf, 1),
                     "elections",
                     "locks",
                     "zone", ngx_http_etcd_status_zone(emcf),
                     "events", ngx_http_etcd_status_events(emcf));
}


static json_t *
ngx_http_etcd_status_clusters(ngx_etcd_main_conf_t *emcf)
{
    json_t            *clusters;
    ngx_uint_t         i;
    ngx_etcd_conf_t  **ecf;

    clusters = json_object();
    ecf = emcf->clusters.elts;

    for (i = 0; i < emcf->clusters.nelts; i++) {
        if (json_object_set_new(clusters, (char *) ecf[i]->name.data,
                                ngx_http_etcd_status_cluster(ecf[i]))
            != 0)
        {
            json_decref(clusters);
            return NULL;
        }
    }

    return clusters;
}


static json_t *
ngx_http_etcd_status_cluster(ngx_etcd_conf_t *ecf)
{
    u_char                    id[NGX_INT64_LEN];
    ngx_int_t                 endpoint;
    ngx_str_t                 none;
    ngx_etcd_endpoint_t      *endpoints;
    ngx_etcd_zone_cluster_t  *zc;

    zc = &ecf->zone.sh->cluster;
    endpoints = ecf->client.endpoints.elts;
    endpoint = zc->endpoint;

    ngx_str_null(&none);

    if (endpoint < 0 || endpoint >= (ngx_int_t) ecf->client.endpoints.nelts) {
        endpoint = -1;
    }

    *ngx_sprintf(id, "%xL", zc->cluster_id) = '\0';

    return json_pack("{s:s, s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:I}",
                     "state", ngx_http_etcd_status_state(ecf),
                     "endpoint",
                     ngx_http_etcd_status_str(endpoint < 0 ? &none
                                              : &endpoints[endpoint].url),
                     "endpoints", ngx_http_etcd_status_endpoints(ecf),
                     "cluster_id", (char *) id,
                     "revision", (json_int_t) zc->revision,
                     "staleness_ms",
                     (json_int_t) ngx_etcd_conf_staleness(ecf),
                     "reconnects", (json_int_t) zc->reconnects,
                     "resyncs", (json_int_t) zc->resyncs,
                     "repairs", (json_int_t) zc->repairs);
}


/* "synced" is said only when every prefix was read */

static char *
ngx_http_etcd_status_state(ngx_etcd_conf_t *ecf)
{
    ngx_uint_t                 i;
    ngx_etcd_set_state_e       state;
    ngx_etcd_service_conf_t  **services;

    switch (ecf->zone.sh->cluster.state) {

    case NGX_ETCD_AGENT_IDLE:
        return "idle";

    case NGX_ETCD_AGENT_CONNECTING:
        return "connecting";

    case NGX_ETCD_AGENT_UNAUTHORIZED:
        return "unauthorized";

    default:
        break;
    }

    services = ecf->services.elts;

    for (i = 0; i < ecf->services.nelts; i++) {
        state = services[i]->set->state;

        switch (state) {

        case NGX_ETCD_SET_SYNCED:
            break;

        case NGX_ETCD_SET_LOADING:
            return "syncing";

        case NGX_ETCD_SET_DENIED:
            return "denied";

        case NGX_ETCD_SET_FULL:
            return "zone full";
        }
    }

    return "synced";
}


static json_t *
ngx_http_etcd_status_endpoints(ngx_etcd_conf_t *ecf)
{
    static char  *states[] = { "unused", "connecting", "connected", "failed" };

    json_t                   *list;
    ngx_uint_t                i;
    ngx_etcd_endpoint_t      *endpoints;
    ngx_etcd_zone_cluster_t  *zc;

    list = json_array();
    zc = &ecf->zone.sh->cluster;
    endpoints = ecf->client.endpoints.elts;

    for (i = 0; i < ecf->client.endpoints.nelts; i++) {
        if (json_array_append_new(list,
                       json_pack("{s:o, s:s}",
                                 "url",
                                 ngx_http_etcd_status_str(&endpoints[i].url),
                                 "state", states[zc->endpoints[i] & 3]))
            != 0)
        {
            json_decref(list);
            return NULL;
        }
    }

    return list;
}


static json_t *
ngx_http_etcd_status_upstreams(ngx_etcd_main_conf_t *emcf, ngx_uint_t stream)
{
    json_t                    *upstreams;
    ngx_uint_t                 i, n;
    ngx_etcd_conf_t          **ecf;
    ngx_etcd_service_conf_t  **services;

    upstreams = json_object();
    ecf = emcf->clusters.elts;

    for (i = 0; i < emcf->clusters.nelts; i++) {
        services = ecf[i]->services.elts;

        for (n = 0; n < ecf[i]->services.nelts; n++) {

            if (services[n]->stream != stream) {
                continue;
            }

            if (json_object_set_new(upstreams,
                                    (char *) services[n]->name.data,
                                    ngx_http_etcd_status_upstream(ecf[i],
                                                                  services[n]))
                != 0)
            {
                json_decref(upstreams);
                return NULL;
            }
        }
    }

    return upstreams;
}


static json_t *
ngx_http_etcd_status_upstream(ngx_etcd_conf_t *ecf,
    ngx_etcd_service_conf_t *service)
{
    return json_pack("{s:o, s:o, s:s, s:I, s:I, s:o, s:o}",
                     "cluster", ngx_http_etcd_status_str(&ecf->name),
                     "prefix", ngx_http_etcd_status_str(&service->prefix),
                     "kind", "members",
                     "generation", (json_int_t) service->set->generation,
                     "revision", (json_int_t) service->set->revision,
                     "members", ngx_http_etcd_status_members(service),
                     "invalid", ngx_http_etcd_status_invalid(service));
}


static json_t *
ngx_http_etcd_status_members(ngx_etcd_service_conf_t *service)
{
    json_t           *members;
    ngx_uint_t        n, locked;
    ngx_etcd_slot_t  *slot;

    members = json_array();
    locked = 0;

    for (n = 0; members != NULL; n++) {

        if (n % NGX_HTTP_ETCD_STATUS_SLOTS == 0) {

            if (locked) {
                ngx_etcd_zone_unlock(service->zone);
            }

            locked = (ngx_etcd_zone_lock_patient(service->zone) == NGX_OK);

            if (!locked) {
                json_decref(members);
                return NULL;
            }
        }

        slot = ngx_etcd_set_slot(service->set, n);

        if (slot == NULL) {
            break;
        }

        if (slot->entry != NULL
            && json_array_append_new(members,
                                     ngx_http_etcd_status_member(slot))
               != 0)
        {
            json_decref(members);
            members = NULL;
        }
    }

    if (locked) {
        ngx_etcd_zone_unlock(service->zone);
    }

    return members;
}


static json_t *
ngx_http_etcd_status_member(ngx_etcd_slot_t *slot)
{
    ngx_etcd_entry_t   *entry;
    ngx_etcd_record_t   record;

    entry = slot->entry;

    ngx_etcd_record_unpack(&record, ngx_etcd_entry_payload(entry));

    return json_pack("{s:o, s:o, s:I, s:s, s:I, s:I, s:I, s:I}",
                     "key",
                     ngx_http_etcd_status_string(ngx_etcd_entry_key(entry),
                                                 entry->key_len),
                     "address", ngx_http_etcd_status_str(&record.name),
                     "weight", (json_int_t) record.attr.weight,
                     "state",
                     ngx_http_etcd_status_member_state(&record.attr),
                     "conns",
                     (json_int_t) ngx_etcd_counter_get(&slot->conns,
                                                       slot->uid),
                     "fails",
                     (json_int_t) ngx_etcd_counter_get(&slot->fails,
                                                       slot->uid),
                     "requests", (json_int_t) slot->requests,
                     "mod_revision", (json_int_t) entry->mod_revision);
}


static char *
ngx_http_etcd_status_member_state(ngx_etcd_member_attr_t *attr)
{
    if (attr->down) {
        return "down";
    }

    if (attr->drain) {
        return "drain";
    }

    return attr->backup ? "backup" : "up";
}


static json_t *
ngx_http_etcd_status_invalid(ngx_etcd_service_conf_t *service)
{
    json_t              *list, *item;
    ngx_etcd_invalid_t  *invalid;

    if (ngx_etcd_zone_lock_patient(service->zone) != NGX_OK) {
        return NULL;
    }

    list = json_array();

    for (invalid = service->set->invalid;
         invalid != NULL && list != NULL;
         invalid = invalid->next)
    {
        item = json_pack("{s:o, s:o, s:I}",
                         "key",
                         ngx_http_etcd_status_string(invalid->bytes,
                                                     invalid->key_len),
                         "reason",
                         ngx_http_etcd_status_string(invalid->bytes
                                                     + invalid->key_len,
                                                     invalid->len),
                         "mod_revision", (json_int_t) invalid->mod_revision);

        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            list = NULL;
        }
    }

    ngx_etcd_zone_unlock(service->zone);

    return list;
}


static json_t *
ngx_http_etcd_status_zone(ngx_etcd_main_conf_t *emcf)
{
    size_t             size, used;
    ngx_uint_t         i;
    ngx_etcd_conf_t  **ecf;

    ecf = emcf->clusters.elts;
    size = 0;
    used = 0;

    for (i = 0; i < emcf->clusters.nelts; i++) {
        size += ecf[i]->zone_size;
        used += ngx_etcd_zone_used(&ecf[i]->zone);
    }

    return json_pack("{s:I, s:I}", "size", (json_int_t) size,
                     "used", (json_int_t) used);
}


/* the newest first */

static json_t *
ngx_http_etcd_status_events(ngx_etcd_main_conf_t *emcf)
{
    json_t                   *list;
    ngx_uint_t                i, n, oldest;
    ngx_etcd_conf_t         **ecf;
    ngx_etcd_zone_shared_t   *sh;

    list = json_array();
    ecf = emcf->clusters.elts;

    for (i = 0; i < emcf->clusters.nelts && list != NULL; i++) {

        if (ngx_etcd_zone_lock_patient(&ecf[i]->zone) != NGX_OK) {
            json_decref(list);
            return NULL;
        }

        sh = ecf[i]->zone.sh;
        oldest = (sh->nevents > NGX_ETCD_ZONE_EVENTS)
                 ? sh->nevents - NGX_ETCD_ZONE_EVENTS : 0;

        for (n = sh->nevents; n > oldest && list != NULL; n--) {
            if (json_array_append_new(list,
                       ngx_http_etcd_status_event(&sh->events[(n - 1)
                                                    % NGX_ETCD_ZONE_EVENTS]))
                != 0)
            {
                json_decref(list);
                list = NULL;
            }
        }

        ngx_etcd_zone_unlock(&ecf[i]->zone);
    }

    return list;
}


static json_t *
ngx_http_etcd_status_event(ngx_etcd_zone_event_t *event)
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
                     "time", ngx_http_etcd_status_string(buf, p - buf),
                     "upstream", ngx_http_etcd_status_string(event->name,
                                                             event->name_len),
                     "key", ngx_http_etcd_status_string(event->key,
                                                        event->key_len),
                     "change", changes[event->change & 3],
                     "revision", (json_int_t) event->revision);
}


static json_t *
ngx_http_etcd_status_str(ngx_str_t *str)
{
    return ngx_http_etcd_status_string(str->data, str->len);
}


/* keys are bytes: where they are no UTF-8 they are shown escaped */

static json_t *
ngx_http_etcd_status_string(u_char *data, size_t len)
{
    u_char  *buf, *p;
    size_t   i;
    json_t  *string;

    string = json_stringn(len ? (char *) data : "", len);

    if (string != NULL) {
        return string;
    }

    buf = ngx_alloc(len * (sizeof("\\xff") - 1) + 1, ngx_cycle->log);
    if (buf == NULL) {
        return NULL;
    }

    p = buf;

    for (i = 0; i < len; i++) {
        if (data[i] >= 0x80) {
            p = ngx_sprintf(p, "\\x%02xd", data[i]);

        } else {
            *p++ = data[i];
        }
    }

    string = json_stringn((char *) buf, p - buf);

    ngx_free(buf);

    return string;
}
