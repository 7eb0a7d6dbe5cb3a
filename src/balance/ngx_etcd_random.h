
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The power of two choices (Mitzenmacher 1996): the peer with fewer
 * connections for its weight of two peers, each drawn in proportion to its
 * weight.
 */


#ifndef _NGX_ETCD_RANDOM_H_INCLUDED_
#define _NGX_ETCD_RANDOM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_method.h>


extern const ngx_etcd_method_t  ngx_etcd_random_method;


#endif /* _NGX_ETCD_RANDOM_H_INCLUDED_ */
