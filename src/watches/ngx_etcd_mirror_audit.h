
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Audit of a mirror, or of the mirrors of a fan-out: at intervals the entries
 * are compared with the keys in etcd.  etcd 3.4 can lose events (of slow
 * consumers, and around compactions), and an etcd whose data was replaced while
 * this client was not connected resumes a watch without notice if its revision
 * is past the client's.  Only an audit finds such a difference.
 *
 * The keys are not compared one by one: mirrors keep a sum over their keys and
 * mod_revisions (ngx_etcd_mirror_entry_sum()), and an audit makes the same sum
 * of the keys that etcd lists.
 *
 * An audit lists the keys at the present revision, linearizably and without
 * values, and compares the sums at that revision.  If they differ although no
 * later event came, events may be on their way: the sums are compared again
 * when the watch has passed the revision.  It has if it has reported that
 * revision, or if it had the time to report it and was proved alive afterwards.
 * If entries are newer than the list already, the keys are listed at the
 * revision of the entries instead.  An audit during which the watch was
 * interrupted finds nothing.
 *
 * After a difference the prefix is listed again, with values: in another
 * history values may differ though all revisions agree.
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
#include <ngx_etcd_list.h>
#include <ngx_etcd_mirror_entry.h>
#include <ngx_etcd_watch.h>


#define NGX_ETCD_MIRROR_AUDIT_PAGE     512     /* keys */
#define NGX_ETCD_MIRROR_AUDIT_SETTLE   2000    /* ms for late events */


typedef struct ngx_etcd_mirror_audit_run_s  ngx_etcd_mirror_audit_run_t;


typedef struct {
    /* set by the owner, the rest zeroed */

    ngx_str_t                     *name;       /* prefix of log messages */
    ngx_etcd_watch_t              *watch;
    ngx_log_t                     *log;
    uint64_t                      *sum;        /* of the entries */

    /* 0: the key is ignored */
    ngx_uint_t                   (*wants)(void *data, ngx_str_t *key);

    /* returns the revision of the entries; 0: not known */
    int64_t                      (*revision)(void *data);

    /* there are differences: the owner lists the prefix again */
    void                         (*differs)(void *data);
    void                          *data;

    /* private */

    ngx_event_t                    timer;      /* start of the next audit, or of
                                                  another comparison */
    ngx_etcd_mirror_audit_run_t   *run;        /* NULL: no audit is running */
    int64_t                        last;       /* mod_revision of the last
                                                  event */
} ngx_etcd_mirror_audit_t;


/*
 * The mirror is in force: audits it at the cluster's audit_interval.  Does
 * nothing if the interval is 0.
 */
void ngx_etcd_mirror_audit_start(ngx_etcd_mirror_audit_t *audit);
void ngx_etcd_mirror_audit_stop(ngx_etcd_mirror_audit_t *audit);

/* a list replaces the entries: ends a running audit */
void ngx_etcd_mirror_audit_void(ngx_etcd_mirror_audit_t *audit);

/* the watch has reported an event of that revision, not applied so far */
void ngx_etcd_mirror_audit_event(ngx_etcd_mirror_audit_t *audit,
    int64_t revision);


#endif /* _NGX_ETCD_MIRROR_AUDIT_H_INCLUDED_ */
