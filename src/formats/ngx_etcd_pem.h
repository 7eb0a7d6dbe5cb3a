
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Values that are certificates or private keys in PEM.
 */


#ifndef _NGX_ETCD_PEM_H_INCLUDED_
#define _NGX_ETCD_PEM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_PEM_MAX_BITS       4096     /* default bits of an RSA key */
#define NGX_ETCD_PEM_LEAST_BITS     1024     /* of max_key_bits= */
#define NGX_ETCD_PEM_MOST_BITS      16384
#define NGX_ETCD_PEM_CERTIFICATES   10       /* in a value */

/* the room that the blocks of a value of n bytes may need */
#define NGX_ETCD_PEM_ROOM(n)  ((n) + (n) / 64 + 64)


/*
 * Replaces the value by its blocks: the certificates and the private key,
 * written anew, and nothing that stands between them.  Each was read before by
 * OpenSSL, without a password, and before that its key was found to be one that
 * is used (ngx_etcd_x509.h).  A certificate or a key of a chain that is not, or
 * that cannot be read, is returned as the reason, which shows nothing of the
 * value; the value is undefined then.
 *
 * The value has NGX_ETCD_PEM_ROOM(value->len) bytes, "buf" has value->len.
 */
char *ngx_etcd_pem_blocks(ngx_str_t *value, ngx_uint_t max_bits, u_char *buf);

/* Returns 1 if the value, of blocks, has a private key. */
ngx_uint_t ngx_etcd_pem_has_key(ngx_str_t *value);


#endif /* _NGX_ETCD_PEM_H_INCLUDED_ */
