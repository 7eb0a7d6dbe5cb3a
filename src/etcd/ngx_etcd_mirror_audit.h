
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Audit of a mirror, or of the mirrors of a fan-out: at intervals the entries
 * are compared with the keys in etcd.  etcd 3.4 can lose events (of slow
 * consumers, and around compactions), and an etcd whose data was replaced while
 * this client was not connected resumes a watch without notice if its revision
 * is past the client's.  Only an audit finds such a difference.
 *
 * An audit reads the present revision, linearizably, waits until the mirror has
 * passed it, and then lists the keys at that revision, without values.  These
 * are differences:
 *
 *     a listed key whose entry has another mod_revision, which is not above the
 *         audit's revision, or another create_revision;
 *     a listed key without an entry that was not deleted since the audit began;
 *     an entry, not above the audit's revision, whose key is not listed.
 *
 * The watch has passed a revision if it has reported that revision, or if it
 * had the time to report it and was proved alive afterwards.  So an event on
 * its way is never taken for a difference.  An audit during which the watch was
 * interrupted finds nothing.
 *
 * After a difference the prefix is listed again, with values: the cause of one
 * lost event may have lost others, and in another history values may differ
 * though all revisions agree.
 *
 * All keys are listed.  A min_mod_revision would save bytes only, since etcd
 * reads all keys for it and does not page, and would not show deletions.  A key
 * takes its length and some 25 bytes: 10 000 keys of 30 bytes are 0.6 MB, 100
 * 000 are 6 MB, in pages that take less than a millisecond each; every 5
 * minutes that is 2 and 20 KB/s.
 */


#ifndef _NGX_ETCD_MIRROR_AUDIT_H_INCLUDED_
#define _NGX_ETCD_MIRROR_AUDIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_kv.h>
#include <ngx_etcd_list.h>
#include <ngx_etcd_mirror_entry.h>
#include <ngx_etcd_watch.h>


#define NGX_ETCD_MIRROR_AUDIT_PAGE     512     /* keys */
#define NGX_ETCD_MIRROR_AUDIT_SETTLE   2000    /* ms for late events */
#define NGX_ETCD_MIRROR_AUDIT_SHOWN    256     /* bytes of a key in the log */

/* deletions that an audit remembers; with more, it is postponed */
#define NGX_ETCD_MIRROR_AUDIT_DELETED  16384


typedef struct ngx_etcd_mirror_audit_run_s  ngx_etcd_mirror_audit_run_t;


typedef struct {
    /* set by the owner, the rest zeroed */

    ngx_str_t                     *name;       /* prefix of log messages */
    ngx_etcd_watch_t              *watch;
    ngx_log_t                     *log;

    /* 0: the key is ignored */
    ngx_uint_t                   (*wants)(void *data, ngx_str_t *key);

    /* returns the entry of a key; NULL: there is none */
    ngx_etcd_mirror_entry_t     *(*find)(void *data, ngx_str_t *key);

    /*
     * Returns the entry after that one (NULL: the first one), in an order that
     * no change of an entry affects; NULL: end.
     */
    ngx_etcd_mirror_entry_t     *(*next)(void *data,
                                         ngx_etcd_mirror_entry_t *entry);

    /* returns the revision of the entries; 0: not known */
    int64_t                      (*revision)(void *data);

    /* there are differences: the owner lists the prefix again */
    void                         (*differs)(void *data);
    void                          *data;

    /* private */

    ngx_event_t                    timer;      /* start of the next audit, or of
                                                  its list */
    ngx_etcd_mirror_audit_run_t   *run;        /* NULL: no audit is running */
    ngx_uint_t                     piece;      /* entries looked at a time; 0:
                                                  a time budget alone limits
                                                  them */
    unsigned                       mark:31;    /* of the last audit */
} ngx_etcd_mirror_audit_t;


/*
 * The mirror is in force: audits it at the cluster's audit_interval.  Does
 * nothing if the interval is 0.
 */
void ngx_etcd_mirror_audit_start(ngx_etcd_mirror_audit_t *audit);
void ngx_etcd_mirror_audit_stop(ngx_etcd_mirror_audit_t *audit);

/* a list replaces the entries: ends a running audit */
void ngx_etcd_mirror_audit_void(ngx_etcd_mirror_audit_t *audit);

/* the watch has reported the deletion of the key, whose entry still exists */
void ngx_etcd_mirror_audit_deleted(ngx_etcd_mirror_audit_t *audit,
    ngx_str_t *key);


#endif /* _NGX_ETCD_MIRROR_AUDIT_H_INCLUDED_ */
