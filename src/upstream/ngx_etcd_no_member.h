
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Why an upstream has no member for a request, as one word for $etcd_reason
 * and one line with numbers in the error log.
 */


#ifndef _NGX_ETCD_NO_MEMBER_H_INCLUDED_
#define _NGX_ETCD_NO_MEMBER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_pick.h>
#include <ngx_etcd_upstream.h>


/*
 * Why the next pick would find no member of that line, or the last one has
 * failed.
 */
ngx_etcd_refusal_e ngx_etcd_no_member_reason(ngx_etcd_table_t *table,
    ngx_etcd_pick_t *pick);

/*
 * The numbers of a table's members in each of NGX_ETCD_MEMBER_STATES, valid
 * until the next call.
 */
ngx_uint_t *ngx_etcd_no_member_count(ngx_etcd_table_t *table);

/*
 * Why a request that comes now to a set with such numbers of members would find
 * no member, or, in an upstream of one, only a member that fails; NONE: it
 * would find one.  "*degraded" becomes 1 if a member that should be usable is
 * not.
 */
ngx_etcd_refusal_e ngx_etcd_no_member_now(ngx_etcd_service_conf_t *service,
    ngx_etcd_member_set_t *set, ngx_uint_t *n, ngx_uint_t *degraded);

/* Why nothing is known of a set or upstream that has not been read. */
ngx_etcd_refusal_e ngx_etcd_no_member_unread(ngx_etcd_service_conf_t *service,
    ngx_etcd_member_set_state_e state);

/* Why a set that was read has not all members, or not as etcd has them. */
ngx_etcd_refusal_e ngx_etcd_no_member_unchanged(
    ngx_etcd_member_set_state_e state);

/*
 * The pick has found no member: sets the refusal of its pool and logs it, with
 * the number of members in each state.  Of several lines the first one tells
 * the refusal, the log line has them all.  A request that has waited in vain
 * keeps that refusal.
 */
void ngx_etcd_no_member(ngx_etcd_upstream_t *upstream,
    ngx_etcd_pick_t *pick, ngx_log_t *log);

/*
 * The same without a table; "rc" is that of ngx_etcd_pattern_values_table().
 * A set that does not exist is not logged.
 */
ngx_etcd_refusal_e ngx_etcd_no_member_table(ngx_etcd_upstream_t *upstream,
    ngx_int_t rc, ngx_pool_t *pool, ngx_log_t *log);


#endif /* _NGX_ETCD_NO_MEMBER_H_INCLUDED_ */
