
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


/*
 * A reader of DER (X.690), the encoding of certificates and keys.  It copies
 * nothing and computes nothing: each element is cut off the text at hand, in
 * constant time, if its length is the shortest encoding and fits the text.
 */

#define NGX_ETCD_DER_INTEGER       0x02
#define NGX_ETCD_DER_BIT_STRING    0x03
#define NGX_ETCD_DER_OCTET_STRING  0x04
#define NGX_ETCD_DER_OID           0x06
#define NGX_ETCD_DER_SEQUENCE      0x30

/* a constructed element of that number of its context */
#define ngx_etcd_der_context(n)    (0xa0 | (n))


/*
 * Cuts an element with that tag off the beginning of the text.  NGX_DECLINED:
 * there is none, or it has more than 65535 bytes.
 */
ngx_int_t ngx_etcd_der_read(ngx_str_t *text, u_char tag, ngx_str_t *content);

/* The same if the text begins with that tag, otherwise the content is empty. */
ngx_int_t ngx_etcd_der_optional(ngx_str_t *text, u_char tag,
    ngx_str_t *content);

/* Cuts off an integer that is not negative; drops its leading zero. */
ngx_int_t ngx_etcd_der_integer(ngx_str_t *text, ngx_str_t *content);

/* Cuts off a bit string of whole bytes. */
ngx_int_t ngx_etcd_der_bytes(ngx_str_t *text, ngx_str_t *content);

/* The number of bits of such an integer. */
ngx_uint_t ngx_etcd_der_bits(ngx_str_t *integer);


typedef enum {
    NGX_ETCD_X509_PKCS8 = 0,                 /* "PRIVATE KEY" */
    NGX_ETCD_X509_PKCS1,                     /* "RSA PRIVATE KEY" */
    NGX_ETCD_X509_SEC1                       /* "EC PRIVATE KEY" */
} ngx_etcd_x509_encoding_e;


/* NULL, or why the certificate is refused; an RSA key has at most max_bits. */
char *ngx_etcd_x509_certificate(ngx_str_t *der, ngx_uint_t max_bits);

/* NULL, or why the private key is refused. */
char *ngx_etcd_x509_private_key(ngx_str_t *der,
    ngx_etcd_x509_encoding_e encoding, ngx_uint_t max_bits);


#endif /* _NGX_ETCD_X509_H_INCLUDED_ */
