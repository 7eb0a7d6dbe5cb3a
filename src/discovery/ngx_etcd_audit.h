
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Audits: now and then the keys of a service's prefix are compared with what
 * its watch has reported.  etcd 3.4 can lose events (of slow consumers, around
 * compactions), and one whose data was replaced while nobody was connected
 * resumes a watch without a word if its revision is past ours.  No such
 * difference is ever found otherwise.
 *
 * An audit asks for the present revision, linearizably, waits until the watch
 * has passed it, and then lists the keys as they were at that revision,
 * without values:
 *
 *     in the list, and known with another mod_revision that is not above the
 *         revision, or with another create_revision;
 *     in the list, not known, and not deleted since the audit began;
 *     known, not above the revision, and not in the list
 *
 * are differences.  What is on its way never is one: a watch has passed a
 * revision if it has reported it, or if it has had the time, and was proved
 * alive after it.  An audit during which the watch was interrupted finds
 * nothing.  Where there is a difference the prefix is listed again, with
 * values: whatever made an event get lost may have lost others meanwhile, and
 * in another history a value may differ where all revisions agree.
 *
 * All keys are listed: asking for those with a min_mod_revision would save
 * bytes only, since etcd reads all of them for that and does not page, and
 * would show no deletion.  A key takes its length and some 25 bytes: 10 000
 * of 30 bytes are 0.6 MB, 100 000 are 6 MB, in pages that take less than a
 * millisecond each; every 5 minutes that is 2 and 20 KB/s.
 */


#ifndef _NGX_ETCD_AUDIT_H_INCLUDED_
#define _NGX_ETCD_AUDIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_watch.h>


#define NGX_ETCD_AUDIT_PAGE     512     /* keys */
#define NGX_ETCD_AUDIT_SETTLE   2000    /* ms for what is on its way */
#define NGX_ETCD_AUDIT_SHOWN    256     /* bytes of a key in the log */

/* deletions during an audit that are remembered; with more it is put off */
#define NGX_ETCD_AUDIT_DELETED  16384


typedef enum {
    NGX_ETCD_AUDIT_IDLE = 0,            /* the timer begins one */
    NGX_ETCD_AUDIT_ASKING,              /* for the revision */
    NGX_ETCD_AUDIT_SETTLING,            /* the watch may not have passed it */
    NGX_ETCD_AUDIT_LISTING
} ngx_etcd_audit_state_e;


typedef struct {
    ngx_etcd_audit_state_e       state;
    struct ngx_etcd_service_s   *service;
    ngx_event_t                  timer;

    ngx_etcd_range_t             range;
    ngx_etcd_list_t              list;
    ngx_uint_t                   creates;      /* of the watch */
    int64_t                      revision;
    uint64_t                     asked;        /* ngx_etcd_clock() */
    ngx_uint_t                   mark;

    ngx_pool_t                  *pool;         /* of what was deleted */
    ngx_rbtree_t                 deleted;
    ngx_rbtree_node_t            sentinel;
    ngx_uint_t                   ndeleted;

    ngx_uint_t                   found;        /* differences */
    size_t                       first_len;
    u_char                       first[NGX_ETCD_AUDIT_SHOWN];
} ngx_etcd_audit_t;


/*
 * Of a service whose watch was added, and the rest zeroed: starts to audit if
 * the cluster's audit_interval says so.
 */
void ngx_etcd_audit_init(ngx_etcd_audit_t *audit,
    struct ngx_etcd_service_s *service);
void ngx_etcd_audit_done(ngx_etcd_audit_t *audit);

/* the index is made anew, or read from a list: nothing to compare with now */
void ngx_etcd_audit_void(ngx_etcd_audit_t *audit);

/* the watch has reported that the key is gone */
void ngx_etcd_audit_deleted(ngx_etcd_audit_t *audit, ngx_str_t *key);


#endif /* _NGX_ETCD_AUDIT_H_INCLUDED_ */
