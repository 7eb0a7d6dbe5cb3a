
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The KEY of a lock as one segment of a path in etcd, of bounded length.
 *
 * Bytes other than letters, digits, and "-_.~" are percent-escaped, and so are
 * the dots of "." and "..".  If the result is longer than 64 bytes, it is cut
 * before the escape or byte that goes beyond 24 bytes, and followed by "~" and
 * the SHA-256 of the KEY, unescaped, in 64 lower case hexadecimal digits.
 *
 * Escaping is injective; a segment with a digest has 65 bytes or more, so no
 * short KEY can be equal to one.
 */


#ifndef _NGX_ETCD_LOCK_SEGMENT_H_INCLUDED_
#define _NGX_ETCD_LOCK_SEGMENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_LOCK_SEGMENT_PLAIN  64
#define NGX_ETCD_LOCK_SEGMENT_BEGIN  24
#define NGX_ETCD_LOCK_SEGMENT_MAX    (NGX_ETCD_LOCK_SEGMENT_BEGIN + 1 + 64)


/*
 * Allocates the segment from the pool.  NGX_ERROR: no memory, or OpenSSL has
 * no SHA-256.
 */
ngx_int_t ngx_etcd_lock_segment(ngx_pool_t *pool, ngx_str_t *key,
    ngx_str_t *segment);


#endif /* _NGX_ETCD_LOCK_SEGMENT_H_INCLUDED_ */
