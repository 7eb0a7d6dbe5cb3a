
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Fan-out: one watch of a prefix that feeds many mirrors.  The owner tells to
 * which part, and so to which mirror, a key belongs; parts may come and go at
 * any time.  A part that has no event costs nothing.
 *
 * A list reaches each part when its first key comes.  Keys that the list does
 * not have are removed in pieces, part by part; then the list is ended for all
 * parts in pieces; a part gets no event before its list has ended.  All parts
 * are listed together.
 */


#ifndef _NGX_ETCD_FANOUT_H_INCLUDED_
#define _NGX_ETCD_FANOUT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_mirror.h>


typedef struct ngx_etcd_fanout_s  ngx_etcd_fanout_t;


/* Embedded in the owner's object of a part. */

typedef struct {
    ngx_etcd_mirror_t           *mirror;
    ngx_queue_t                  queue;        /* in fanout->parts */
    ngx_queue_t                  turn;         /* in fanout->touched, or in
                                                  fanout->listed */
    uint32_t                     round;        /* of the last list that has
                                                  begun */
    unsigned                     touched:1;
    unsigned                     listed:1;     /* the end of the list is still
                                                  to be reported */
} ngx_etcd_fanout_part_t;


/* Handlers must not start or end the fan-out. */

struct ngx_etcd_fanout_s {
    /* set by the owner before ngx_etcd_fanout_init(), the rest zeroed */

    ngx_str_t                    name;         /* prefix of log messages */

    /*
     * The part of a key.  "create": a part that does not exist is created, and
     * was added by ngx_etcd_fanout_add().  NULL: the key belongs to no part.
     */
    ngx_etcd_fanout_part_t    *(*find)(ngx_etcd_fanout_t *fanout,
                                       ngx_str_t *key, ngx_uint_t create);

    /* 0: the key is ignored, and belongs to no part */
    ngx_uint_t                 (*wants)(void *fanout, ngx_str_t *key);

    /* a list begins */
    void                       (*list)(ngx_etcd_fanout_t *fanout);

    /* the handlers of a mirror; parts are told before complete() is called */
    void                       (*complete)(ngx_etcd_fanout_t *fanout,
                                           int64_t revision);
    void                       (*denied)(ngx_etcd_fanout_t *fanout,
                                         ngx_etcd_grpc_status_e status);
    void                        *data;

    /*
     * The owner sets range.prefix, revision, verify_interval and verified
     * before ngx_etcd_fanout_start().  watch.data is the fan-out.
     */
    ngx_etcd_watch_t             watch;

    /* read-only for the owner */

    ngx_queue_t                  parts;
    int64_t                      revision;     /* of the last complete() */
    int64_t                      list_revision;
                                               /* of the last list; 0: there
                                                  was none */
    unsigned                     synced:1;
    unsigned                     listing:1;

    /* private */

    unsigned                     started:1;
    uint32_t                     round;        /* number of lists */
    ngx_queue_t                  touched;      /* parts with events */
    ngx_queue_t                 *sweep;        /* the next part whose missing
                                                  keys are removed; NULL: the
                                                  first one */
    ngx_queue_t                  listed;       /* parts whose list has to be
                                                  ended */
    ngx_event_t                  finish;       /* posted: ends lists */
    ngx_etcd_causes_t            causes;       /* of refusals, logged */
    ngx_log_t                   *log;
    uint64_t                     sum;          /* of the keys of all parts */
    ngx_etcd_mirror_audit_t      audit;
};


void ngx_etcd_fanout_init(ngx_etcd_fanout_t *fanout, ngx_log_t *log);

/*
 * Parts that were added before are complete up to watch.revision (0: all are
 * listed).  NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_fanout_start(ngx_etcd_fanout_t *fanout,
    ngx_etcd_watch_stream_t *stream);

/* Must be called after the watch stream was destroyed; parts may be left. */
void ngx_etcd_fanout_stop(ngx_etcd_fanout_t *fanout);

/* Adds a part, whose mirror is initialized. */
void ngx_etcd_fanout_add(ngx_etcd_fanout_t *fanout,
    ngx_etcd_fanout_part_t *part);

/*
 * Removes a part; the mirror is the owner's, and is destroyed before the
 * fan-out.
 */
void ngx_etcd_fanout_remove(ngx_etcd_fanout_t *fanout,
    ngx_etcd_fanout_part_t *part);

/*
 * Lists all parts again, after "delay" ms.  Before the start it does nothing:
 * the owner starts a fan-out whose parts are not complete without a revision.
 * "data" is an ngx_etcd_fanout_t.
 */
void ngx_etcd_fanout_again(void *data, ngx_msec_t delay);

/* Returns 1 while parts wait for the end of their list. */
#define ngx_etcd_fanout_pending(fanout)                                       \
    ((fanout)->listing || !ngx_queue_empty(&(fanout)->listed))


#endif /* _NGX_ETCD_FANOUT_H_INCLUDED_ */
