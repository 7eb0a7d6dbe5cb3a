
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Groups: several keys that make one member, "PREFIX/0/url" and
 * "PREFIX/0/weight".  After every whole revision the source registers the
 * common part of the keys, "PREFIX/0", as a key whose value is an object of
 * their values: {"url":"...","weight":"..."}.
 */


#ifndef _NGX_ETCD_MULTI_KEY_H_INCLUDED_
#define _NGX_ETCD_MULTI_KEY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_service.h>


extern const ngx_etcd_source_t  ngx_etcd_multi_key_source;


#endif /* _NGX_ETCD_MULTI_KEY_H_INCLUDED_ */
