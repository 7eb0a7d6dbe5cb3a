
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Mirror: the local copy of all keys below a prefix, or of one key.
 *
 * A mirror owns a watch (ngx_etcd_watch.h), applies the reports of the watch to
 * its entries, and tells its consumer which entries have changed.  While
 * "synced" is set, the entries are the keys that etcd had at the mirror's
 * revision.  Otherwise they are the last known keys, and a list is to come: a
 * consumer that has to fail closed checks "synced" before each decision, others
 * use the entries as they are.
 *
 * Rules:
 *
 *     A list replaces everything: keys that it does not contain are removed at
 *     its end, in pieces, before complete() is called.  A list that ends early
 *     removes nothing.
 *
 *     Events are applied in the order of mod_revision.  An event is ignored if
 *     it is older than the last list or than the entry of its key, or if it
 *     is repeated.
 *
 *     A listed key whose revisions are those of its entry is not reported,
 *     unless "distrust" is set: then every key is.
 *
 *     If there is no memory for an event, the mirror is denied with status
 *     INTERNAL, and lists again after NGX_ETCD_MIRROR_AGAIN ms.
 *
 *     The mirror is audited at intervals (ngx_etcd_mirror_audit.h).
 */


#ifndef _NGX_ETCD_MIRROR_H_INCLUDED_
#define _NGX_ETCD_MIRROR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_mirror_audit.h>
#include <ngx_etcd_mirror_entry.h>
#include <ngx_etcd_watch.h>


/* ms until a mirror that had no memory for an event lists again */

#define NGX_ETCD_MIRROR_AGAIN  1000

/* entries that a list removes at a time, within NGX_ETCD_TIME_BUDGET */

#define NGX_ETCD_MIRROR_PIECE  128


typedef struct ngx_etcd_mirror_s  ngx_etcd_mirror_t;


/* removes entries that a list does not have */

typedef struct {
    uint32_t                     generation;   /* of the last list */
    ngx_queue_t                 *next;         /* the next entry that may be
                                                  missing in it; NULL: the first
                                                  one */
    ngx_uint_t                   piece;        /* entries removed at a time; 0:
                                                  _MIRROR_PIECE */
} ngx_etcd_mirror_sweep_t;


/*
 * Handlers must not start, end or list the mirror, except for complete() and
 * denied(), which may list it again.  Each may be NULL.
 */

struct ngx_etcd_mirror_s {
    /* set by the caller before ngx_etcd_mirror_init(), the rest zeroed */

    ngx_str_t                    name;         /* prefix of log messages; must
                                                  stay */
    ngx_etcd_mirror_entries_t    entries;      /* order, keep, entry_size */

    /* A list begins.  An earlier list that has not ended is void. */
    void                       (*list)(ngx_etcd_mirror_t *mirror);

    /* 0: the key is ignored.  NULL: all keys are wanted. */
    ngx_uint_t                 (*wants)(ngx_etcd_mirror_t *mirror,
                                        ngx_str_t *key);

    /* the entry is new, or the key was written */
    void                       (*changed)(ngx_etcd_mirror_t *mirror,
                                          ngx_etcd_mirror_entry_t *entry);

    /*
     * The entry is removed from the mirror, and freed afterwards.  If the cause
     * is an event, mod_revision is that of the deletion.  Also called for
     * deleted keys without an entry, with a create_revision of 0, even if the
     * deletion is older than the last list.
     */
    void                       (*removed)(ngx_etcd_mirror_t *mirror,
                                          ngx_etcd_mirror_entry_t *entry);

    /*
     * All changes up to the revision were reported, by a list ("relisted" is
     * set) or by events; also called if nothing has changed.  If the next
     * revision has more than NGX_ETCD_WATCH_TOGETHER events, a part of them may
     * have been reported as well.
     */
    void                       (*complete)(ngx_etcd_mirror_t *mirror,
                                           int64_t revision);

    /*
     * etcd does not allow or cannot serve the reads of the mirror.  They are
     * tried again; "refused" is set until complete() is called.
     */
    void                       (*denied)(ngx_etcd_mirror_t *mirror,
                                         ngx_etcd_grpc_status_e status);

    /*
     * The list that begins is of another history: etcd was wiped or restored,
     * or is another cluster.  Called again if such a list starts again.
     */
    void                       (*foreign)(ngx_etcd_mirror_t *mirror);

    void                        *data;

    /*
     * Set by a fan-out (ngx_etcd_fanout.h), which feeds the mirror in place of
     * a watch: the mirror needs a list.
     */
    void                       (*relist)(void *data, ngx_msec_t delay);
    void                        *fanout;

