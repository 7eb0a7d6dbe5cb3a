
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The size of etcd's database (Status of etcd's v3 API, Maintenance), as one of
 * the members reports it.
 */


#ifndef _NGX_ETCD_DB_STATUS_H_INCLUDED_
#define _NGX_ETCD_DB_STATUS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_unary.h>
#include <ngx_etcd_proto.pb-c.h>


typedef struct ngx_etcd_db_status_s  ngx_etcd_db_status_t;

struct ngx_etcd_db_status_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_cluster_t          *cluster;

    /* called once */
    void                       (*done)(ngx_etcd_db_status_t *db,
                                       ngx_etcd_grpc_status_e status,
                                       ngx_str_t *text);
    void                        *data;

    /* valid in done(), if the status is OK */

    uint64_t                     size;         /* bytes, with free pages:
                                                  etcd compares this with the
                                                  quota */
    uint64_t                     quota;        /* 0: not reported (before etcd
                                                  3.6) */
    ngx_uint_t                   nospace;      /* 1: the NOSPACE alarm is
                                                  raised, etcd rejects writes */

    /* private */

    ngx_etcd_unary_t             unary;
    Etcd__StatusRequest          request;
};


/* done() is never called before this returns */
void ngx_etcd_db_status_start(ngx_etcd_db_status_t *db);

/* done() is not called any more; does nothing if no call is running */
void ngx_etcd_db_status_cancel(ngx_etcd_db_status_t *db);


#endif /* _NGX_ETCD_DB_STATUS_H_INCLUDED_ */
