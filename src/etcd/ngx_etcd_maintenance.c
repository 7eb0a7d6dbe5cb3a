
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_channel.h>
#include <ngx_etcd_maintenance.h>


#define NGX_ETCD_SERVER_VERSION_MAX  65535     /* of each of its numbers */


/* two faults of a series of versions, and the versions that mend them */

typedef struct {
    uint64_t    series;                         /* the first of the next one */
    uint64_t    first;                          /* mends one of them */
    uint64_t    last;                           /* mends the other one, later */
} ngx_etcd_server_fault_t;


/* renewals of leases, and then linearizable reads */

static const ngx_etcd_server_fault_t  ngx_etcd_server_faults[] = {

    { ngx_etcd_server_version(3, 5, 0) - 1,
      ngx_etcd_server_version(3, 4, 38), ngx_etcd_server_version(3, 4, 42) },

    { ngx_etcd_server_version(3, 6, 0) - 1,
      ngx_etcd_server_version(3, 5, 23), ngx_etcd_server_version(3, 5, 28) },

    { ngx_etcd_server_version(3, 7, 0) - 1,
      ngx_etcd_server_version(3, 6, 5), ngx_etcd_server_version(3, 6, 9) },

    { 0, 0, 0 }
};


/*
 * GHSA-3wh4-j44w-pg92 (CRL), and then GHSA-xg4h-6gfc-h4m8 (watches).  3.4 is
 * out of support: nothing is mended in it.
 */

static const ngx_etcd_server_fault_t  ngx_etcd_server_advisories[] = {

    { ngx_etcd_server_version(3, 6, 0) - 1,
      ngx_etcd_server_version(3, 5, 32), ngx_etcd_server_version(3, 5, 33) },

    { ngx_etcd_server_version(3, 7, 0) - 1,
      ngx_etcd_server_version(3, 6, 13), ngx_etcd_server_version(3, 6, 14) },

    { ngx_etcd_server_version(3, 8, 0) - 1,
      ngx_etcd_server_version(3, 7, 0), ngx_etcd_server_version(3, 7, 1) },

    { 0, 0, 0 }
};


static ngx_int_t
ngx_etcd_server_version_message(ngx_etcd_grpc_call_t *call,
    ProtobufCMessage *message, ngx_pool_t *pool)
{
    Etcd__StatusResponse       *response;
    ngx_etcd_server_version_t  *asker;

    asker = call->data;
    response = (Etcd__StatusResponse *) message;

    asker->version = ngx_etcd_server_version_parse(response->version.data,
                                                   response->version.len);
    return NGX_OK;
}


/* A failed call is not repeated: the version is not needed for anything. */

static void
ngx_etcd_server_version_ended(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_etcd_auth_t            *auth;
    ngx_etcd_cluster_t         *cluster;
    ngx_etcd_server_version_t  *asker;

    asker = call->data;

    cluster = asker->cluster;
    auth = cluster->auth;

    if (status == NGX_ETCD_GRPC_OK) {

        if (asker->version != 0) {
            asker->known(asker->data, &asker->place->endpoint->url,
                         asker->version);
        }

        return;
    }

    if (ngx_etcd_auth_refused(auth, cluster->streams, asker->token, status,
                              text))
    {
        ngx_etcd_waiter_forget(&asker->waiter);
        ngx_etcd_auth_wait(auth, &asker->waiter);
        return;
    }

    ngx_log_debug4(NGX_LOG_DEBUG_EVENT, cluster->log, 0,
                   "etcd cluster \"%V\": endpoint %V does not tell its "
                   "version: %s: %V", &cluster->conf->name,
                   &asker->place->endpoint->url,
                   ngx_etcd_grpc_status_name(status), text);

    /* etcd 3.5.30 with users tells it to root alone */

    if (status == NGX_ETCD_GRPC_PERMISSION_DENIED
        || status == NGX_ETCD_GRPC_UNIMPLEMENTED)
    {
        asker->known(asker->data, &asker->place->endpoint->url, 0);
    }
}


static void
ngx_etcd_server_version_call(ngx_etcd_server_version_t *asker,
    ngx_etcd_http2_t *h2)
{
    ngx_keyval_t           md[NGX_ETCD_AUTH_METADATA];
    ngx_etcd_cluster_t    *cluster;
    ngx_etcd_grpc_call_t  *call;

    cluster = asker->cluster;

    call = &asker->call;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = "/etcdserverpb.Maintenance/Status";
    call->response = &etcd__status_response__descriptor;
    call->timeout = cluster->conf->request_timeout;
    call->metadata = md;
    call->nmetadata = ngx_etcd_auth_metadata(cluster->auth, md, &asker->token);
    call->message = ngx_etcd_server_version_message;
    call->done = ngx_etcd_server_version_ended;
    call->data = asker;

    asker->version = 0;
    asker->place = cluster->streams->subchannel->place;

    /* without memory this connection is not asked */

    (void) ngx_etcd_grpc_request(h2, call, &asker->request.base);
}


/* the channel is ready, or the token */

static void
ngx_etcd_server_version_ready(void *data)
{
    ngx_etcd_server_version_t *asker = data;

    ngx_etcd_http2_t    *h2;
    ngx_etcd_channel_t  *streams;

    streams = asker->cluster->streams;

    /* a channel that is idle is not to connect because of this */

    h2 = (streams->state == NGX_ETCD_CHANNEL_READY)
         ? ngx_etcd_channel_get(streams) : NULL;

    if (h2 != NULL && asker->call.stream == NULL) {

        if (!ngx_etcd_auth_ready(asker->cluster->auth)) {
            ngx_etcd_auth_wait(asker->cluster->auth, &asker->waiter);
            return;
        }

        ngx_etcd_server_version_call(asker, h2);
    }

    ngx_etcd_channel_wait(streams, &asker->waiter);
}


