
/*
 * Copyright (C) nginx-etcd contributors
 *
 * How a watch that was created comes to the revision that the endpoint is at.
 *
 * A watch that starts at an older revision than the endpoint's is synchronized
 * by a loop of etcd that runs every 100 ms (syncWatchersLoop), and gets later
 * events after that.  A watch without a start revision is served immediately,
 * from the revision that the answer to its create names.  So a watch that must
 * be fast, or that has missed little, is created without a start revision, and
 * the keys are read as they were at the revision of the answer.  Events are
 * kept meanwhile (ngx_etcd_watch_events.h).  A watch that knows most keys
 * already reads them by one small Range on the connection of the watch; an
 * endpoint that has just taken the watch over need not ask other members for
 * that.
 *
 * Any other watch goes on from its revision.  It has caught up when it comes to
 * the revision of the answer.  etcd sends nothing if nothing happened to the
 * prefix: then the watch has caught up after NGX_ETCD_FRESH_TURNS turns, unless
 * the endpoint itself is behind the revision.  An endpoint that stays behind is
 * left.
 */


#ifndef _NGX_ETCD_WATCH_RESUME_H_INCLUDED_
#define _NGX_ETCD_WATCH_RESUME_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_stream_range.h>
#include <ngx_etcd_watch_range.h>
#include <ngx_etcd_watch_stream.h>


/* limits of a read on the connection of the watches */

#define NGX_ETCD_WATCH_RESUME_KEYS    1000
#define NGX_ETCD_WATCH_RESUME_VOLUME  65000    /* bytes of keys and values */
#define NGX_ETCD_WATCH_RESUME_TIME    500      /* ms */


typedef struct {
    /* set by the owner, the rest zeroed; what is pointed to must stay */

    ngx_etcd_watch_stream_t     *stream;
    ngx_etcd_watch_range_t      *range;
    int64_t                     *revision;     /* the watch has reported all
                                                  events up to it */

    /*
     * All keys at that revision, valid until this returns.  NULL: they could
     * not be read, or are too many.
     */
    void                       (*done)(void *data,
                                       Etcd__RangeResponse *response,
                                       int64_t revision);
    void                        *data;

    /* private */

    ngx_etcd_stream_range_t      read;
    int64_t                      at;           /* that revision */
    ngx_event_t                  timer;        /* catching up */
    int64_t                      target;       /* caught up at that revision */
    ngx_uint_t                   turns;        /* left */
    ngx_uint_t                   lags;         /* the endpoint was behind so
                                                  many times */
    unsigned                     behind:1;
} ngx_etcd_watch_resume_t;


/* A watch that is behind holds up proofs (ngx_etcd_fresh.h). */
void ngx_etcd_watch_resume_behind(ngx_etcd_watch_resume_t *resume,
    ngx_uint_t behind);

/* The watch goes on from *revision; it was created by that answer. */
void ngx_etcd_watch_resume_follow(ngx_etcd_watch_resume_t *resume,
    Etcd__ResponseHeader *header);

/* The watch has come to another *revision. */
void ngx_etcd_watch_resume_reached(ngx_etcd_watch_resume_t *resume);

/*
 * Reads all keys at that revision from the endpoint of the watch; done() is
 * called later.  NGX_DECLINED: not possible now.
 */
ngx_int_t ngx_etcd_watch_resume_read(ngx_etcd_watch_resume_t *resume,
    int64_t revision);

/* The watch is off the stream; no handler is called. */
void ngx_etcd_watch_resume_stop(ngx_etcd_watch_resume_t *resume);


#endif /* _NGX_ETCD_WATCH_RESUME_H_INCLUDED_ */
