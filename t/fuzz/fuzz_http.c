
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Answers of HTTP/1: however they are cut into pieces, the result is the same.
 * The first byte of the input is the length of a piece.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_http_answer.h>
#include "fuzz.h"


static ngx_int_t fuzz_read(ngx_str_t *text, size_t step,
    ngx_etcd_http_answer_t *answer, ngx_str_t *bytes);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t                   step;
    ngx_int_t                rc;
    ngx_str_t                text, whole, pieces;
    ngx_etcd_http_answer_t   one, two;

    if (size == 0) {
        return 0;
    }

    step = ngx_max(data[0], 1);
    data++;
    size--;

    text = fuzz_bytes(&data, &size, size);

    rc = fuzz_read(&text, ngx_max(text.len, 1), &one, &whole);

    fuzz_check(fuzz_read(&text, step, &two, &pieces) == rc);

    if (rc != NGX_ERROR) {
        fuzz_check(one.status == two.status);
        fuzz_check(one.state == two.state);
        fuzz_check(one.body + one.len <= text.len);
        fuzz_check(one.body == two.body && one.len == two.len);
        fuzz_check(ngx_memcmp(whole.data + one.body, pieces.data + two.body,
                              one.len)
                   == 0);
        fuzz_check(rc != NGX_OK || ngx_etcd_http_answer_closed(&one));
    }

    ngx_free(whole.data);
    ngx_free(pieces.data);
    ngx_free(text.data);

    return 0;
}


/* The bytes are as the reader leaves them: in memory of just their size. */

static ngx_int_t
fuzz_read(ngx_str_t *text, size_t step, ngx_etcd_http_answer_t *answer,
    ngx_str_t *bytes)
{
    size_t          n, before;
    ngx_int_t       rc;
    ngx_str_t       former;
    const uint8_t  *p;

    ngx_memzero(answer, sizeof(ngx_etcd_http_answer_t));
    ngx_str_null(&former);

    n = 0;

    do {
        before = n;
        n = ngx_min(n + step, text->len);

        p = text->data;
        *bytes = fuzz_bytes(&p, &n, n);
        n = bytes->len;

        if (former.data != NULL) {
            ngx_memcpy(bytes->data, former.data, before);
            ngx_free(former.data);
        }

        former = *bytes;

        rc = ngx_etcd_http_answer(answer, bytes->data, n);

    } while (rc == NGX_AGAIN && n < text->len);

    return rc;
}
