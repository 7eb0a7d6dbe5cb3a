
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Strict UTF-8 (RFC 3629): ngx_utf8_decode() accepts surrogates, code points
 * above U+10FFFF, and stray continuation bytes.
 */


#ifndef _NGX_ETCD_UTF8_H_INCLUDED_
#define _NGX_ETCD_UTF8_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


ngx_uint_t ngx_etcd_utf8_valid(u_char *p, u_char *last);


/* Removes a byte order mark, with which Windows begins a text. */
void ngx_etcd_utf8_skip_mark(ngx_str_t *text);


#endif /* _NGX_ETCD_UTF8_H_INCLUDED_ */
