
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The stream that carries all watches of a client (Watch of etcd's v3 API).
 *
 * The stream is opened when there is a connection, and opened again after each
 * end.  Each watch is a member: the stream sends the create and cancel requests
 * of members, finds the member of each response, and calls the member's
 * handlers.  The member interprets the response (ngx_etcd_watch.h).
 */


#ifndef _NGX_ETCD_WATCH_STREAM_H_INCLUDED_
#define _NGX_ETCD_WATCH_STREAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_history.h>
#include <ngx_etcd_proof.h>
#include <ngx_etcd_proto.pb-c.h>


#define NGX_ETCD_WATCH_STREAM_CREATES 16    /* unanswered at a time */
#define NGX_ETCD_WATCH_STREAM_LISTS 4     /* lists of members at a time */


typedef struct ngx_etcd_watch_stream_s  ngx_etcd_watch_stream_t;


typedef enum {
    NGX_ETCD_WATCH_STREAM_DETACHED = 0,
    NGX_ETCD_WATCH_STREAM_CREATING,          /* the create is not answered */
    NGX_ETCD_WATCH_STREAM_ACTIVE        /* has an id */
} ngx_etcd_watch_stream_state_e;


/* handlers must not remove members or destroy the stream */

typedef struct {
    /* the stream accepts creates, or lists may begin */
    void                       (*advance)(void *data);

    /*
     * The create is answered.  The member is detached, and calls
     * ngx_etcd_watch_stream_activate() to continue with the watch.
     */
    void                       (*created)(void *data,
                                          Etcd__WatchResponse *response);

    /*
     * A response for an active member, including the response that created it.
     * Returns the values of ngx_etcd_grpc_message_pt.
     */
    ngx_int_t                  (*response)(void *data,
                                           Etcd__WatchResponse *response,
                                           ngx_pool_t *pool);

    /* the stream ended while the member was not detached */
    void                       (*ended)(void *data);

    /*
     * The member's revision is void.  foreign: the cluster may have another
     * history, in which values may differ though revisions are equal.
     */
    void                       (*relist)(void *data, ngx_uint_t foreign);

    /* the stream is destroyed: the member stops timers and calls */
    void                       (*stop)(void *data);
} ngx_etcd_watch_stream_handlers_t;


typedef struct {
    /* set by the owner, the rest zeroed */

    const ngx_etcd_watch_stream_handlers_t *handlers;
    void                                   *data;

    /*
     * To join, while it is detached, the owner sets the stream, appends "queue"
     * to stream->members, and tells stream->proof a key; to leave it removes
     * "queue".
     */

    ngx_etcd_watch_stream_t                *stream;
    ngx_queue_t                             queue;

    /* read-only for the owner */

    ngx_etcd_watch_stream_state_e           state;

    /* private */

    ngx_queue_t                             creating; /* unanswered, in order */
    ngx_rbtree_node_t                       node;   /* active, by id */
    int64_t                                 number; /* of the create: its
                                                       expected id */
} ngx_etcd_watch_stream_member_t;


struct ngx_etcd_watch_stream_s {
    ngx_etcd_cluster_t          *cluster;
    ngx_etcd_proof_t             proof;
    ngx_uint_t                   nlisting;     /* running lists, counted by the
                                                  members */
    int64_t                      reached;      /* revision of the endpoint */
    ngx_uint_t                   token;        /* token's generation */
    size_t                       buffered;     /* bytes of events, counted by
                                                  the members */
    ngx_queue_t                  members;
    ngx_etcd_waiter_t            waiter;       /* opens the stream */
    unsigned                     doubted:1;    /* cluster->revision is in doubt:
                                                  the next list of a member
                                                  tells it */
    unsigned                     stale:1;      /* the stream's token is
                                                  rejected: no watch can be
                                                  created */

    /* private */

    ngx_etcd_grpc_call_t         call;
    ngx_event_t                  timer;        /* to open the stream again */
    ngx_event_t                  overdue;      /* no create was answered in
                                                  time */
    ngx_uint_t                   failures;
    ngx_queue_t                  creating;
    ngx_uint_t                   ncreating;
    int64_t                      numbers;      /* of creates on this stream */
    ngx_rbtree_t                 active;
    ngx_rbtree_node_t            sentinel;
    ngx_etcd_history_listener_t  history;
    ngx_uint_t                   relisted;     /* changes of the history when
                                                  all members were last told
                                                  to list */
    unsigned                     open:1;
    unsigned                     answered:1;   /* a response came on this
                                                  stream */
    unsigned                     serial:1;     /* a proxy answers creates in any
                                                  order: one at a time */
};


/* Returns NULL if there is no memory. */
ngx_etcd_watch_stream_t *ngx_etcd_watch_stream_create(
    ngx_etcd_cluster_t *cluster);

/* Ends the stream; members are not called any more, except for stop(). */
void ngx_etcd_watch_stream_destroy(ngx_etcd_watch_stream_t *stream);

/* Opens the stream if there is a connection, and advances all members. */
void ngx_etcd_watch_stream_advance(ngx_etcd_watch_stream_t *stream);


/*
 * Requests a watch for a detached member; a revision of 0 means from now on.
 * NGX_DECLINED: the stream accepts no creates now, and advances all members
 * when it does.  NGX_ERROR: no memory; they are advanced again soon.
 */
ngx_int_t ngx_etcd_watch_stream_create_watch(
    ngx_etcd_watch_stream_member_t *member,
    ngx_str_t *key, ngx_str_t *range_end, int64_t revision);

/* the member continues with the watch of that id */
void ngx_etcd_watch_stream_activate(ngx_etcd_watch_stream_member_t *member,
    int64_t id);

/* Tells etcd to end the watch of that id, which has no member. */
void ngx_etcd_watch_stream_cancel(ngx_etcd_watch_stream_t *stream, int64_t id);

/* In any state.  Later responses of etcd to this watch are dropped. */
void ngx_etcd_watch_stream_detach(ngx_etcd_watch_stream_member_t *member);


/*
 * Requests the endpoint's revision; the answer stores it in "reached".  data is
 * an ngx_etcd_watch_stream_t.  NGX_DECLINED: the stream is not open.
 */
ngx_int_t ngx_etcd_watch_stream_progress(void *data);

/*
 * Leaves the endpoint, and logs the reason; the stream goes to another one.
 * data is an ngx_etcd_watch_stream_t.
 */
void ngx_etcd_watch_stream_leave(void *data, ngx_str_t *reason);

/*
 * A response belonged to another member: a proxy has answered creates out of
 * order.  All members list again; the caller has to end the stream.
 */
void ngx_etcd_watch_stream_mixed(ngx_etcd_watch_stream_t *stream);


#endif /* _NGX_ETCD_WATCH_STREAM_H_INCLUDED_ */
