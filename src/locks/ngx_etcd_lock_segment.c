
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_segment.h>

#include <openssl/evp.h>


#define NGX_ETCD_LOCK_SEGMENT_DIGEST  32


static ngx_uint_t
ngx_etcd_lock_segment_is_plain(ngx_str_t *key, u_char c)
{
    return (c >= 'A' && c <= 'Z')
           || (c >= 'a' && c <= 'z')
           || (c >= '0' && c <= '9')
           || c == '-' || c == '_' || c == '~'
           || (c == '.' && key->len > 2);
}


/* Escapes as much of the key as fits; an escape is never split. */

static u_char *
ngx_etcd_lock_segment_escape(ngx_str_t *key, u_char *dst, size_t size,
    ngx_uint_t *whole)
{
    size_t   i;
    u_char  *last, c;

    static u_char  hex[] = "0123456789ABCDEF";

    *whole = 0;
    last = dst + size;

    for (i = 0; i < key->len; i++) {
        c = key->data[i];

        if (ngx_etcd_lock_segment_is_plain(key, c)) {

            if (last - dst < 1) {
                return dst;
            }

            *dst++ = c;
            continue;
        }

        if (last - dst < 3) {
            return dst;
        }

        *dst++ = '%';
        *dst++ = hex[c >> 4];
        *dst++ = hex[c & 0xf];
    }

    *whole = 1;

    return dst;
}


ngx_int_t
ngx_etcd_lock_segment(ngx_pool_t *pool, ngx_str_t *key, ngx_str_t *segment)
{
    u_char      *p;
    u_char       digest[EVP_MAX_MD_SIZE];
    ngx_uint_t   whole;

    segment->data = ngx_pnalloc(pool, NGX_ETCD_LOCK_SEGMENT_MAX);
    if (segment->data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_etcd_lock_segment_escape(key, segment->data,
                                     NGX_ETCD_LOCK_SEGMENT_PLAIN, &whole);
    if (whole) {
        segment->len = p - segment->data;
        return NGX_OK;
    }

    if (EVP_Digest(key->data, key->len, digest, NULL, EVP_sha256(), NULL)
        != 1)
    {
        ngx_ssl_error(NGX_LOG_ERR, pool->log, 0, "EVP_Digest() failed");
        return NGX_ERROR;
    }

    p = ngx_etcd_lock_segment_escape(key, segment->data,
                                     NGX_ETCD_LOCK_SEGMENT_BEGIN, &whole);
    *p++ = '~';
    p = ngx_hex_dump(p, digest, NGX_ETCD_LOCK_SEGMENT_DIGEST);

    segment->len = p - segment->data;

    return NGX_OK;
}
