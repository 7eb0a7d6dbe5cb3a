
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Members drain, or drain no more, since an operator's key has come, or is
 * gone: see ngx_etcd_drain.h.
 */


#ifndef _NGX_ETCD_MEMBER_DRAIN_H_INCLUDED_
#define _NGX_ETCD_MEMBER_DRAIN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_diff.h>


/*
 * Returns 0 if the entry of the mirror is not such a key.  Otherwise it is
 * counted, and, unless the diff has no index, or is broken, changes the members
 * of its address.
 */
ngx_uint_t ngx_etcd_member_drain(ngx_etcd_member_diff_t *diff,
    ngx_etcd_mirror_entry_t *entry, ngx_uint_t drain);


#endif /* _NGX_ETCD_MEMBER_DRAIN_H_INCLUDED_ */
