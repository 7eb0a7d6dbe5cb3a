
/*
 * Copyright (C) nginx-etcd contributors
 *
 * "close_after": users of a peer that has left the table, or drains, are closed
 * after a time, unless a member with that address comes back before.  Users of
 * a peer that left are a batch, and a table has one timer.
 */


#ifndef _NGX_ETCD_CLOSING_H_INCLUDED_
#define _NGX_ETCD_CLOSING_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_hash_table.h>
#include <ngx_etcd_object.h>
#include <ngx_etcd_peer.h>


typedef struct {
    ngx_msec_t                   after;            /* ms; 0: tells at once */
    ngx_str_t                   *upstream;         /* name, for the log */
    ngx_etcd_object_t           *object;           /* object with "closed" */
    uint32_t                     id;
    ngx_etcd_atomic64_t         *closed;           /* number of users */
} ngx_etcd_closing_conf_t;


typedef struct {
    ngx_etcd_closing_conf_t     *conf;
    ngx_queue_t                  batches;          /* the oldest first */
    ngx_etcd_hash_table_t        by_address;
    ngx_event_t                  timer;

    /*
     * called when the time of a batch is over: takes all users out of the queue
     */
    void                       (*notify)(void *data, ngx_queue_t *users);
    void                        *data;
} ngx_etcd_closing_t;


/* Initializes a zeroed struct; conf, notify and data are set. */
void ngx_etcd_closing_init(ngx_etcd_closing_t *closing, ngx_log_t *log);

/* Users of peers that have left stay as they are. */
void ngx_etcd_closing_done(ngx_etcd_closing_t *closing);

/* The peer leaves: its users join the batch of its address. */
void ngx_etcd_closing_leave(ngx_etcd_closing_t *closing, ngx_etcd_peer_t *peer);

/*
 * The peer has come, with the users of its former object: if it drains, they
 * leave, unless it drained before; otherwise the users of a peer of that
 * address that left become users of this one.
 */
void ngx_etcd_closing_come(ngx_etcd_closing_t *closing, ngx_etcd_peer_t *peer,
    ngx_uint_t drained);


#endif /* _NGX_ETCD_CLOSING_H_INCLUDED_ */
