
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Nearness ("etcd_prefer") in the status: the preference of an upstream, and
 * the share of its requests that goes to preferred members.  Without the
 * directive there are no such fields.
 */


#ifndef _NGX_ETCD_STATUS_NEAR_H_INCLUDED_
#define _NGX_ETCD_STATUS_NEAR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status_object.h>


/* Sets the preference; the share is absent. */
void ngx_etcd_status_near_upstream(ngx_etcd_status_upstream_t *upstream);

/*
 * Sets the share as this worker balances by its table; NULL: the worker has no
 * table, and the share stays absent.
 */
void ngx_etcd_status_near_share(ngx_etcd_status_upstream_t *upstream,
    ngx_etcd_table_t *table);

#endif /* _NGX_ETCD_STATUS_NEAR_H_INCLUDED_ */
