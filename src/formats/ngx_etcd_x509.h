
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Finds out which key a certificate or a private key in DER has, before any
 * library decodes it: OpenSSL computes with the numbers of some keys while it
 * reads them, and a worker that has a huge key hangs in each handshake.
 *
 * A key is of RSA (also of RSASSA-PSS), of one of the curves P-256, P-384 and
 * P-521, which is named, or of Ed25519 or Ed448.
 */


#ifndef _NGX_ETCD_X509_H_INCLUDED_
#define _NGX_ETCD_X509_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef enum {
    NGX_ETCD_X509_CERTIFICATE = 0,           /* "CERTIFICATE" */
    NGX_ETCD_X509_PKCS8,                     /* "PRIVATE KEY" */
    NGX_ETCD_X509_PKCS1,                     /* "RSA PRIVATE KEY" */
    NGX_ETCD_X509_SEC1                       /* "EC PRIVATE KEY" */
} ngx_etcd_x509_encoding_e;


/*
 * NULL, or why the certificate or private key is refused; an RSA key has at
 * most max_bits.
 */
char *ngx_etcd_x509_check(ngx_str_t *der, ngx_etcd_x509_encoding_e encoding,
    ngx_uint_t max_bits);


#endif /* _NGX_ETCD_X509_H_INCLUDED_ */
