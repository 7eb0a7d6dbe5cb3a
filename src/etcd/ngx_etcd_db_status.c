
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_db_status.h>


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


void
ngx_etcd_db_status_cancel(ngx_etcd_db_status_t *db)
{
    ngx_etcd_unary_cancel(&db->unary);
}