ngx_int_t
ngx_etcd_server_version_ask(ngx_etcd_cluster_t *cluster,
    ngx_etcd_server_version_pt known, void *data)
{
    ngx_etcd_server_version_t  *asker;

    asker = ngx_pcalloc(cluster->pool, sizeof(ngx_etcd_server_version_t));
    if (asker == NULL) {
        return NGX_ERROR;
    }

    asker->cluster = cluster;
    asker->known = known;
    asker->data = data;

    etcd__status_request__init(&asker->request);

    asker->waiter.handler = ngx_etcd_server_version_ready;
    asker->waiter.data = asker;

    cluster->server_version = asker;

    ngx_etcd_channel_wait(cluster->streams, &asker->waiter);

    return NGX_OK;
}


uint64_t
ngx_etcd_server_version_parse(u_char *p, size_t len)
{
    u_char      *last;
    uint64_t     version;
    ngx_uint_t   i, n, digits;

    last = p + len;
    version = 0;

    for (i = 0; i < 3; i++) {

        if (i != 0 && (p == last || *p++ != '.')) {
            return 0;
        }

        n = 0;

        for (digits = 0; p < last && *p >= '0' && *p <= '9'; digits++) {
            n = n * 10 + (*p++ - '0');

            if (n > NGX_ETCD_SERVER_VERSION_MAX) {
                return 0;
            }
        }

        if (digits == 0) {
            return 0;
        }

        version = version << 16 | n;
    }

    return version << 8 | (p == last || *p != '-');
}


u_char *
ngx_etcd_server_version_text(u_char *p, uint64_t version)
{
    return ngx_sprintf(p, "%uL.%uL.%uL%s", version >> 40,
                       (version >> 24) & 0xffff, (version >> 8) & 0xffff,
                       (version & 1) ? "" : "-pre");
}


char *
ngx_etcd_server_version_fault(uint64_t version, ngx_uint_t advisory,
    uint64_t *mended)
{
    const ngx_etcd_server_fault_t  *fault;

    fault = advisory ? ngx_etcd_server_advisories : ngx_etcd_server_faults;

    while (fault->series != 0 && version >= fault->series) {
        fault++;
    }

    *mended = fault->last;

    if (version >= fault->last) {
        return NULL;
    }

    if (advisory) {
        return (version < fault->first)
               ? "GHSA-xg4h-6gfc-h4m8 (who may read one key can watch all "
                 "later ones) and GHSA-3wh4-j44w-pg92 (with "
                 "\"--listen-client-http-urls\" a CRL is not enforced) are "
                 "not mended"
               : "GHSA-xg4h-6gfc-h4m8 (who may read one key can watch all "
                 "later ones) is not mended";
    }

    return (version < fault->first)
           ? "linearizable reads may be stale, and leases may be renewed that "
             "have been revoked"
           : "linearizable reads may be stale";
}


/* AlarmMember.String() of etcd prints "memberID:1 alarm:NOSPACE " */

#define NGX_ETCD_DB_STATUS_ALARM  "alarm:NOSPACE"


/* the alarm of one member stops the writes of all members */

static ngx_uint_t
ngx_etcd_db_status_nospace(Etcd__StatusResponse *response)
{
    size_t                i;
    ProtobufCBinaryData  *error;

    for (i = 0; i < response->n_errors; i++) {
        error = &response->errors[i];

        /* the data of an empty one are NULL */

        if (error->len != 0
            && ngx_strlcasestrn(error->data, error->data + error->len,
                                (u_char *) NGX_ETCD_DB_STATUS_ALARM,
                                sizeof(NGX_ETCD_DB_STATUS_ALARM) - 2)
               != NULL)
        {
            return 1;
        }
    }

    return 0;
}


static void
ngx_etcd_db_status_done(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, ProtobufCMessage *response, ngx_pool_t *pool)
{
    Etcd__StatusResponse  *sr;
    ngx_etcd_db_status_t  *db;

    db = unary->data;

    if (status == NGX_ETCD_GRPC_OK) {
        sr = (Etcd__StatusResponse *) response;

        db->size = (sr->dbsize > 0) ? sr->dbsize : 0;
        db->quota = (sr->dbsizequota > 0) ? sr->dbsizequota : 0;
        db->nospace = ngx_etcd_db_status_nospace(sr);

        ngx_destroy_pool(pool);
    }

    db->done(db, status, text);
}


void
ngx_etcd_db_status_start(ngx_etcd_db_status_t *db)
{
    ngx_etcd_unary_t  *unary;

    etcd__status_request__init(&db->request);

    unary = &db->unary;
    ngx_memzero(unary, sizeof(ngx_etcd_unary_t));

    unary->cluster = db->cluster;
    unary->method = "/etcdserverpb.Maintenance/Status";
    unary->name = "status";
    unary->request = &db->request.base;
    unary->response = &etcd__status_response__descriptor;
    unary->done = ngx_etcd_db_status_done;
    unary->data = db;
    unary->idempotent = 1;

    ngx_etcd_unary_start(unary);
}
