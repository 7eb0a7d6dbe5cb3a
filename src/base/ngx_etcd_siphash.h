
/*
 * Copyright (C) nginx-etcd contributors
 *
 * SipHash-1-3 (Aumasson, Bernstein 2012), as OpenSSL implements it.  A process
 * draws a random key, so that a client that writes keys into etcd cannot
 * choose keys that collide.  The workers of a master that has drawn one have
 * the master's key, and so the same hashes in shared memory.
 */


#ifndef _NGX_ETCD_SIPHASH_H_INCLUDED_
#define _NGX_ETCD_SIPHASH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Draws the key of this process, once.  NGX_ERROR: OpenSSL failed, which was
 * logged; the next call tries again.
 */
ngx_int_t ngx_etcd_siphash_init(ngx_log_t *log);

/* must not be called before ngx_etcd_siphash_init() has returned NGX_OK */
uint32_t ngx_etcd_siphash(ngx_str_t *str);
uint64_t ngx_etcd_siphash_long(ngx_str_t *str);


#endif /* _NGX_ETCD_SIPHASH_H_INCLUDED_ */
