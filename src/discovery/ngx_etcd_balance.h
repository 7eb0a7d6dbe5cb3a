
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Picking a peer for a request or a connection; the same code for http and
 * stream.
 */


#ifndef _NGX_ETCD_BALANCE_H_INCLUDED_
#define _NGX_ETCD_BALANCE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_etcd_table.h>


/* peers tried are remembered in place up to here, beyond that in the pool */

#define NGX_ETCD_PICK_TRIED  4


typedef struct ngx_etcd_pick_s      ngx_etcd_pick_t;
typedef struct ngx_etcd_method_s    ngx_etcd_method_t;


typedef struct {
    ngx_etcd_peer_t             *peer;
    ngx_uint_t                   again;            /* a kept connection to it
                                                      was broken, which says
                                                      nothing of the peer */
} ngx_etcd_try_t;


/* one request's way through the peers; zeroed and owned by the caller */

struct ngx_etcd_pick_s {
    ngx_etcd_table_t            *table;
    const ngx_etcd_method_t     *method;
    ngx_str_t                   *name;             /* of the upstream */
    ngx_pool_t                  *pool;
    uint64_t                     revision;         /* that it is picked by */

    ngx_etcd_peer_t             *peer;             /* the last picked */
    ngx_etcd_try_t              *tried;            /* all picked; referenced
                                                      until done */
    ngx_uint_t                   ntried;
    ngx_uint_t                   allocated;
    ngx_uint_t                   cached;           /* the last connection was
                                                      a kept one, and failed */
    ngx_uint_t                   tries;            /* left after that */
    ngx_etcd_try_t               first[NGX_ETCD_PICK_TRIED];
};


/* for an error message */
#define NGX_ETCD_METHOD_NAMES  "round_robin, least_conn, random"

/* NULL if there is no such method */
const ngx_etcd_method_t *ngx_etcd_method_find(ngx_str_t *name);
extern const ngx_etcd_method_t  *ngx_etcd_method_default;

/* brings the table up to date; returns how many peers there are to try */
ngx_uint_t ngx_etcd_pick_init(ngx_etcd_pick_t *pick, ngx_etcd_table_t *table,
    const ngx_etcd_method_t *method, ngx_str_t *name, ngx_pool_t *pool);

/*
 * The next peer into pc: never one that was tried on a connection of its own.
 * NGX_BUSY when there is none, with pc->name set to the upstream's.
 */
ngx_int_t ngx_etcd_pick_get(ngx_etcd_pick_t *pick, ngx_peer_connection_t *pc);

/* the peer is done with; state is NGX_PEER_FAILED and others, as nginx's */
void ngx_etcd_pick_free(ngx_etcd_pick_t *pick, ngx_peer_connection_t *pc,
    ngx_uint_t state);

#if (NGX_SSL)

/* the peer's TLS session, kept by this worker between connections to it */

ngx_int_t ngx_etcd_pick_set_session(ngx_etcd_pick_t *pick,
    ngx_peer_connection_t *pc);
void ngx_etcd_pick_save_session(ngx_etcd_pick_t *pick,
    ngx_peer_connection_t *pc);

#endif

/* drops the references: names and keys of peers are not valid any more */
void ngx_etcd_pick_done(ngx_etcd_pick_t *pick);


#endif /* _NGX_ETCD_BALANCE_H_INCLUDED_ */
