
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Sets in the status: a member of one, with its state, what nginx has read of
 * its value, and its checks; and walks through the sets of an upstream whose
 * prefix holds variables, a few members at a time.
 */


#ifndef _NGX_ETCD_STATUS_SETS_H_INCLUDED_
#define _NGX_ETCD_STATUS_SETS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status.h>


#define NGX_ETCD_STATUS_SETS_PAGE  100       /* sets in the JSON */


/* Texts of the member are those of the view, or in the member itself. */
void ngx_etcd_status_member_set(ngx_etcd_status_member_t *member,
    ngx_etcd_status_upstream_t *upstream, ngx_etcd_view_member_t *view);

/* A member with a higher priority than the lowest one is a backup. */
ngx_etcd_member_state_e ngx_etcd_status_member_state(ngx_uint_t lowest,
    ngx_etcd_member_pack_t *record, ngx_etcd_view_member_t *view);

/* Starts after the set with that id. */
void ngx_etcd_status_sets_start(ngx_etcd_status_t *status, uint32_t after);

/*
 * Reads the next members of the current set into status->view, and adds to
 * its sums in status->object.set.
 *
 *     NGX_OK        the set is complete,
 *     NGX_AGAIN     call again; view->n may be 0,
 *     NGX_BUSY      the mutex was held: call again later,
 *     NGX_DONE      there are no more sets,
 *     NGX_ERROR     no memory.
 */
ngx_int_t ngx_etcd_status_sets_read(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream);

/*
 * Adds up all sets in upstream->sums and upstream->map, some members at a time,
 * and sets the state of the upstream at last.  NGX_OK, NGX_AGAIN, NGX_BUSY, or
 * NGX_ERROR.
 */
ngx_int_t ngx_etcd_status_sets_sum(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream);

/*
 * Finds the set with the name status->asked.like, and makes it
 * status->walk.one.  NGX_OK, NGX_AGAIN, NGX_DECLINED, NGX_BUSY, or NGX_ERROR.
 */
ngx_int_t ngx_etcd_status_sets_find(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream);


#endif /* _NGX_ETCD_STATUS_SETS_H_INCLUDED_ */
