
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Watch of etcd's v3 API: many watches of prefixes on one stream, each kept up
 * until it is removed.  A watch lists its prefix first (unless it knows a
 * revision to continue at), then reports every later change once, in order,
 * whole revisions at a time, across failures of connections and endpoints.  If
 * etcd has compacted events that were missed, the watch lists again.
 */


#ifndef _NGX_ETCD_WATCH_H_INCLUDED_
#define _NGX_ETCD_WATCH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_list.h>
#include <ngx_etcd_proof.h>
#include <ngx_etcd_watch_events.h>
#include <ngx_etcd_watch_stream.h>


typedef struct ngx_etcd_watch_s  ngx_etcd_watch_t;


typedef enum {
    NGX_ETCD_WATCH_NEW = 0,         /* waits for a list, or for its start */
    NGX_ETCD_WATCH_LISTING,
    NGX_ETCD_WATCH_LISTED,          /* waits to be created */
    NGX_ETCD_WATCH_CREATING,
    NGX_ETCD_WATCH_ACTIVE,
    NGX_ETCD_WATCH_WAITING          /* failed, until the timer expires */
} ngx_etcd_watch_state_e;


/* how a watch gets to the revision of its endpoint */

typedef struct {
    size_t                         volume;     /* bytes of the last list */
    unsigned                       missed:1;   /* the stream has ended since:
                                                  events may be missing */
    unsigned                       from_now:1; /* created without a start
                                                  revision */
    unsigned                       listing:1;  /* a list is made while the watch
                                                  is active */
    unsigned                       list_first:1; /* a list cannot be made while
                                                    the watch is active */
} ngx_etcd_watch_resume_t;


/*
 * A list may also come while a watch is in force, in place of events that the
 * watch has missed.
 *
 * Handlers must not remove watches or destroy the watch stream.  Keys are
 * passed without the namespace; arguments are valid until the handler returns.
 */

struct ngx_etcd_watch_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_watch_range_t         range;      /* of it, prefix and exact */
    int64_t                        revision;   /* all up to here is known; 0:
                                                  list */

    /*
     * Changes must be reported without delay: the watch is created first,
     * without a start revision, and the list is made at the revision of its
     * creation (ngx_etcd_watch_events.h).
     */
    ngx_uint_t                     prompt;

    /*
     * ms; if not 0, the watch is verified (ngx_etcd_proof.h) when it comes
     * into force, and then at such intervals.  Not for a prompt watch, nor for
     * one that starts at a known revision.  The time is the ngx_etcd_clock() at
     * which everything the watch has reported so far was all that etcd had.
     */
    ngx_msec_t                     verify_interval;
    void                       (*verified)(ngx_etcd_watch_t *watch,
                                           uint64_t time);

    int64_t                        limit;      /* keys of a page of a list; 0:
                                                  as many as are usual.  Reduced
                                                  as that of the list */

    /* for the watch's memory, until it is removed; NULL: the cluster's */
    ngx_pool_t                    *pool;

    /*
     * The next list may be of another history: values may differ though
     * revisions are equal.  Also set by the client; cleared at the end of a
     * list.
     */
    ngx_uint_t                     foreign;

    /* A list begins.  An earlier list that did not end is void. */
    void                       (*list)(ngx_etcd_watch_t *watch);

    /*
     * Some keys of the list; NGX_ERROR ends the list, which is then repeated.
     * No keys: other ones do not exist; NGX_AGAIN: work is left, call it again
     * before listed().
     */
    ngx_int_t                  (*keys)(ngx_etcd_watch_t *watch,
                                       Etcd__KeyValue **kvs, size_t n);

    /* the list is complete */
    void                       (*listed)(ngx_etcd_watch_t *watch,
                                         int64_t revision);

    /*
     * All events up to the revision and none of later ones, except for a
     * revision with more than NGX_ETCD_WATCH_TOGETHER events, or more than
     * _TOGETHER_BYTES: parts of it may come before, some events more than once.
     */
    void                       (*events)(ngx_etcd_watch_t *watch,
                                         Etcd__Event **events, size_t n,
                                         int64_t revision);

    /* etcd has refused the watch, which is tried again later */
    void                       (*failed)(ngx_etcd_watch_t *watch,
                                         ngx_etcd_grpc_status_e status,
                                         ngx_str_t *text);
    void                          *data;

    /* private */

    ngx_etcd_watch_stream_t       *stream;
    ngx_etcd_watch_state_e         state;
    ngx_etcd_watch_stream_member_t member;
    ngx_etcd_list_t               *reader;     /* NULL: no list is made */
    ngx_event_t                    timer;      /* of WAITING */
    ngx_uint_t                     failures;
    ngx_uint_t                     creates;    /* answers to creates so far */
    ngx_etcd_watch_events_t        pieces;
    ngx_etcd_verify_t             *verify;     /* NULL: not verified */
    int64_t                        nkeys;      /* in the range, at the
                                                  revision */
    ngx_etcd_watch_resume_t        resume;
};


/*
 * Adds a watch.  Its memory must stay until the watch is removed, or the watch
 * stream destroyed.  NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_watch_add(ngx_etcd_watch_stream_t *stream,
    ngx_etcd_watch_t *watch);

/*
 * Ends the watch; no handler is called any more.  NGX_AGAIN: etcd still has to
 * answer, and nothing was done; call again later.
 */
ngx_int_t ngx_etcd_watch_remove(ngx_etcd_watch_t *watch);

/* Forgets the revision and lists again, after "delay" ms. */
void ngx_etcd_watch_again(ngx_etcd_watch_t *watch, ngx_msec_t delay);

/* Returns 1 if the watch is in force. */
#define ngx_etcd_watch_active(watch)                                          \
    ((watch)->state == NGX_ETCD_WATCH_ACTIVE)


#endif /* _NGX_ETCD_WATCH_H_INCLUDED_ */
