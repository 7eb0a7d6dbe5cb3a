
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_http_answer.h>
#include "ngx_etcd_tap.h"


#define OK  "HTTP/1.1 200 OK\r\n"


typedef struct {
    char        *text;
    ngx_int_t    rc;         /* after all of it */
    ngx_uint_t   closed;     /* is it complete when the connection ends? */
    ngx_uint_t   status;
    char        *body;
} test_http_answer_t;


static test_http_answer_t  test_http_answers[] = {

    /* complete */

    { OK "Content-Length: 2\r\n\r\nok", NGX_OK, 1, 200, "ok" },
    { OK "content-length:2 \r\n\r\nokay", NGX_OK, 1, 200, "ok" },
    { OK "Content-Length: 0\r\n\r\n", NGX_OK, 1, 200, "" },
    { "HTTP/1.0 404 \r\nA: b\r\n c\r\nContent-Length: 1\r\n\r\nx", NGX_OK, 1,
      404, "x" },
    { "HTTP/1.1 503\nContent-Length: 2\nContent-Length: 2\n\nno", NGX_OK, 1,
      503, "no" },
    { "HTTP/1.1 204 No Content\r\n\r\n", NGX_OK, 1, 204, "" },
    { "HTTP/1.1 304 No\r\nContent-Length: 7\r\n\r\n", NGX_OK, 1, 304, "" },
    { "HTTP/1.1 101 Switching Protocols\r\n\r\n", NGX_OK, 1, 101, "" },
    { "HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n"
      "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n"
      OK "Content-Length: 2\r\n\r\nok", NGX_OK, 1, 200, "ok" },

    /* chunks */

    { OK "Transfer-Encoding: Chunked\r\n\r\n"
      "1\r\no\r\n00002;a=\"b\"\r\nka\r\n1 \r\ny\r\n0\r\n\r\n", NGX_OK, 1, 200,
      "okay" },
    { OK "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
      "a\r\n0123456789\r\n0\r\nTrailer: x\r\nno field\r\n\r\n", NGX_OK, 1, 200,
      "0123456789" },
    { OK "Transfer-Encoding: chunked\r\n\r\n0\r\n", NGX_AGAIN, 0, 200, "" },
    { OK "Transfer-Encoding: chunked\r\n\r\nffffffff\r\nx", NGX_AGAIN, 0, 200,
      "x" },
    { OK "Transfer-Encoding: chunked\r\n\r\n1\r\nx", NGX_AGAIN, 0, 200, "x" },
    { OK "Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n", NGX_ERROR, 0, 0,
      NULL },
    { OK "Transfer-Encoding: chunked\r\n\r\n\r\n", NGX_ERROR, 0, 0, NULL },
    { OK "Transfer-Encoding: chunked\r\n\r\n;\r\n", NGX_ERROR, 0, 0, NULL },
    { OK "Transfer-Encoding: chunked\r\n\r\n-1\r\n", NGX_ERROR, 0, 0, NULL },
    { OK "Transfer-Encoding: chunked\r\n\r\n0x1\r\n", NGX_ERROR, 0, 0, NULL },
    { OK "Transfer-Encoding: chunked\r\n\r\n100000000\r\n", NGX_ERROR, 0, 0,
      NULL },

    /* until the connection ends */

    { OK "\r\n", NGX_AGAIN, 1, 200, "" },
    { OK "\r\nany\r\n\r\nthing", NGX_AGAIN, 1, 200, "any\r\n\r\nthing" },
    { OK "Transfer-Encoding: gzip, chunked\r\n\r\n1\r\n", NGX_AGAIN, 1, 200,
      "1\r\n" },

    /* incomplete */

    { "", NGX_AGAIN, 0, 0, "" },
    { "HTTP/1.1 200 OK", NGX_AGAIN, 0, 0, "" },
    { OK, NGX_AGAIN, 0, 200, "" },
    { OK "Content-Length: 3\r\n", NGX_AGAIN, 0, 200, "" },
    { OK "Content-Length: 3\r\n\r\nno", NGX_AGAIN, 0, 200, "no" },
    { OK "Content-Length: 9223372036854775807\r\n\r\nno", NGX_AGAIN, 0, 200,
      "no" },
    { "HTTP/1.1 100 Continue\r\n\r\n", NGX_AGAIN, 0, 100, "" },

    /* broken */

    { "\r\n", NGX_ERROR, 0, 0, NULL },
    { "ok\n", NGX_ERROR, 0, 0, NULL },
    { "HTTP/1.1 20\r\n", NGX_ERROR, 0, 0, NULL },
    { "HTTP/1.1 2000 OK\r\n", NGX_ERROR, 0, 0, NULL },
    { "HTTP/1.1 200OK\r\n", NGX_ERROR, 0, 0, NULL },
    { "HTTP/1.1 099 OK\r\n", NGX_ERROR, 0, 0, NULL },
    { "HTTP/1.1 2x0 OK\r\n", NGX_ERROR, 0, 0, NULL },
    { "HTTP/1.1  200 OK\r\n", NGX_ERROR, 0, 0, NULL },
    { "HTTP/1.1\t200 OK\r\n", NGX_ERROR, 0, 0, NULL },
    { "HTTP/1.2 200 OK\r\n", NGX_ERROR, 0, 0, NULL },
    { "HTTP/2.0 200 OK\r\n", NGX_ERROR, 0, 0, NULL },
    { "http/1.1 200 OK\r\n", NGX_ERROR, 0, 0, NULL },
    { "SSH-2.0-OpenSSH_9.2\r\n", NGX_ERROR, 0, 0, NULL },
    { OK "no field\r\n", NGX_ERROR, 0, 0, NULL },
    { OK ": no name\r\n", NGX_ERROR, 0, 0, NULL },
    { OK "Content-Length:\r\n", NGX_ERROR, 0, 0, NULL },
    { OK "Content-Length: -1\r\n", NGX_ERROR, 0, 0, NULL },
    { OK "Content-Length: 1x\r\n", NGX_ERROR, 0, 0, NULL },
    { OK "Content-Length: 1, 1\r\n", NGX_ERROR, 0, 0, NULL },
    { OK "Content-Length: 1\r\nContent-Length: 2\r\n", NGX_ERROR, 0, 0, NULL },
    { OK "Content-Length: 9223372036854775808\r\n", NGX_ERROR, 0, 0, NULL },

    { NULL, 0, 0, 0, NULL }
};


