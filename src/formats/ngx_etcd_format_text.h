
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The decoders of formats that are addresses, keys, URLs and queries.
 */


#ifndef _NGX_ETCD_FORMAT_TEXT_H_INCLUDED_
#define _NGX_ETCD_FORMAT_TEXT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_decode.h>


ngx_int_t ngx_etcd_format_text_plain(ngx_etcd_decode_t *d);
ngx_int_t ngx_etcd_format_text_key(ngx_etcd_decode_t *d);
ngx_int_t ngx_etcd_format_text_dubbo(ngx_etcd_decode_t *d);
ngx_int_t ngx_etcd_format_text_rpcx(ngx_etcd_decode_t *d);
ngx_int_t ngx_etcd_format_text_upsync(ngx_etcd_decode_t *d);


#endif /* _NGX_ETCD_FORMAT_TEXT_H_INCLUDED_ */
