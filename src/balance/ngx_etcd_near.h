
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Nearness: which requests go to the preferred peers, and which to others.
 *
 * Let h be the weight of the preferred peers that can be used, divided by the
 * weight of all preferred peers.  While h is at least "spill", all requests go
 * to the preferred peers, otherwise the share h / spill of them: the priority
 * levels of Envoy with an overprovisioning factor of 1 / spill.
 */


#ifndef _NGX_ETCD_NEAR_H_INCLUDED_
#define _NGX_ETCD_NEAR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_table.h>


/* the share of all requests */

#define NGX_ETCD_NEAR_UNIT  65536

#define NGX_ETCD_NEAR_LOOK  256


/*
 * Returns the share of requests that goes to the preferred peers now, for the
 * status: looks at peers that no request has tried lately, at most at
 * NGX_ETCD_NEAR_LOOK of them.
 */
uint32_t ngx_etcd_near_now(ngx_etcd_table_t *table);

/*
 * Returns 1 if the request goes to the preferred peers.  With a key, the hash
 * of the key decides; with an empty one, the worker's requests take turns.
 */
ngx_uint_t ngx_etcd_near_due(ngx_etcd_table_t *table, ngx_str_t *key);


#endif /* _NGX_ETCD_NEAR_H_INCLUDED_ */
