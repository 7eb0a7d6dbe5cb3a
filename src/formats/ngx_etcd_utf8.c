
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_utf8.h>


/* Returns the length of the character at p, which is not ASCII; 0: invalid. */

static size_t
ngx_etcd_utf8_length(u_char *p, u_char *last)
{
    u_char  c, low, high;
    size_t  n, i;

    c = *p;

    if (c < 0xc2 || c > 0xf4) {
        return 0;
    }

    n = (c < 0xe0) ? 2 : (c < 0xf0) ? 3 : 4;

    if ((size_t) (last - p) < n) {
        return 0;
    }

    /* the second byte reveals overlong forms, surrogates and excess */

    low = (c == 0xe0) ? 0xa0 : (c == 0xf0) ? 0x90 : 0x80;
    high = (c == 0xed) ? 0x9f : (c == 0xf4) ? 0x8f : 0xbf;

    if (p[1] < low || p[1] > high) {
        return 0;
    }

    for (i = 2; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }

    return n;
}


ngx_uint_t
ngx_etcd_utf8_valid(u_char *p, u_char *last)
{
    size_t  n;

    while (p < last) {

        if (*p < 0x80) {
            p++;
            continue;
        }

        n = ngx_etcd_utf8_length(p, last);

        if (n == 0) {
            return 0;
        }

        p += n;
    }

    return 1;
}


void
ngx_etcd_utf8_skip_mark(ngx_str_t *text)
{
    if (text->len >= 3 && ngx_memcmp(text->data, "\xef\xbb\xbf", 3) == 0) {
        text->data += 3;
        text->len -= 3;
    }
}
