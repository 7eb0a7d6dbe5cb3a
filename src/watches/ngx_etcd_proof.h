
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Proofs that watches are alive and complete.
 *
 * The stream's proof (ngx_etcd_proof_t) is a time at which the endpoint was
 * alive, believed itself to be part of a cluster with a leader, and had all
 * watches of this client in force.  Such times are
 *
 *     that of the arrival of a message on the watch stream: an event, a
 *         progress notification, the answer to a create;
 *     that when a PING, the renewal of a lease, a request for progress, or a
 *         linearizable read was SENT that was answered: the answer may have
 *         been delayed on its way.
 *
 * Nothing is a proof until every watch is created on the open stream and has
 * caught up (ngx_etcd_watch_events.h).  Nothing is proved, either, while a part
 * of a revision is buffered, or by an endpoint that has not reached the
 * revision at which a watch continues.  A prefix that etcd does not allow the
 * user to read neither holds up proofs nor has any.
 *
 * The stream has "hasleader" set, so that a member that loses its leader ends
 * the stream, but only after three election timeouts (3 s unless etcd is
 * configured otherwise).  An endpoint that cannot apply, because its disk
 * stands still or it is partitioned, keeps its connections and watches, answers
 * PINGs, requests for progress and renewals of leases for a long time, and
 * sends no event.  It does not answer a linearizable read.  So the endpoint is
 * left when it does not answer one in time: either that of the stream, or that
 * of a watch, both over the connection of the watches (ngx_etcd_verify_t).
 *
 * The stream reads one key that is watched.  The interval is
 * NGX_ETCD_PROOF_PINGS times that of PINGs, less a random part of up to a
 * quarter: PINGs, which find a broken connection, come first, and a token that
 * is not used otherwise expires as before.  PERMISSION_DENIED is an answer,
 * too: etcd refuses the user after the endpoint has applied what a quorum
 * confirmed.  An endpoint has request_timeout to answer, and twice as long
 * after each one that did not, up to NGX_ETCD_PROOF_DOUBLINGS times: where no
 * endpoint can answer, none is better than another.
 *
 * A watch whose owner depends on it is verified by a Range of exactly the
 * watched keys.  The Range asks for the newest key later than the watch's
 * revision; etcd adds the number of all keys in the range.  If there is no
 * later key, and the number is that of the keys that the watch knows, then the
 * watch had reported everything that etcd had when the Range was SENT.
 * Otherwise the watch is behind, which is usual for a moment after a change:
 * the same is proved when the watch reaches the revision of the answer, and
 * knows as many keys there.  Meanwhile the Range is repeated, and the prefix is
 * listed again if the watch stays behind, or at once if the number is wrong at
 * the revision of the answer: then an event was lost.  This does not depend on
 * progress notifications, finds events that etcd has lost, and works through
 * "etcd grpc-proxy", which asks etcd for each linearizable Range.
 *
 * Two faults may hide each other, until the next Range: an event that etcd has
 * lost made the number wrong by as much as events do that are on their way.  A
 * watch that has passed the revision of an answer before it came is believed:
 * the number that it had there is not known any more.
 */


#ifndef _NGX_ETCD_PROOF_H_INCLUDED_
#define _NGX_ETCD_PROOF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_kv.h>
#include <ngx_etcd_watch_request.h>


/* ms without an answer to a request for progress, which etcd may drop */
#define NGX_ETCD_PROOF_AGAIN       1000

#define NGX_ETCD_PROOF_PINGS       3
#define NGX_ETCD_PROOF_DOUBLINGS   4

/*
 * ms until the Range of a watch is repeated, after a failure or while the watch
 * is behind
 */
#define NGX_ETCD_VERIFY_AGAIN      100

/*
 * the prefix is listed again after so many answers in a row that the watch is
 * behind
 */
#define NGX_ETCD_VERIFY_BEHIND     10

/*
 * ms; a shorter interval does not make the client leave an endpoint sooner
 */
#define NGX_ETCD_VERIFY_MIN        500


typedef struct ngx_etcd_proof_s  ngx_etcd_proof_t;


/* The state says what the timer waits for. */

typedef enum {
    NGX_ETCD_VERIFY_STOPPED = 0,
    NGX_ETCD_VERIFY_SCHEDULED,      /* the time of the next read */
    NGX_ETCD_VERIFY_READING         /* the answer */
} ngx_etcd_verify_state_e;


