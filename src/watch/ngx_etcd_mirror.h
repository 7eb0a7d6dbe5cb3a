
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Mirror: the local copy of all keys below a prefix, or of one key.
 *
 * A mirror owns a watch (ngx_etcd_watch.h), applies what the watch reports to
 * its entries, and tells its consumer which entries have changed.  Entries are
 * what etcd had at the mirror's revision while "synced" is set.  Otherwise they
 * are what was known last, and a list is to come: a consumer that has to fail
 * closed looks at "synced" before each decision, another one goes on with the
 * entries.
 *
 * Rules:
 *
 *     A list replaces everything: what it does not name is removed at its end.
 *     A list that ends early removes nothing.
 *
 *     Events are applied in the order of mod_revisions: an event that is older
 *     than the last list, or than what is known of its key, or that comes
 *     twice, changes nothing.
 *
 *     A key that a list names with the revisions that are known is not
 *     reported, unless "distrust" is set: then every key is.
 *
 *     Without memory for an event the mirror is refused with status INTERNAL,
 *     and lists again after NGX_ETCD_MIRROR_AGAIN ms.
 *
 *     Now and then the mirror is audited (ngx_etcd_mirror_audit.h).
 */


#ifndef _NGX_ETCD_MIRROR_H_INCLUDED_
#define _NGX_ETCD_MIRROR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_mirror_audit.h>
#include <ngx_etcd_mirror_entry.h>
#include <ngx_etcd_watch.h>


/* ms until a mirror that had no memory for an event lists again */

#define NGX_ETCD_MIRROR_AGAIN  1000


typedef struct ngx_etcd_mirror_s  ngx_etcd_mirror_t;


/*
 * Handlers must not start, end or list the mirror, but for complete() and
 * denied(), which may list it again.  Each may be NULL.
 */

struct ngx_etcd_mirror_s {
    /* set by the caller before ngx_etcd_mirror_init(), the rest zeroed */

    ngx_str_t                    name;         /* what log lines begin with;
                                                  must stay */
    ngx_etcd_mirror_entries_t    entries;      /* order, keep, entry_size */

    /* a list begins; an earlier one that has not ended is void */
    void                       (*list)(ngx_etcd_mirror_t *mirror);

    /* 0: the key is left out.  NULL: all keys are wanted */
    ngx_uint_t                 (*wants)(ngx_etcd_mirror_t *mirror,
                                        ngx_str_t *key);

    /* the entry is new, or was written */
    void                       (*changed)(ngx_etcd_mirror_t *mirror,
                                          ngx_etcd_mirror_entry_t *entry);

    /*
     * The entry is no part of the mirror any more, and freed afterwards.  If
     * an event says so, mod_revision is that of the deletion; this is also
     * called for keys that are not known, with a create_revision of 0, even if
     * the deletion is older than the last list.
     */
    void                       (*removed)(ngx_etcd_mirror_t *mirror,
                                          ngx_etcd_mirror_entry_t *entry);

    /*
     * All up to that revision was reported, by a list ("relisted" is set then)
     * or by events; it may be reported that nothing has happened.  Of a
     * revision with more than NGX_ETCD_WATCH_TOGETHER events a part may have
     * been reported, too.
     */
    void                       (*complete)(ngx_etcd_mirror_t *mirror,
                                           int64_t revision);

    /*
     * The mirror cannot be read.  It is tried again; "refused" is set until
     * complete() is called.
     */
    void                       (*denied)(ngx_etcd_mirror_t *mirror,
                                         ngx_etcd_grpc_status_e status);

    /*
     * The list that begins is of another history: etcd was wiped or restored,
     * or is another cluster.  Also called if such a list begins once more.
     */
    void                       (*foreign)(ngx_etcd_mirror_t *mirror);

    void                        *data;

    /*
     * The caller sets what is watched and how, before ngx_etcd_mirror_start():
     * prefix, exact, revision, prompt, verify_interval, verified, pool.
     * watch.data is the mirror.
     */
    ngx_etcd_watch_t             watch;

    /* to be read */

    int64_t                      revision;     /* of the last complete() */

    unsigned                     synced:1;     /* entries are known to be what
                                                  etcd had at "revision" */
    unsigned                     listing:1;    /* a list has begun */
    unsigned                     relisted:1;   /* within complete() */
    unsigned                     refused:1;
    unsigned                     distrust:1;   /* equal revisions do not say
                                                  that values are; may be set
                                                  by list() */

    /* private */

    unsigned                     started:1;
    uint32_t                     generation;   /* of the last list */
    int64_t                      listed;       /* revision of the last list */
    ngx_uint_t                   history;      /* the cluster's */
    ngx_etcd_grpc_status_e       reported;     /* was logged; OK: nothing */
    ngx_etcd_mirror_audit_t      audit;
};


/* an empty mirror, which watches nothing yet */
void ngx_etcd_mirror_init(ngx_etcd_mirror_t *mirror, ngx_log_t *log);

/*
 * A key that existed at the watch's revision, and no value of it: before the
 * start, or before ngx_etcd_mirror_again().  Not for ordered mirrors.  NULL: no
 * memory.
 */
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_seed(ngx_etcd_mirror_t *mirror,
    ngx_str_t *key, int64_t mod_revision);

/* NGX_ERROR: no memory */
ngx_int_t ngx_etcd_mirror_start(ngx_etcd_mirror_t *mirror,
    ngx_etcd_watch_stream_t *stream);

/*
 * The mirror is not synced any more: a list, after a while if delay is not 0,
 * reports every key.
 */
void ngx_etcd_mirror_again(ngx_etcd_mirror_t *mirror, ngx_msec_t delay);

/*
 * Stops watching and frees all entries; removed() is not called.  NGX_AGAIN:
 * nothing is done, since etcd has yet to answer.
 */
ngx_int_t ngx_etcd_mirror_stop(ngx_etcd_mirror_t *mirror);

/* the same, after the watch stream was destroyed, or before the start */
void ngx_etcd_mirror_destroy(ngx_etcd_mirror_t *mirror);


/*
 * Within removed(), of an entry that is known: it is the consumer's from now
 * on, who may use its queue, and frees it with ngx_free().  Not for prompt
 * watches, nor where values are kept.
 */
void ngx_etcd_mirror_hold(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);


/* NULL: there is none */
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_find(ngx_etcd_mirror_t *mirror,
    ngx_str_t *key);

/*
 * 1: what etcd had at that revision is known, or what it had at a later one of
 * the same history.
 */
ngx_uint_t ngx_etcd_mirror_covers(ngx_etcd_mirror_t *mirror, int64_t revision);

/* all entries, in the order if there is one; NULL: no more */
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_first(ngx_etcd_mirror_t *mirror);
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_next(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);


#endif /* _NGX_ETCD_MIRROR_H_INCLUDED_ */
