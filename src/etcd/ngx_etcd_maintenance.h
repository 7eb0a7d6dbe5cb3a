
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Status of etcd's v3 API (Maintenance): the version of etcd that an endpoint
 * runs, and the size of etcd's database.
 *
 * The version is asked once on each connection of the streams channel, to know
 * which of its faults concern the safety of leaders, elections and locks, or
 * let users read keys that they may not.
 *
 * The reads channel is not asked: an answer to this would hide that the
 * endpoint answers no reads (see ngx_etcd_unary_blame()).
 */


#ifndef _NGX_ETCD_MAINTENANCE_H_INCLUDED_
#define _NGX_ETCD_MAINTENANCE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_proto.pb-c.h>
#include <ngx_etcd_unary.h>


/*
 * A version is a number that grows with the versions.  A pre-release of 3.6.0
 * ("3.6.0-rc.1") is lower than 3.6.0.  0: unknown.
 */

#define ngx_etcd_server_version(major, minor, patch)                          \
    ((uint64_t) (major) << 40 | (uint64_t) (minor) << 24                      \
     | (uint64_t) (patch) << 8 | 1)

/* "65535.65535.65535-pre" */

#define NGX_ETCD_SERVER_VERSION_LEN  21


/* Version 0: it is refused.  The URL is valid until this returns. */
typedef void (*ngx_etcd_server_version_pt)(void *data, ngx_str_t *url,
    uint64_t version);


struct ngx_etcd_server_version_s {
    ngx_etcd_cluster_t           *cluster;
    ngx_etcd_server_version_pt    known;
    void                         *data;
    ngx_etcd_waiter_t             waiter;       /* for the channel, or the
                                                   token */
    ngx_etcd_grpc_call_t          call;
    Etcd__StatusRequest           request;
    ngx_etcd_place_t             *place;
    ngx_uint_t                    token;        /* token's generation */
    uint64_t                      version;
};


/*
 * known() is called for each connection that tells the version, or refuses to
 * tell it, never before this returns.  Allocates from the cluster's pool, and
 * is destroyed with the client.
 */
ngx_int_t ngx_etcd_server_version_ask(ngx_etcd_cluster_t *cluster,
    ngx_etcd_server_version_pt known, void *data);

/* Returns the version of a text such as "3.5.30", or 0. */
uint64_t ngx_etcd_server_version_parse(u_char *p, size_t len);

/*
 * Writes up to NGX_ETCD_SERVER_VERSION_LEN bytes and returns the end.  A
 * pre-release is "3.6.0-pre".
 */
u_char *ngx_etcd_server_version_text(u_char *p, uint64_t version);

/*
 * Returns what is wrong with a version and sets "mended" to the first version
 * without that in the same series, or in the next one that has one; NULL:
 * nothing is known to be wrong.  advisory: likewise, the security advisories
 * that concern clients which rely on the rights of users, or keep private keys
 * in etcd.
 */
char *ngx_etcd_server_version_fault(uint64_t version, ngx_uint_t advisory,
    uint64_t *mended);


/* The size of etcd's database, as one of the members reports it. */

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

    ngx_etcd_unary_t             unary;        /* when it is canceled, done()
                                                  is not called any more */

    /* private */

    Etcd__StatusRequest          request;
};


/* done() is never called before this returns */
void ngx_etcd_db_status_start(ngx_etcd_db_status_t *db);


#endif /* _NGX_ETCD_MAINTENANCE_H_INCLUDED_ */