typedef struct {
    /* set by the owner, the rest zeroed; objects must stay */

    ngx_etcd_proof_t            *proof;        /* of the stream */
    ngx_etcd_watch_range_t      *range;
    ngx_msec_t                   interval;     /* ms; 0: no verification */
    int64_t                     *revision;     /* all events up to it were
                                                  reported by the watch; NULL:
                                                  only the endpoint is
                                                  verified */

    /* returns 1 if events have arrived that the watch has not reported yet */
    ngx_uint_t                 (*pending)(void *data);

    /*
     * at that ngx_etcd_clock() the watch had reported everything that etcd had
     */
    void                       (*verified)(void *data, uint64_t time);

    /* the watch lacks events: its owner lists the prefix again */
    void                       (*differs)(void *data);

    /* the user may not read the range any more */
    void                       (*refused)(void *data,
                                          ngx_etcd_grpc_status_e status,
                                          ngx_str_t *text);

    void                        *data;

    int64_t                     *nkeys;        /* in the range, at *revision:
                                                  the owner counts them */

    /* private */

    ngx_etcd_verify_state_e      state;
    ngx_etcd_stream_range_t      read;
    ngx_event_t                  timer;
    uint64_t                     sent;         /* ngx_etcd_clock() of the
                                                  read */
    uint64_t                     due;          /* the endpoint is left without
                                                  an answer by then; 0: none is
                                                  overdue */
    ngx_uint_t                   silences;     /* of endpoints in a row */
    ngx_uint_t                   behind;       /* answers in a row that the
                                                  watch is behind */
    int64_t                      known;        /* *revision, at "sent" */
    int64_t                      awaited;      /* *revision at which the
                                                  watch will have caught up;
                                                  0: none */
    int64_t                      count;        /* keys at "awaited", and
                                                  what changed after it */
    uint64_t                     asked;        /* when the Range for "awaited"
                                                  was sent */
} ngx_etcd_verify_t;


struct ngx_etcd_proof_s {
    /* set by the owner, the rest zeroed */

    ngx_etcd_cluster_t          *cluster;

    /* sends a request for progress if the stream is open */
    ngx_int_t                  (*progress)(void *data);

    /* the endpoint does not answer: the owner ends the stream */
    void                       (*leave)(void *data, ngx_str_t *reason);
    void                        *data;

    /* private */

    ngx_uint_t                   in_force;     /* watches on the stream */
    ngx_uint_t                   behind;       /* number of reasons that hold up
                                                  proofs */

    uint64_t                     asked;        /* time of the first request for
                                                  progress; 0: answered */
    uint64_t                     again;        /* no request before that time */
    ngx_uint_t                   repeated;     /* requested more than once */

    ngx_etcd_watch_range_t       range;        /* a watched key */
    ngx_etcd_verify_t            verify;
};


/* In these functions NULL is a watch that is not verified. */

/* The watch is in force.  Does nothing if the interval is 0. */
void ngx_etcd_verify_start(ngx_etcd_verify_t *verify);

/* The watch is not in force any more: no handler is called. */
void ngx_etcd_verify_stop(ngx_etcd_verify_t *verify);

/* *nkeys has changed by that, for an event of that revision. */
void ngx_etcd_verify_counted(ngx_etcd_verify_t *verify, int64_t revision,
    ngx_int_t change);

/* The watch has reported all events up to *revision. */
void ngx_etcd_verify_reached(ngx_etcd_verify_t *verify);

/* All keys are counted anew. */
void ngx_etcd_verify_anew(ngx_etcd_verify_t *verify);


/*
 * Tells a watched key, with the namespace.  The first one is copied, and read.
 * Without memory, it is the next one.
 */
void ngx_etcd_proof_know(ngx_etcd_proof_t *proof, ngx_str_t *key);

/* Adds to the numbers of watches in force, and of reasons against proofs. */
void ngx_etcd_proof_count(ngx_etcd_proof_t *proof, ngx_int_t in_force,
    ngx_int_t behind);

/* the stream is open on another connection */
void ngx_etcd_proof_opened(ngx_etcd_proof_t *proof);

/* the stream has ended: its requests get no answers; may be called any time */
void ngx_etcd_proof_ended(ngx_etcd_proof_t *proof);

/* a message came on the stream; "answer": to a request for progress */
void ngx_etcd_proof_received(ngx_etcd_proof_t *proof, ngx_uint_t answer);

/* Requests progress now, if the answer can be a proof. */
void ngx_etcd_proof_ask(ngx_etcd_proof_t *proof);


#endif /* _NGX_ETCD_PROOF_H_INCLUDED_ */
