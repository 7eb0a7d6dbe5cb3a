
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Changes of a set by the owner of its zone: entries are prepared one by one,
 * then published in batches.
 */


#ifndef _NGX_ETCD_COMMIT_H_INCLUDED_
#define _NGX_ETCD_COMMIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_entry.h>


/*
 * A step that is not in the zone yet.  Slots and entries are known by their
 * numbers, see ngx_etcd_zone_number(); 0: no entry.  The creator of an
 * operation knows all entries of the slot and sets "shown" to the newest one
 * after the operation, by ngx_etcd_entry_newer().
 */

typedef struct {
    ngx_etcd_op_e                    op;
    uint32_t                         slot;
    uint32_t                         serial;
    uint32_t                         entry;
    uint32_t                         old;
    uint32_t                         shown;        /* 0: the slot is free */
    uint64_t                         revision;
    int64_t                          lease;        /* if TOUCH */
} ngx_etcd_op_t;


typedef struct {
    ngx_etcd_member_set_t           *set;          /* of the present call */
    ngx_array_t                     *ops;          /* of ngx_etcd_op_t */
    ngx_uint_t                       done;         /* operations done */
    uint64_t                         revision;     /* of the set after the
                                                      commit; 0: unchanged */
    uint64_t                         arrived;      /* time_budget_now(): the
                                                      data arrived from etcd; 0:
                                                      not from a watch */
    ngx_uint_t                       state;        /* of the set after the
                                                      commit, if it has a
                                                      revision; LOADING:
                                                      unchanged.  A set that is
                                                      FULL has revision 0 */
    uint32_t                         params;       /* of a set that is SYNCED */
    uint64_t                         verified;     /* the same */
    uint64_t                         until;        /* time limit,
                                                      time_budget_now(); 0:
                                                      none */
    ngx_uint_t                       force;        /* of
                                                      ngx_etcd_zone_work() */
    ngx_uint_t                       changed;      /* set: workers have
                                                      something to read */
} ngx_etcd_commit_t;


/*
 * Publishes the operations from "done" on, in batches.  The mutex is released
 * between batches.  Each is visible at once, and has all operations of a
 * revision unless those alone are more than NGX_ETCD_BATCH_STEPS.  If an owner
 * is killed during a commit, ngx_etcd_commit_recover() makes the next owner
 * list the set again.  Results as of ngx_etcd_zone_work().
 */
ngx_int_t ngx_etcd_commit(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_etcd_commit_t *commit);

/*
 * Called by the owner after taking over, or to abandon a commit: frees what was
 * prepared.  The set has revision 0 afterwards if only a part of a commit was
 * made.  Results as of ngx_etcd_zone_work(): call again, unless it is NGX_OK or
 * NGX_DECLINED.
 */
ngx_int_t ngx_etcd_commit_recover(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, uint64_t until);


#endif /* _NGX_ETCD_COMMIT_H_INCLUDED_ */
