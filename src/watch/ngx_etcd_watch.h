
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
#include <ngx_etcd_list.h>
#include <ngx_etcd_verify.h>
#include <ngx_etcd_watch_events.h>
#include <ngx_etcd_watch_resume.h>
#include <ngx_etcd_watch_stream.h>


typedef struct ngx_etcd_watch_s  ngx_etcd_watch_t;


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
 * Handlers must not remove watches or destroy the watch stream.  Keys are
 * without the namespace; everything passed is valid until the handler returns.
 */

struct ngx_etcd_watch_s {
    /* set by the caller, the rest zeroed */

    ngx_str_t                      prefix;     /* not empty; must stay */
    ngx_uint_t                     exact;      /* that very key alone */
    int64_t                        revision;   /* known up to here; 0: list */

    /*
     * Changes are to be known at once: the watch is created first, from now
     * on, and the list is made at the revision at which the watch is created
     * (ngx_etcd_watch_resume.h).
     */
    ngx_uint_t                     prompt;

    /*
     * Not 0: the watch is verified (ngx_etcd_verify.h) when it comes into
     * force, and then at intervals of so many ms; not for a prompt watch, nor
     * for one that starts from a known revision.  The handler is told the
     * ngx_etcd_clock() as of which everything that the watch has reported so
     * far was all that etcd had.
     */
    ngx_msec_t                     verify_interval;
    void                       (*verified)(ngx_etcd_watch_t *watch,
                                           uint64_t time);

    /* for what it keeps, until it is removed; NULL: the cluster's */
    ngx_pool_t                    *pool;

    /*
     * The next list may be of another history: revisions that are as they
     * were do not say that values are.  Also set by the client, cleared with
     * the end of a list.
     */
    ngx_uint_t                     foreign;

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
    void                          *data;

    /* private */

    ngx_etcd_watch_stream_t       *stream;
    ngx_etcd_watch_state_e         state;
    ngx_etcd_watch_stream_member_t member;
    ngx_etcd_watch_range_t         range;
    ngx_etcd_list_t                reader;
    ngx_event_t                    timer;      /* waiting */
    ngx_uint_t                     failures;
    ngx_uint_t                     creates;    /* that were answered, ever */
    size_t                         volume;     /* bytes, of the last list */
    ngx_etcd_watch_resume_t        resume;
    ngx_etcd_watch_events_t        pieces;
    ngx_etcd_verify_t              verify;
    unsigned                     missed:1;     /* its stream has ended: events
                                                  may be missing */
    unsigned                     from_now:1;   /* created without a start
                                                  revision */
    unsigned                     listing:1;    /* a list is made while the
                                                  watch is active */
    unsigned                     list_first:1; /* no list can be made while
                                                  the watch is active */
};


/*
 * Adds a watch; its memory is the caller's and stays until the watch is
 * removed or the watch stream destroyed.
 */
ngx_int_t ngx_etcd_watch_add(ngx_etcd_watch_stream_t *stream,
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


#endif /* _NGX_ETCD_WATCH_H_INCLUDED_ */
