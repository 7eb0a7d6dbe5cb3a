
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Why something fails: the causes of an outage, and why a request is refused.
 * Here is also how often the log says so.
 */


#ifndef _NGX_ETCD_CAUSE_H_INCLUDED_
#define _NGX_ETCD_CAUSE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * The causes of one outage that the log has: the first failure by each cause is
 * an error, further ones are not, in whatever order they come.
 */

/* causes of one outage that are logged as errors */

#define NGX_ETCD_CAUSES  8


/* Zeroed: there is no outage. */

typedef struct {
    uint32_t                     known[NGX_ETCD_CAUSES];  /* hashes; 0: free */
} ngx_etcd_causes_t;


/*
 * Returns the level for a line about a failure: NGX_LOG_ERR if neither this
 * cause nor too many others were logged since the outage began, or
 * NGX_LOG_INFO.  A cause is a number, as a status, and a text, whose digits do
 * not count: the same cause comes with other addresses and times.
 */
ngx_uint_t ngx_etcd_cause_level(ngx_etcd_causes_t *causes, ngx_uint_t number,
    ngx_str_t *text);

/* 1 during an outage */
#define ngx_etcd_cause_any(causes)  ((causes)->known[0] != 0)

/* The outage is over.  Returns 1 if there was one. */
ngx_uint_t ngx_etcd_cause_forget(ngx_etcd_causes_t *causes);


/*
 * Why a request or a session is refused: the word of $etcd_reason, and a line
 * in the error log.  Nothing of this is done for requests that are served.
 */

/*
 * The order counts: for words, lines of the log, and the ranges of reasons in
 * ngx_etcd_no_member.c.
 */

typedef enum {
    NGX_ETCD_REFUSAL_NONE = 0,

    /* nothing is known */
    NGX_ETCD_REFUSAL_UNKNOWN,        /* there is no such set */
    NGX_ETCD_REFUSAL_LOADING,        /* not read yet */
    NGX_ETCD_REFUSAL_UNREACHABLE,    /* not read, etcd does not answer */
    NGX_ETCD_REFUSAL_UNAUTHORIZED,   /* not read, etcd refuses the user */
    NGX_ETCD_REFUSAL_DENIED,         /* the user may not read the prefix */
    NGX_ETCD_REFUSAL_ZONE_FULL,
    NGX_ETCD_REFUSAL_UNREADABLE,     /* the worker cannot read the zone */

    /* no member can be used */
    NGX_ETCD_REFUSAL_NO_MEMBERS,
    NGX_ETCD_REFUSAL_UNRESOLVED,     /* host names have no address */
    NGX_ETCD_REFUSAL_DOWN,
    NGX_ETCD_REFUSAL_DRAINED,
    NGX_ETCD_REFUSAL_UNHEALTHY,      /* checks */
    NGX_ETCD_REFUSAL_EJECTED,
    NGX_ETCD_REFUSAL_FAILING,        /* max_fails */
    NGX_ETCD_REFUSAL_BUSY,           /* max_conns */
    NGX_ETCD_REFUSAL_FAILED,         /* the tried ones failed, others were not
                                        tried */

    NGX_ETCD_REFUSAL_LEFT,           /* the member left, close_after */
    NGX_ETCD_REFUSAL_QUEUE_FULL,     /* etcd_wait */
    NGX_ETCD_REFUSAL_WAIT_TIMEOUT,

    NGX_ETCD_REFUSAL_NO_LEADER,
    NGX_ETCD_REFUSAL_STALE,          /* the proof is older than max_stale */
    NGX_ETCD_REFUSAL_LEADER_CHANGED,
    NGX_ETCD_REFUSAL_UPSTREAM,       /* the end of those of upstreams */

    NGX_ETCD_REFUSAL_NOT_LEADER,     /* etcd_require_leader */

    NGX_ETCD_REFUSAL_LOCK_HELD,
    NGX_ETCD_REFUSAL_LOCK_QUEUE_FULL,
    NGX_ETCD_REFUSAL_LOCK_UNAVAILABLE,
    NGX_ETCD_REFUSAL_LOCK_LOST
} ngx_etcd_refusal_e;


/* numbers of counts by reason, of which the first is that of UNKNOWN, HELD */

#define NGX_ETCD_REFUSALS_OF_UPSTREAM                                         \
    (NGX_ETCD_REFUSAL_UPSTREAM - NGX_ETCD_REFUSAL_UNKNOWN)
#define NGX_ETCD_REFUSALS_OF_LOCK                                             \
    (NGX_ETCD_REFUSAL_LOCK_LOST - NGX_ETCD_REFUSAL_LOCK_HELD + 1)


/* Limits the lines about refusals; zeroed, in the memory of a worker. */

typedef struct {
    time_t                       second;   /* of the last line */
    ngx_uint_t                   n;        /* since then */
} ngx_etcd_refusal_log_t;


/* Words by refusal; an empty one ends those of upstreams, or of locks. */
extern ngx_str_t  ngx_etcd_refusal_words[];

/* The word of a refusal, as in $etcd_reason; empty for none. */
ngx_str_t *ngx_etcd_refusal_word(ngx_etcd_refusal_e refusal);

/*
 * The last refusal of the request or session that has the pool; a request and
 * its subrequests share it.  Without memory it is not set.
 */
void ngx_etcd_refusal_set(ngx_pool_t *pool, ngx_etcd_refusal_e refusal);
ngx_etcd_refusal_e ngx_etcd_refusal_get(ngx_pool_t *pool);

/*
 * Counts a refusal.  Returns how many there were since the last line if a line
 * may be logged now, which is so once a second and worker; otherwise 0.
 */
ngx_uint_t ngx_etcd_refusal_due(ngx_etcd_refusal_log_t *limit);


#endif /* _NGX_ETCD_CAUSE_H_INCLUDED_ */
