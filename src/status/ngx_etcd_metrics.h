
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The status as metrics: loops over the tables of fields.  The samples of one
 * metric must be adjacent: the sums of upstreams are computed first, in one
 * pass over their members.
 */


#ifndef _NGX_ETCD_METRICS_H_INCLUDED_
#define _NGX_ETCD_METRICS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status.h>


/* the parts of the text, for ngx_etcd_status_create() */
extern const ngx_etcd_status_part_t  ngx_etcd_metrics[];

/* the parts for the sets with the name status->asked.like, and nothing else */
extern const ngx_etcd_status_part_t  ngx_etcd_metrics_set[];


#endif /* _NGX_ETCD_METRICS_H_INCLUDED_ */
