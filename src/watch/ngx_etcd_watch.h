
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
#include <ngx_etcd_fresh.h>
#include <ngx_etcd_gap.h>
#include <ngx_etcd_verify.h>


#define NGX_ETCD_WATCH_CREATES  16      /* unanswered creates on a stream */
#define NGX_ETCD_WATCH_LISTS    4       /* lists at one time */

/*
 * Events are handed on that many at a time, and those of one revision together
 * up to that many, which is twice what a Txn of etcd may change by default.
 */
#define NGX_ETCD_WATCH_PIECE     128
#define NGX_ETCD_WATCH_TOGETHER  256


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
 * A list may also come while a watch is in force, instead of events that it
 * has missed.
 *
 * Handlers must not remove watches or destroy the watcher.  Keys are without
 * the namespace; everything passed is valid until the handler returns.
 */

struct ngx_etcd_watch_s {
    /* set by the caller, the rest zeroed */

    ngx_str_t                    prefix;       /* not empty; must stay */
    ngx_uint_t                   exact;        /* that very key alone */
    int64_t                      revision;     /* known up to here; 0: list */

    /*
     * Changes are to be known at once: the watch is created first, from now
     * on, and the list made after that, since etcd serves one that starts at
     * a revision of the past in rounds of 100 ms.  Events come in order, but
     * some that come before the end of a list may be newer than that, and
     * some that come after it older: the handlers mind revisions.
     */
    ngx_uint_t                   prompt;

    /*
     * Not 0: the watch is verified (ngx_etcd_verify.h) when it comes into
     * force, and then at intervals of so many ms; not for a prompt watch, nor
     * for one that starts from a known revision.  The handler is told the
     * ngx_etcd_clock() as of which everything that the watch has reported so
     * far was all that etcd had.
     */
    ngx_msec_t                   verify_interval;
    void                       (*verified)(ngx_etcd_watch_t *watch,
                                           uint64_t time);

    /* for what it keeps, until it is removed; NULL: the cluster's */
    ngx_pool_t                  *pool;

    /*
     * The next list may be of another history: revisions that are as they
     * were do not say that values are.  Also set by the client, cleared with
     * the end of a list.
     */
    ngx_uint_t                   foreign;

    /* a list begins; an earlier one that did not end is void */
    void                       (*list)(ngx_etcd_watch_t *watch);

    /* some keys of the list; NGX_ERROR ends the list, it is made again */
    ngx_int_t                  (*keys)(ngx_etcd_watch_t *watch,
                                       Etcd__KeyValue **kvs, size_t n);

    /* the list is complete: what it did not name is gone */
    void                       (*listed)(ngx_etcd_watch_t *watch,
                                         int64_t revision);

    /*
     * All events up to the revision, and none of a later one, unless it has
     * more than NGX_ETCD_WATCH_TOGETHER: parts of it may come before, the same
     * more than once.
     */
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
    ngx_event_t                  timer;        /* waiting, or catching up */
    int64_t                      catch_up;     /* to that revision */
    ngx_uint_t                   turns;        /* left, until it has, if etcd
                                                  says nothing */
    ngx_uint_t                   lags;         /* looks at the endpoint */
    ngx_uint_t                   failures;
    ngx_array_t                 *fragments;    /* packed events, or NULL */
    ngx_pool_t                  *fragment_pool;
    size_t                       kept;         /* bytes, of fragments */
    ngx_uint_t                   whole;        /* fragments of complete
                                                  responses */
    ngx_uint_t                   handed;       /* of them, handed on */
    int64_t                      progress;     /* told after them */
    ngx_event_t                  pieces;       /* posted while there are more */
    ngx_uint_t                   creates;      /* that were answered, ever */
    int64_t                      number;       /* of the create; the id that
                                                  will be the answer's */
    ngx_etcd_gap_t               gap;
    size_t                       volume;       /* bytes, of the last list */
    ngx_etcd_verify_t            verify;
    unsigned                     behind:1;     /* it holds up proofs */
    unsigned                     split:1;      /* a part of a revision was
                                                  handed on, and no more */
    unsigned                     missed:1;     /* its stream ended: what came
                                                  since is to be read */
    unsigned                     jumped:1;     /* created without a start
                                                  revision */
    unsigned                     listing:1;    /* a prompt one: the list is
                                                  being made */
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
    int64_t                      numbers;      /* of creates on this stream */
    ngx_uint_t                   nlisting;
    ngx_rbtree_t                 active;
    ngx_rbtree_node_t            sentinel;
    ngx_etcd_fresh_t             fresh;
    ngx_etcd_history_listener_t  history;
    int64_t                      reached;      /* by the stream's endpoint */
    unsigned                     open:1;
    unsigned                     answered:1;   /* this stream, at all */
    unsigned                     doubted:1;    /* is it the cluster's revision?
                                                  the next list says */
    unsigned                     stale:1;      /* its token is refused: no
                                                  watch can be added */
    unsigned                     serial:1;     /* creates are answered in any
                                                  order: one at a time */
};


ngx_etcd_watcher_t *ngx_etcd_watcher_create(ngx_etcd_cluster_t *cluster);

/* ends the stream; watches are not touched any more */
void ngx_etcd_watcher_destroy(ngx_etcd_watcher_t *watcher);

/*
 * Adds a watch; its memory is the caller's and stays until the watch is
 * removed or the watcher destroyed.
 */
ngx_int_t ngx_etcd_watch_add(ngx_etcd_watcher_t *watcher,
    ngx_etcd_watch_t *watch);

/*
 * It is not watched any more, and no handler called.  NGX_AGAIN: not now,
 * since etcd has yet to answer; try later.
 */
ngx_int_t ngx_etcd_watch_remove(ngx_etcd_watch_t *watch);

/* forgets the revision and lists again, after a while when delay is not 0 */
void ngx_etcd_watch_again(ngx_etcd_watch_t *watch, ngx_msec_t delay);

/* 1 if it is in force */
ngx_uint_t ngx_etcd_watch_active(ngx_etcd_watch_t *watch);

/* a list, zeroed, or a range of what the watch is about */
void ngx_etcd_watch_set_list(ngx_etcd_watch_t *watch, ngx_etcd_list_t *list);
void ngx_etcd_watch_set_range(ngx_etcd_watch_t *watch,
    ngx_etcd_range_t *range);

/* takes the namespace off a key that was listed */
void ngx_etcd_watch_strip(ngx_etcd_watch_t *watch, Etcd__KeyValue *kv);


#endif /* _NGX_ETCD_WATCH_H_INCLUDED_ */