/* The answer arrives in pieces of "step" bytes. */

static void
test_http_answer_read(ngx_pool_t *pool, test_http_answer_t *test, size_t step)
{
    size_t                   n, len;
    ngx_int_t                rc;
    ngx_str_t               *arrived, *before, body;
    ngx_etcd_http_answer_t   answer;

    ngx_memzero(&answer, sizeof(ngx_etcd_http_answer_t));

    /* A sanitizer would see a read behind the bytes that have arrived. */

    len = ngx_strlen(test->text);
    before = NULL;
    n = 0;

    do {
        n = ngx_min(n + step, len);

        arrived = tap_bytes(pool, test->text, n);

        if (before != NULL) {
            ngx_memcpy(arrived->data, before->data, before->len);
        }

        rc = ngx_etcd_http_answer(&answer, arrived->data, n);
        before = arrived;

    } while (rc == NGX_AGAIN && n < len);

    tap_check(rc == test->rc);

    if (rc != NGX_ERROR) {
        tap_check(answer.status == test->status);
        tap_check(ngx_etcd_http_answer_closed(&answer) == test->closed);

        body.data = arrived->data + answer.body;
        body.len = answer.len;

        tap_text(&body, test->body);
    }
}


static void
test_http_answer_all(ngx_pool_t *pool)
{
    size_t               step;
    test_http_answer_t  *test;

    for (test = test_http_answers; test->text != NULL; test++) {
        for (step = 1; step <= ngx_strlen(test->text) + 1; step++) {
            test_http_answer_read(pool, test, step);
        }
    }
}


ngx_etcd_tap_test_t  test_http_answer[] = {
    { "HTTP answers, whole and in pieces", test_http_answer_all },
    { NULL, NULL }
};
