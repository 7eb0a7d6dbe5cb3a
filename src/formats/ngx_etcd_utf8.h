
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


/*
 * Returns the length of the character at p, which must be before last; 0:
 * invalid (RFC 3629).
 */
size_t ngx_etcd_utf8_length(u_char *p, u_char *last);

ngx_uint_t ngx_etcd_utf8_valid(u_char *p, u_char *last);

/* Writes a character, up to U+10FFFF, in at most 4 bytes; returns the end. */
u_char *ngx_etcd_utf8_encode(u_char *p, uint32_t c);


#endif /* _NGX_ETCD_UTF8_H_INCLUDED_ */
