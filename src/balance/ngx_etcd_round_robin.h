
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Weighted rotation (ngx_etcd_eevdf.h).
 */


#ifndef _NGX_ETCD_ROUND_ROBIN_H_INCLUDED_
#define _NGX_ETCD_ROUND_ROBIN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_method.h>


extern const ngx_etcd_method_t  ngx_etcd_round_robin_method;


#endif /* _NGX_ETCD_ROUND_ROBIN_H_INCLUDED_ */
