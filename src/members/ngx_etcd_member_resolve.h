
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Members by host name: each address of the host is a registration of the key,
 * which is updated whenever the name is resolved.  Private to the discovery.
 */


#ifndef _NGX_ETCD_MEMBER_RESOLVE_H_INCLUDED_
#define _NGX_ETCD_MEMBER_RESOLVE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_diff.h>


/*
 * Sets member() of diff->hosts, and its resolver if the configuration has one.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_member_resolve_create(ngx_etcd_member_diff_t *diff,
    ngx_pool_t *pool);

/*
 * Resolves the names that the set has.  NGX_OK, NGX_AGAIN: at that
 * ngx_etcd_time_budget_now() (0: no limit) some are left, call again; or
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_member_resolve_adopt(ngx_etcd_member_diff_t *diff,
    uint64_t until);

/*
 * Registers a member by host name: all known addresses of the host, or one of
 * them if diff->sole is set.  If no address is known, registers the addresses
 * that the key has.  Otherwise as ngx_etcd_member_diff_member().
 */
ngx_int_t ngx_etcd_member_resolve_member(ngx_etcd_member_diff_t *diff,
    ngx_etcd_key_t *key, Etcd__KeyValue *kv, ngx_etcd_member_t *member);

/*
 * Returns 1 and sets the member's address to the lowest registered address of
 * its host, if the key has one.
 */
ngx_uint_t ngx_etcd_member_resolve_known(ngx_etcd_member_diff_t *diff,
    ngx_str_t *key, ngx_etcd_member_t *member);


#endif /* _NGX_ETCD_MEMBER_RESOLVE_H_INCLUDED_ */
