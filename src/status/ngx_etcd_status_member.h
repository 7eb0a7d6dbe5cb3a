
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A member in the status: its state, what nginx has read of its
 * value, its checks.
 */


#ifndef _NGX_ETCD_STATUS_MEMBER_H_INCLUDED_
#define _NGX_ETCD_STATUS_MEMBER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status_object.h>


/* Texts of the member are those of the view, or in the member itself. */
void ngx_etcd_status_member_set(ngx_etcd_status_member_t *member,
    ngx_etcd_status_upstream_t *upstream, ngx_etcd_view_member_t *view);

/* A member with a higher priority than the lowest one is a backup. */
ngx_etcd_member_state_e ngx_etcd_status_member_state(ngx_uint_t lowest,
    ngx_etcd_member_pack_t *record, ngx_etcd_view_member_t *view);


#endif /* _NGX_ETCD_STATUS_MEMBER_H_INCLUDED_ */
