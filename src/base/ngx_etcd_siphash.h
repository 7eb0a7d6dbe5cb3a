
/*
 * Copyright (C) nginx-etcd contributors
 *
 * SipHash-1-3 (Aumasson, Bernstein 2012), as OpenSSL implements it, with a key
 * that each process draws at random: whoever writes keys into etcd cannot
 * choose keys that collide.
 */


#ifndef _NGX_ETCD_SIPHASH_H_INCLUDED_
#define _NGX_ETCD_SIPHASH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Draws the key of this process, once.  NGX_ERROR: OpenSSL refused, which was
 * logged; it may be called again.
 */
ngx_int_t ngx_etcd_siphash_init(ngx_log_t *log);

/* after ngx_etcd_siphash_init() has returned NGX_OK */
uint32_t ngx_etcd_siphash(ngx_str_t *str);


#endif /* _NGX_ETCD_SIPHASH_H_INCLUDED_ */
