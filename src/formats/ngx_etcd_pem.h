
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Values that are certificates or private keys in PEM.
 */


#ifndef _NGX_ETCD_PEM_H_INCLUDED_
#define _NGX_ETCD_PEM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Returns NULL if the value has a certificate, a chain of certificates, a
 * private key, or several of these, each of which OpenSSL can read without a
 * password; otherwise the reason, which shows nothing of the value.
 */
char *ngx_etcd_pem_check(ngx_str_t *value);

/* Returns 1 if the value may have a private key. */
ngx_uint_t ngx_etcd_pem_has_key(ngx_str_t *value);


#endif /* _NGX_ETCD_PEM_H_INCLUDED_ */
