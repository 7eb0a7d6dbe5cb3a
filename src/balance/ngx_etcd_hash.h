
/*
 * Copyright (C) nginx-etcd contributors
 *
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


#ifndef _NGX_ETCD_HASH_H_INCLUDED_
#define _NGX_ETCD_HASH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_method.h>


extern const ngx_etcd_method_t  ngx_etcd_hash_method;
extern const ngx_etcd_method_t  ngx_etcd_hash_consistent_method;


#endif /* _NGX_ETCD_HASH_H_INCLUDED_ */
