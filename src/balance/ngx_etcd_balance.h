
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The balancing methods by name.
 */


#ifndef _NGX_ETCD_BALANCE_H_INCLUDED_
#define _NGX_ETCD_BALANCE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_method.h>


/* for an error message */
#define NGX_ETCD_METHOD_NAMES                                                 \
    "round_robin, least_conn, random, hash, ewma"

/*
 * Returns the method with that name and parameter ("hash" has "consistent"),
 * or NULL.
 */
const ngx_etcd_method_t *ngx_etcd_balance_method(ngx_str_t *name,
    ngx_str_t *parameter);
extern const ngx_etcd_method_t  *ngx_etcd_balance_default;


#endif /* _NGX_ETCD_BALANCE_H_INCLUDED_ */
