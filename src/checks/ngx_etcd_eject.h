
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Ejection of members that fail more than others (outlier detection).  Workers
 * count the answers of each member in its note; the agent compares them at
 * intervals, and keeps requests off a member for a time by
 * NGX_ETCD_VERDICT_EJECTED.
 *
 * A member is ejected if, within the window,
 *
 *     it gave at least "min" answers, and so did the others,
 *     at least "errors" percent of them are errors, and
 *     that share is at least NGX_ETCD_EJECT_FACTOR times the others',
 *
 * or if the same is true of some newest steps of the window, and at least "min"
 * of its answers in them are errors: then the good answers before its fault do
 * not keep it.  Errors are asked for there, not only answers, since ten parts
 * of a window give chance ten times as often an occasion as the whole.
 *
 * The worst comes first, as long as no more than "max" percent of the members
 * are ejected.  The time doubles with each ejection, and falls back after the
 * member has been used without another one for as long.
 *
 * All ejections end before their time when no other member works: a member
 * that always fails would not stick out any more.
 */


#ifndef _NGX_ETCD_EJECT_H_INCLUDED_
#define _NGX_ETCD_EJECT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_member_set.h>
#include <ngx_etcd_service.h>


#define NGX_ETCD_EJECT_STEPS      10       /* of a window */
#define NGX_ETCD_EJECT_FACTOR     2
#define NGX_ETCD_EJECT_DOUBLINGS  6        /* of the time at most */

#define NGX_ETCD_EJECT_STATUSES   600      /* 100 .. 599 */
#define NGX_ETCD_EJECT_WORDS      (NGX_ETCD_EJECT_STATUSES / 32 + 1)


typedef struct {
    ngx_uint_t                       errors;       /* percent */
    ngx_uint_t                       min;
    ngx_uint_t                       max;          /* percent */
    ngx_msec_t                       window;
    time_t                           time;
    uint32_t                         statuses[NGX_ETCD_EJECT_WORDS];
                                                   /* bits: errors */
} ngx_etcd_eject_conf_t;


/* the answers in one step of the window, or in several */

typedef struct {
    uint32_t                         answers;
    uint32_t                         errors;
} ngx_etcd_eject_count_t;


typedef struct {
    uint32_t                         uid;
    unsigned                         fresh:1;      /* total is known */
    ngx_etcd_eject_count_t           total;        /* in the note, when last
                                                      read */
    ngx_etcd_eject_count_t           sum;          /* of the steps */
    ngx_etcd_eject_count_t           steps[NGX_ETCD_EJECT_STEPS];
} ngx_etcd_eject_member_t;


/* the newest steps of the window */

typedef struct {
    ngx_etcd_eject_count_t           own;          /* of a member */
    ngx_etcd_eject_count_t           others;       /* in use */
} ngx_etcd_eject_part_t;


typedef struct {
    ngx_uint_t                       slot;
    ngx_uint_t                       share;        /* of errors, per mille */
} ngx_etcd_eject_candidate_t;


/* the agent's */

typedef struct {
    /* set by the caller, the rest zeroed */

    ngx_etcd_eject_conf_t           *conf;
    ngx_etcd_service_t              *service;      /* NULL: in use */
    ngx_etcd_zone_t                 *zone;
    ngx_etcd_member_set_t           *set;
    ngx_str_t                       *name;         /* of the upstream */
    ngx_log_t                       *log;

    /* private */

    ngx_event_t                      timer;
    ngx_uint_t                       step;         /* of the window */
    ngx_uint_t                       next;         /* slot of a step that is not
                                                      finished */
    time_t                           now;          /* of that step */
    ngx_str_t                        member;       /* name, to be logged */
    u_char                           text[NGX_ETCD_MEMBER_NAME_LEN];
    ngx_etcd_eject_count_t           steps[NGX_ETCD_EJECT_STEPS];
                                                   /* of members in use */
    ngx_uint_t                       nmembers;
    ngx_uint_t                       nejected;
    ngx_uint_t                       nwell;        /* in use, and work */
    ngx_uint_t                       nbad;         /* in use, and do not */
    ngx_etcd_eject_member_t         *members;      /* by slot */
    ngx_uint_t                       allocated;
    ngx_etcd_eject_candidate_t      *candidates;   /* of a step */
    ngx_uint_t                       ncandidates;
    unsigned                         pardon:1;     /* the next step ends all
                                                      ejections */
    unsigned                         limited:1;    /* was logged */
    unsigned                         full:1;       /* was logged */
} ngx_etcd_eject_t;


/*
 * Reads the parameters of "etcd_eject"; logs errors.  Without HTTP there is no
 * "status".  NULL: invalid, or no memory.
 */
ngx_etcd_eject_conf_t *ngx_etcd_eject_conf(ngx_conf_t *cf, ngx_uint_t stream);

/* The members of the service are ejected. */
void ngx_etcd_eject_conf_use(ngx_etcd_eject_conf_t *conf,
    ngx_etcd_service_conf_t *service);

/* Ends the comparison of a set by the owner of its zone. */
void ngx_etcd_eject_destroy(void *data);

/*
 * One step, at a time in s.  NGX_OK, or NGX_AGAIN: the time budget is over,
 * call again.  A step is left out if the mutex was held.
 */
ngx_int_t ngx_etcd_eject_step(ngx_etcd_eject_t *eject, time_t now);

/*
 * Called by workers: the member of the n-th slot has answered, or failed to.
 * Without a note nothing is counted.
 */
void ngx_etcd_eject_count(ngx_etcd_slot_t *slot, ngx_uint_t n, uint32_t uid,
    ngx_uint_t error);

/* 1 if a status of HTTP is an error */

#define ngx_etcd_eject_status(conf, status)                                   \
    ((status) < NGX_ETCD_EJECT_STATUSES                                       \
     && ((conf)->statuses[(status) / 32] >> (status) % 32 & 1))


#endif /* _NGX_ETCD_EJECT_H_INCLUDED_ */
