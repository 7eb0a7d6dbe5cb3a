
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Unused keys in the status: the kinds are those of ngx_etcd_unused_e without
 * the first one, then the hidden registrations.
 */


#ifndef _NGX_ETCD_STATUS_UNUSED_H_INCLUDED_
#define _NGX_ETCD_STATUS_UNUSED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_view.h>


#define NGX_ETCD_STATUS_UNUSED  (NGX_ETCD_MEMBER_SET_UNUSED - 1)


typedef struct {
    ngx_str_t                  kind;
    int64_t                    keys;
    ngx_str_t                  key;           /* no data: none is named */
    ngx_str_t                  reason;
    int64_t                    mod_revision;
} ngx_etcd_status_unused_t;


/* the names of the kinds; a null string ends them */
extern ngx_str_t  ngx_etcd_status_unused_kinds[];


/* Sets the numbers of keys by kind. */
void ngx_etcd_status_unused(ngx_uint_t *unused, ngx_etcd_view_t *view);

/* Sets the row of a kind. */
void ngx_etcd_status_unused_row(ngx_etcd_status_unused_t *item,
    ngx_etcd_unused_t *unused, ngx_uint_t n);


#endif /* _NGX_ETCD_STATUS_UNUSED_H_INCLUDED_ */
