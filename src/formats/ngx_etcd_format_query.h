
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Formats whose attributes are arguments: NAME=VALUE, joined by "&".
 */


#ifndef _NGX_ETCD_FORMAT_QUERY_H_INCLUDED_
#define _NGX_ETCD_FORMAT_QUERY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_decode.h>


/* /dubbo/SERVICE/providers/URL; other parents hold consumers and the like. */
ngx_int_t ngx_etcd_format_dubbo(ngx_etcd_decode_t *d);

/* BASE/SERVICE/NETWORK@ADDRESS; BASE and BASE/SERVICE are keys too. */
ngx_int_t ngx_etcd_format_rpcx(ngx_etcd_decode_t *d);


#endif /* _NGX_ETCD_FORMAT_QUERY_H_INCLUDED_ */
