
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Audit of a mirror: now and then its entries are compared with the keys that
 * etcd has.  etcd 3.4 can lose events (of slow consumers, around compactions),
 * and an etcd whose data was replaced while nobody was connected resumes a
 * watch without a word if its revision is past ours.  Nothing else finds such
 * a difference.
 *
 * An audit asks for the present revision, linearizably, waits until the mirror
 * has passed it, and then lists the keys as they were at that revision,
 * without values.  These are differences:
 *
 *     a key of the list that is known with another mod_revision, which is not
 *         above the audit's revision, or with another create_revision;
 *     a key of the list that is not known, and was not deleted since the audit
 *         began;
 *     a key that is known, not above the audit's revision, and not in the list.
 *
 * The watch has passed a revision if it has reported that revision, or if it
 * had the time to report it and was proved alive afterwards.  So an event that
 * is on its way is never taken for a difference.  An audit during which the
 * watch was interrupted finds nothing.
 *
 * Where there is a difference, the prefix is listed again, with values: what
 * made one event get lost may have lost others, and in another history a value
 * may differ where all revisions agree.
 *
 * All keys are listed.  A min_mod_revision would save bytes only, since etcd
 * reads all keys for it and does not page, and would show no deletion.  A key
 * takes its length and some 25 bytes: 10 000 keys of 30 bytes are 0.6 MB,
 * 100 000 are 6 MB, in pages that take less than a millisecond each; every 5
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
#define NGX_ETCD_MIRROR_AUDIT_SETTLE   2000    /* ms for events on their way */
#define NGX_ETCD_MIRROR_AUDIT_SHOWN    256     /* bytes of a key in the log */

/* deletions that an audit remembers; with more of them it is put off */
#define NGX_ETCD_MIRROR_AUDIT_DELETED  16384


/* one audit */
typedef struct ngx_etcd_mirror_audit_run_s  ngx_etcd_mirror_audit_run_t;


typedef struct {
    /* set by the owner, the rest zeroed */

    ngx_str_t                     *name;       /* what log lines begin with */
    ngx_etcd_watch_t              *watch;
    ngx_etcd_mirror_entries_t     *entries;

    /* 0: the key is left out.  NULL: all keys are wanted. */
    ngx_uint_t                   (*wants)(void *data, ngx_str_t *key);

    /* the revision up to which entries are what etcd had; 0: not known */
    int64_t                      (*revision)(void *data);

    /* There are differences: the owner lists the prefix again. */
    void                         (*differs)(void *data);
    void                          *data;

    /* private */

    ngx_event_t                    timer;      /* the next one begins, or it
                                                  may list now */
    ngx_etcd_mirror_audit_run_t   *run;        /* NULL: none is under way */
    unsigned                       mark:31;    /* of the last one */
} ngx_etcd_mirror_audit_t;


/* the mirror is watched: audits it at the cluster's audit_interval, if any */
void ngx_etcd_mirror_audit_start(ngx_etcd_mirror_audit_t *audit);
void ngx_etcd_mirror_audit_stop(ngx_etcd_mirror_audit_t *audit);

/* a list is read: there is nothing to compare with now */
void ngx_etcd_mirror_audit_void(ngx_etcd_mirror_audit_t *audit);

/* the watch has reported that the key is gone */
void ngx_etcd_mirror_audit_deleted(ngx_etcd_mirror_audit_t *audit,
    ngx_str_t *key);


#endif /* _NGX_ETCD_MIRROR_AUDIT_H_INCLUDED_ */
