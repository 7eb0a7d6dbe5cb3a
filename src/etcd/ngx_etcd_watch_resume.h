
/*
 * Copyright (C) nginx-etcd contributors
 *
 * How a created watch catches up with the revision of the endpoint.
 *
 * If a watch starts at an older revision than the endpoint's, a loop of etcd
 * that runs every 100 ms (syncWatchersLoop) synchronizes it, before it gets
 * later events.  A watch without a start revision is served immediately, from
 * the revision that the answer to its create names.  So a watch that must be
 * fast, or that has missed little, is created without a start revision, and the
 * keys are read at the revision of the answer.  Meanwhile events are buffered
 * (ngx_etcd_watch_events.h).  A watch that knows most keys already reads them
 * by one small Range on the connection of the watch; an endpoint that has just
 * accepted the watch can answer this Range without other members.
 *
 * Any other watch continues at its revision.  It has caught up when it reaches
 * the revision of the answer.  etcd sends nothing if nothing happened to the
 * prefix: then the watch counts as caught up after NGX_ETCD_WATCH_RESUME_TURNS
 * of _TURN ms each (a machine that stands still uses up one turn, however long
 * it stands), unless the endpoint itself is behind the revision.  An endpoint
 * that stays behind is left.
 */


#ifndef _NGX_ETCD_WATCH_RESUME_H_INCLUDED_
#define _NGX_ETCD_WATCH_RESUME_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_kv.h>
#include <ngx_etcd_watch_request.h>
#include <ngx_etcd_watch_stream.h>


#define NGX_ETCD_WATCH_RESUME_TURN    100      /* ms */
#define NGX_ETCD_WATCH_RESUME_TURNS   10

/* an endpoint is left when it was found behind a watch so many times */
#define NGX_ETCD_WATCH_RESUME_LAGS    3

/* limits of a Range on the connection of the watch */

#define NGX_ETCD_WATCH_RESUME_KEYS    1000
#define NGX_ETCD_WATCH_RESUME_VOLUME  65000    /* bytes of keys and values,
                                                  when last listed */
#define NGX_ETCD_WATCH_RESUME_BYTES   262144   /* of the answer */
#define NGX_ETCD_WATCH_RESUME_TIME    500      /* ms */


typedef struct {
    /* set by the owner, the rest zeroed; objects must stay */

    ngx_etcd_watch_stream_t     *stream;
    ngx_etcd_watch_range_t      *range;
    int64_t                     *revision;     /* all events up to it were
                                                  reported by the watch */

    /*
     * Called once with all keys at that revision, valid until this returns;
     * NULL: the keys could not be read, or are too many.
     */
    void                       (*done)(void *data,
                                       Etcd__RangeResponse *response,
                                       int64_t revision);
    void                        *data;

    /* private */

    ngx_etcd_stream_range_t      read;
    int64_t                      at;           /* revision of the read */
    ngx_event_t                  timer;        /* catching up */
    int64_t                      target;       /* revision at which the watch
                                                  has caught up */
    ngx_uint_t                   turns;        /* turns left */
    ngx_uint_t                   lags;         /* times the endpoint was found
                                                  behind */
    unsigned                     behind:1;
} ngx_etcd_watch_resume_t;


/* a watch that is behind holds up proofs (ngx_etcd_proof.h) */
void ngx_etcd_watch_resume_behind(ngx_etcd_watch_resume_t *resume,
    ngx_uint_t behind);

/* the watch continues at *revision; its create was answered with that header */
void ngx_etcd_watch_resume_follow(ngx_etcd_watch_resume_t *resume,
    Etcd__ResponseHeader *header);

/* *revision has changed */
void ngx_etcd_watch_resume_reached(ngx_etcd_watch_resume_t *resume);

/*
 * Reads all keys at that revision from the endpoint of the watch; calls done()
 * later.  NGX_DECLINED: not possible now.
 */
ngx_int_t ngx_etcd_watch_resume_read(ngx_etcd_watch_resume_t *resume,
    int64_t revision);

/* the watch has left the stream; no handler is called any more */
void ngx_etcd_watch_resume_stop(ngx_etcd_watch_resume_t *resume);


#endif /* _NGX_ETCD_WATCH_RESUME_H_INCLUDED_ */
