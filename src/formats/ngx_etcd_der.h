
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A reader of DER (X.690), the encoding of certificates and keys.  It copies
 * nothing and computes nothing: each element is cut off the text at hand, in
 * constant time, if its length is the shortest encoding and fits the text.
 */


#ifndef _NGX_ETCD_DER_H_INCLUDED_
#define _NGX_ETCD_DER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


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


#endif /* _NGX_ETCD_DER_H_INCLUDED_ */