    /*
     * The caller sets the watched keys and the options before
     * ngx_etcd_mirror_start(): range.prefix, range.exact, revision, prompt,
     * verify_interval, verified, pool.  watch.data is the mirror.
     */
    ngx_etcd_watch_t             watch;

    /* read-only for the caller */

    int64_t                      revision;     /* of the last complete() */

    unsigned                     synced:1;     /* the entries are what etcd had
                                                  at "revision" */
    unsigned                     listing:1;    /* a list has begun */
    unsigned                     relisted:1;   /* during complete() */
    unsigned                     refused:1;
    unsigned                     distrust:1;   /* values may differ though
                                                  revisions are equal; may be
                                                  set by list() */

    /* private */

    unsigned                     started:1;
    ngx_etcd_mirror_sweep_t      sweep;
    int64_t                      listed;       /* revision of the last list */
    ngx_uint_t                   history;      /* cluster->history.changes */
    ngx_etcd_causes_t            causes;       /* of refusals, logged */
    ngx_etcd_mirror_audit_t      audit;
};


/* an empty mirror without a watch */
void ngx_etcd_mirror_init(ngx_etcd_mirror_t *mirror, ngx_log_t *log);

/*
 * Adds a key that existed at the watch's revision, without a value.  To be
 * called before the start, or before ngx_etcd_mirror_again(); not for ordered
 * mirrors.  Returns NULL if there is no memory.
 */
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_seed(ngx_etcd_mirror_t *mirror,
    ngx_str_t *key, int64_t mod_revision);

/* The key of such an entry existed at another mod_revision. */
void ngx_etcd_mirror_revise(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry, int64_t mod_revision);

/* NGX_ERROR: no memory */
ngx_int_t ngx_etcd_mirror_start(ngx_etcd_mirror_t *mirror,
    ngx_etcd_watch_stream_t *stream);

/*
 * The mirror is not synced any more.  A list, after "delay" ms, reports every
 * key.
 */
void ngx_etcd_mirror_again(ngx_etcd_mirror_t *mirror, ngx_msec_t delay);

/*
 * Ends the watch and frees all entries; removed() is not called.  NGX_AGAIN:
 * etcd still has to answer, and nothing was done; call again later.
 */
ngx_int_t ngx_etcd_mirror_stop(ngx_etcd_mirror_t *mirror);

/*
 * Frees all entries after the watch stream was destroyed, or before the start;
 * removed() is not called.
 */
void ngx_etcd_mirror_destroy(ngx_etcd_mirror_t *mirror);


/*
 * For a fan-out.  The mirror has no watch of its own: it is complete up to that
 * revision (0: to be listed), its lists and events come by the handlers of
 * mirror->watch, and it is not audited.  ngx_etcd_mirror_event() applies one
 * event; when all events up to a revision were applied,
 * ngx_etcd_mirror_passed() reports the revision.  NGX_ERROR: no memory.
 */
void ngx_etcd_mirror_feed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_watch_stream_t *stream, int64_t revision);
ngx_int_t ngx_etcd_mirror_event(ngx_etcd_mirror_t *mirror,
    Etcd__Event *event);
void ngx_etcd_mirror_passed(ngx_etcd_mirror_t *mirror, int64_t revision);


/*
 * To be called in removed() for a known entry: the consumer becomes its owner,
 * may use its queue, and frees it with ngx_free().  Not for prompt watches, nor
 * if values are kept.
 */
void ngx_etcd_mirror_hold(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);


/* Returns NULL if there is no such entry. */
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_find(ngx_etcd_mirror_t *mirror,
    ngx_str_t *key);

/*
 * Returns 1 if the entries include everything that etcd had at that revision of
 * the present history, or at a later one.
 */
ngx_uint_t ngx_etcd_mirror_covers(ngx_etcd_mirror_t *mirror, int64_t revision);

/* all entries, in the order if there is one; NULL: end */
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_first(ngx_etcd_mirror_t *mirror);
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_next(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);


/*
 * Reports of a watch that etcd refuses: one line when it begins, one when it
 * is over.
 */

/* The name is the prefix of the message. */
void ngx_etcd_mirror_denied(ngx_etcd_causes_t *causes, ngx_str_t *name,
    ngx_etcd_watch_t *watch, ngx_etcd_grpc_status_e status, ngx_str_t *text,
    ngx_log_t *log);
void ngx_etcd_mirror_allowed(ngx_etcd_causes_t *causes, ngx_str_t *name,
    ngx_etcd_watch_t *watch, ngx_log_t *log);


#endif /* _NGX_ETCD_MIRROR_H_INCLUDED_ */
