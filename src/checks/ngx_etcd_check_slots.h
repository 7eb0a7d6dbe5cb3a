
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The members of a set as the checks of the agent know them, beside the slots
 * in the zone.
 */


#ifndef _NGX_ETCD_CHECK_SLOTS_H_INCLUDED_
#define _NGX_ETCD_CHECK_SLOTS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check_result.h>
#include <ngx_etcd_service.h>


typedef struct {
    uint32_t                    uid;          /* 0: none that is checked */
    ngx_etcd_check_row_t        row;
    unsigned                    fresh:1;      /* was never checked */
    unsigned                    running:1;
    unsigned                    again:1;      /* is to be checked soon */
    unsigned                    hastened:1;   /* by a failed request, since its
                                                 last turn */
    unsigned                    counted:1;    /* for a panic */
    unsigned                    failed:1;

    /* of checks that are shared */

    unsigned                    judged:1;     /* own results say whether it has
                                                 failed */
    unsigned                    named:1;      /* in the value that is read */
    unsigned                    told:1;       /* the observer says that it has
                                                 failed */
    unsigned                    contrary:1;   /* the newest own result says
                                                 otherwise */
    unsigned                    found:1;      /* own results have found what
                                                 the observer had not told */
    uint32_t                    hash;         /* of the address */
} ngx_etcd_check_slot_t;


typedef struct {
    /* set by the caller, the rest zeroed */

    ngx_etcd_service_conf_t    *conf;
    ngx_log_t                  *log;

    /* read by the caller */

    ngx_etcd_check_slot_t      *slot;         /* NULL: not looked at yet */
    ngx_uint_t                  nslots;
    ngx_uint_t                  left;         /* number of slots to look at */

    ngx_uint_t                  nmembers;     /* members that are checked */
    uint32_t                    hash;         /* the sum of theirs */
    ngx_uint_t                  nfresh;       /* of them */
    ngx_uint_t                  ncounted;
    ngx_uint_t                  nfailed;
    unsigned                    poor:1;       /* the last check had no result,
                                                 for lack of resources */

    /* private */

    ngx_atomic_uint_t           generation;   /* of the set, as known */
    ngx_uint_t                  look;         /* the next slot to look at */

    unsigned                    noted:1;      /* notes were made */
    unsigned                    full:1;       /* no room for more notes */
} ngx_etcd_check_slots_t;


/*
 * Looks at the slots that have changed.  If all begin anew, it looks at some of
 * them, and "left" is not 0: to be called again.  Results of
 * ngx_etcd_zone_lock_owned(), or NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_check_slots_update(ngx_etcd_check_slots_t *slots);

/* Returns 1 if the set has changed since. */
ngx_uint_t ngx_etcd_check_slots_changed(ngx_etcd_check_slots_t *slots);

/*
 * Calls the handler with each slot whose member was reported by a failed
 * request, under the mutex.  Returns 0 if some are left for another call.
 */
ngx_uint_t ngx_etcd_check_slots_suspects(ngx_etcd_check_slots_t *slots,
    void (*handler)(void *data, ngx_uint_t n), void *data);

/* The member is checked soon, as if it never was. */
void ngx_etcd_check_slots_renew(ngx_etcd_check_slots_t *slots, ngx_uint_t n);

/*
 * Counts a member by its verdict, under the mutex.  One that drains, or is not
 * known to work yet, is no share of any.
 */
void ngx_etcd_check_slots_count(ngx_etcd_check_slots_t *slots, ngx_uint_t n,
    ngx_uint_t verdict);


#endif /* _NGX_ETCD_CHECK_SLOTS_H_INCLUDED_ */
