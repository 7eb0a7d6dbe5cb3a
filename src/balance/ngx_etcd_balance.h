
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The balancing methods, by name.
 */


#ifndef _NGX_ETCD_BALANCE_H_INCLUDED_
#define _NGX_ETCD_BALANCE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_peer_group.h>


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


/*
 * Picks by a key like nginx's "hash" and "hash ... consistent" (ketama) do
 * for servers with the same addresses and weights.  Members that cannot be
 * used keep their places, and the next member is searched for like in nginx.
 *
 * nginx's "hash" orders servers by the configuration; this one orders members
 * by their addresses as text.
 *
 * During slow start a member gets a part of its keys, which only grows; the
 * other keys are mapped as if the member did not exist.
 */

extern const ngx_etcd_method_t  ngx_etcd_hash_method;
extern const ngx_etcd_method_t  ngx_etcd_hash_consistent_method;


#endif /* _NGX_ETCD_BALANCE_H_INCLUDED_ */
