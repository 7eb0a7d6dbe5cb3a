
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Watch of etcd's v3 API: many watches of prefixes on one stream, each kept
 * up for as long as it is wanted.  A watch lists its prefix first (unless it
 * knows a revision to go on from), then reports every later change once, in
 * order, whole revisions at a time, whatever happens to connections and
 * endpoints in between; where etcd has compacted what was missed, it lists
 * again.
 */


#ifndef _NGX_ETCD_WATCH_H_INCLUDED_
#define _NGX_ETCD_WATCH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_kv.h>


#define NGX_ETCD_WATCH_CREATES  16      /* unanswered creates on a stream */
#define NGX_ETCD_WATCH_LISTS    4       /* lists at one time */


typedef struct ngx_etcd_watch_s    ngx_etcd_watch_t;
typedef struct ngx_etcd_watcher_s  ngx_etcd_watcher_t;


typedef enum {
    NGX_ETCD_WATCH_NEW = 0,         /* wants a list, or its turn */
    NGX_ETCD_WATCH_LISTING,
    NGX_ETCD_WATCH_LISTED,          /* wants to be created */
    NGX_ETCD_WATCH_CREATING,
    NGX_ETCD_WATCH_ACTIVE,
    NGX_ETCD_WATCH_WAITING          /* failed: the timer starts it again */
} ngx_etcd_watch_state_e;


/*
 * Handlers must not remove watches or destroy the watcher.  Keys are without
 * the namespace; everything passed is valid until the handler returns.
 */

struct ngx_etcd_watch_s {
    /* set by the caller, the rest zeroed */

    ngx_str_t                    prefix;       /* not empty; must stay */
    int64_t                      revision;     /* known up to here; 0: list */

    /* a list begins; an earlier one that did not end is void */
    void                       (*list)(ngx_etcd_watch_t *watch);

    /* some keys of the list; NGX_ERROR ends the list, it is made again */
    ngx_int_t                  (*keys)(ngx_etcd_watch_t *watch,
                                       Etcd__KeyValue **kvs, size_t n);

    /* the list is complete: what it did not name is gone */
    void                       (*listed)(ngx_etcd_watch_t *watch,
                                         int64_t revision);

    /* all events up to the revision, never a part of one */
    void                       (*events)(ngx_etcd_watch_t *watch,
                                         Etcd__Event **events, size_t n,
                                         int64_t revision);

    /* refused by etcd; it is tried again later */
    void                       (*failed)(ngx_etcd_watch_t *watch,
                                         ngx_etcd_grpc_status_e status,
                                         ngx_str_t *text);
    void                        *data;

    /* private */

    ngx_etcd_watcher_t          *watcher;
    ngx_etcd_watch_state_e       state;
    ngx_queue_t                  queue;        /* all watches */
    ngx_queue_t                  creating;     /* unanswered, in order */
    ngx_rbtree_node_t            node;         /* active, by id */
    ngx_str_t                    key;          /* with the namespace */
    ngx_str_t                    range_end;
    ngx_etcd_list_t              reader;
    ngx_event_t                  timer;
    ngx_uint_t                   failures;
    ngx_array_t                 *fragments;    /* of Etcd__Event *, or NULL */
    ngx_pool_t                  *fragment_pool;
};


struct ngx_etcd_watcher_s {
    ngx_etcd_cluster_t          *cluster;
    ngx_etcd_grpc_call_t         call;
    ngx_etcd_waiter_t            waiter;
    ngx_event_t                  timer;        /* to open the stream again */
    ngx_event_t                  overdue;      /* no create is answered */
    ngx_uint_t                   failures;
    ngx_uint_t                   token;        /* its generation */
    ngx_queue_t                  watches;
    ngx_queue_t                  creating;
    ngx_uint_t                   ncreating;
    ngx_uint_t                   nlisting;
    ngx_rbtree_t                 active;
    ngx_rbtree_node_t            sentinel;
    unsigned                     open:1;
    unsigned                     answered:1;   /* this stream, at all */
    unsigned                     stale:1;      /* its token is refused: no
                                                  watch can be added */
};


ngx_etcd_watcher_t *ngx_etcd_watcher_create(ngx_etcd_cluster_t *cluster);

/* ends the stream; watches are not touched any more */
void ngx_etcd_watcher_destroy(ngx_etcd_watcher_t *watcher);

/*
 * Adds a watch; its memory is the caller's and stays until the watcher is
 * destroyed.
 */
ngx_int_t ngx_etcd_watch_add(ngx_etcd_watcher_t *watcher,
    ngx_etcd_watch_t *watch);

/* forgets the revision and lists again, after a while when delay is not 0 */
void ngx_etcd_watch_again(ngx_etcd_watch_t *watch, ngx_msec_t delay);


#endif /* _NGX_ETCD_WATCH_H_INCLUDED_ */
