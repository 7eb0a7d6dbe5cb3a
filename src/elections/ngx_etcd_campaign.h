
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The "election" and "register" directives, and the state of an election for
 * etcd_require_leader and variables.
 */


#ifndef _NGX_ETCD_CAMPAIGN_H_INCLUDED_
#define _NGX_ETCD_CAMPAIGN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_check_share.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_election_slot.h>
#include <ngx_etcd_upstream.h>


typedef struct {
    ngx_etcd_election_slot_kind_e  kind;
    ngx_str_t                  name;          /* name of an election */
    ngx_str_t                  label;         /* description for logs */
    ngx_str_t                  key;           /* or prefix, without slash */
    ngx_str_t                  value;
    time_t                     ttl;           /* seconds */

    ngx_etcd_conf_t           *cluster;       /* NULL: referenced, not declared
                                                 yet */
    ngx_etcd_election_slot_t  *slot;
    ngx_uint_t                 id;            /* slot->id */
    ngx_etcd_check_share_t    *share;         /* the leader's value changes;
                                                 NULL: an election of the
                                                 configuration */
    ngx_etcd_refusal_log_t     refusals;      /* of this worker */
    u_char                    *file;          /* place of the directive, or of
                                                 the first reference */
    ngx_uint_t                 line;
} ngx_etcd_campaign_t;


extern ngx_module_t  ngx_etcd_campaign_module;


/*
 * Returns the election of that name, which may be declared later in the file.
 * An election that is never declared fails the configuration, reported with
 * the place of its first reference.  NULL: no memory.
 */
ngx_etcd_campaign_t *ngx_etcd_campaign_get(ngx_conf_t *cf, ngx_str_t *name);

/*
 * Called after the configuration was read: adds the elections of observers of
 * upstreams ("share=" of "etcd_check").  NGX_ERROR: an election is not
 * declared, or a key is used twice.
 */
ngx_int_t ngx_etcd_campaign_check(ngx_etcd_main_conf_t *emcf,
    ngx_cycle_t *cycle);

/*
 * Called by the master when the zone exists: finds or creates the election
 * slots. Seats of a new zone are copied from the old zone, if any.
 */
ngx_int_t ngx_etcd_campaign_declare(ngx_etcd_conf_t *ecf,
    ngx_etcd_zone_t *old);


/* NULL: there is no such election. */
ngx_etcd_campaign_t *ngx_etcd_campaign_find(ngx_etcd_main_conf_t *emcf,
    ngx_str_t *name);

/*
 * Returns the term of this instance while it leads: the create_revision of
 * its key, which increases with each term.  *until is set to the time until
 * which the instance leads for certain, by ngx_etcd_clock(); NULL: not wanted.
 * 0: the instance does not lead.
 */
int64_t ngx_etcd_campaign_term(ngx_etcd_campaign_t *campaign, uint64_t *until);

/*
 * Copies the leader: this instance while it leads, or else the last known one.
 * *own is set to 1 if this instance leads; view->expires is then the time until
 * which it leads for certain.  NGX_DECLINED: there is no leader, or another
 * candidate that was not verified for longer than the TTL.
 */
ngx_int_t ngx_etcd_campaign_leader(ngx_etcd_campaign_t *campaign,
    ngx_etcd_election_slot_view_t *view, ngx_uint_t *own);

/*
 * Returns the ms that are left until view->expires; -1: no leader, or unknown.
 * "view" and "own" are from ngx_etcd_campaign_leader().  Unless the instance
 * leads, the call makes the owner of the zone ask etcd.  For display only.
 */
int64_t ngx_etcd_campaign_remaining(ngx_etcd_campaign_t *campaign,
    ngx_etcd_election_slot_view_t *view, ngx_uint_t own);


#endif /* _NGX_ETCD_CAMPAIGN_H_INCLUDED_ */
