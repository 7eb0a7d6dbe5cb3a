
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_http_answer.h>
#include <ngx_etcd_str.h>


/* hexadecimal digits of a chunk's size: no overflow */

#define NGX_ETCD_HTTP_ANSWER_DIGITS  8


/* Adds what is there of the body, or of a chunk, to the body. */

static void
ngx_etcd_http_answer_data(ngx_etcd_http_answer_t *answer, u_char *buf,
    size_t n)
{
    size_t  len;

    len = n - answer->pos;

    if (answer->state != NGX_ETCD_HTTP_ANSWER_CLOSE) {
        len = ngx_min(len, answer->rest);
        answer->rest -= len;

        if (answer->rest == 0) {
            answer->state = (answer->state == NGX_ETCD_HTTP_ANSWER_CHUNK)
                            ? NGX_ETCD_HTTP_ANSWER_END
                            : NGX_ETCD_HTTP_ANSWER_DONE;
        }
    }

    ngx_memmove(buf + answer->body + answer->len, buf + answer->pos, len);

    answer->len += len;
    answer->pos += len;
    answer->seen = answer->pos;
}


/* Takes the next line, without its end.  NGX_AGAIN: it has no end yet. */

static ngx_int_t
ngx_etcd_http_answer_line(ngx_etcd_http_answer_t *answer, u_char *buf,
    size_t n, ngx_str_t *line)
{
    u_char  *p;

    p = memchr(buf + answer->seen, LF, n - answer->seen);

    if (p == NULL) {
        answer->seen = n;
        return NGX_AGAIN;
    }

    line->data = buf + answer->pos;
    line->len = p - line->data;

    if (line->len != 0 && line->data[line->len - 1] == CR) {
        line->len--;
    }

    answer->pos = p + 1 - buf;
    answer->seen = answer->pos;

    return NGX_OK;
}


/* "HTTP/1.1 200", and a reason or nothing */

static ngx_int_t
ngx_etcd_http_answer_status(ngx_etcd_http_answer_t *answer, ngx_str_t *line)
{
    u_char     *p;
    ngx_int_t   status;

    p = line->data;

    if (line->len < sizeof("HTTP/1.1 200") - 1
        || ngx_strncmp(p, "HTTP/1.", 7) != 0
        || (p[7] != '0' && p[7] != '1')
        || p[8] != ' '
        || (line->len > 12 && p[12] != ' '))
    {
        return NGX_ERROR;
    }

    status = ngx_atoi(p + 9, 3);

    if (status < 100) {
        return NGX_ERROR;
    }

    answer->status = status;
    answer->state = NGX_ETCD_HTTP_ANSWER_HEADER;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_http_answer_field(ngx_etcd_http_answer_t *answer, ngx_str_t *line)
{
    u_char    *p, *last;
    ssize_t    n;
    ngx_str_t  name, value;

    p = line->data;
    last = p + line->len;

    /* the rest of a folded line belongs to a field that is not read */

    if (*p == ' ' || *p == '\t') {
        return NGX_OK;
    }

    if (!ngx_etcd_str_cut(line, ':', &name, &value) || name.len == 0) {
        return NGX_ERROR;
    }

    p = value.data;

    while (p < last && (*p == ' ' || *p == '\t')) {
        p++;
    }

    while (last > p && (last[-1] == ' ' || last[-1] == '\t')) {
        last--;
    }

    value.data = p;
    value.len = last - p;

    if (name.len == 14
        && ngx_strncasecmp(name.data, (u_char *) "Content-Length", 14) == 0)
    {
        n = ngx_atosz(value.data, value.len);

        if (n == NGX_ERROR || (answer->sized && answer->rest != (size_t) n)) {
            return NGX_ERROR;
        }

        answer->rest = n;
        answer->sized = 1;

        return NGX_OK;
    }

    if (name.len == 17
        && ngx_strncasecmp(name.data, (u_char *) "Transfer-Encoding", 17) == 0)
    {
        /* a body that is coded in another way ends with the connection */

        if (value.len == 7
            && ngx_strncasecmp(value.data, (u_char *) "chunked", 7) == 0)
        {
            answer->chunked = 1;

        } else {
            answer->coded = 1;
        }
    }

    return NGX_OK;
}


static void
ngx_etcd_http_answer_begin(ngx_etcd_http_answer_t *answer)
{
    answer->body = answer->pos;

    if (answer->status < 200 && answer->status != 101) {

        /* "100 Continue" and the like: the answer follows */

        answer->state = NGX_ETCD_HTTP_ANSWER_STATUS;
        answer->sized = 0;
        answer->chunked = 0;
        answer->coded = 0;
        return;
    }

    if (answer->status < 200
        || answer->status == 204
        || answer->status == 304)
    {
        answer->state = NGX_ETCD_HTTP_ANSWER_DONE;

    } else if (answer->coded) {
        answer->state = NGX_ETCD_HTTP_ANSWER_CLOSE;

    } else if (answer->chunked) {
        answer->state = NGX_ETCD_HTTP_ANSWER_SIZE;

    } else if (!answer->sized) {
        answer->state = NGX_ETCD_HTTP_ANSWER_CLOSE;

    } else {
        answer->state = answer->rest ? NGX_ETCD_HTTP_ANSWER_LENGTH
                                     : NGX_ETCD_HTTP_ANSWER_DONE;
    }
}


/* The size of a chunk, maybe with an extension. */

static ngx_int_t
ngx_etcd_http_answer_size(ngx_etcd_http_answer_t *answer, ngx_str_t *line)
{
    size_t     len;
    u_char     c;
    ngx_int_t  n;

    for (len = 0; len < line->len; len++) {
        c = line->data[len];

        if (c == ';' || c == ' ' || c == '\t') {
            break;
        }
    }

    if (len > NGX_ETCD_HTTP_ANSWER_DIGITS) {
        return NGX_ERROR;
    }

    n = ngx_hextoi(line->data, len);

    if (n == NGX_ERROR) {
        return NGX_ERROR;
    }

    answer->rest = n;
    answer->state = n ? NGX_ETCD_HTTP_ANSWER_CHUNK
                      : NGX_ETCD_HTTP_ANSWER_TRAILER;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_http_answer_take(ngx_etcd_http_answer_t *answer, ngx_str_t *line)
{
    switch (answer->state) {

    case NGX_ETCD_HTTP_ANSWER_STATUS:
        return ngx_etcd_http_answer_status(answer, line);

    case NGX_ETCD_HTTP_ANSWER_HEADER:

        if (line->len != 0) {
            return ngx_etcd_http_answer_field(answer, line);
        }

        ngx_etcd_http_answer_begin(answer);
        return NGX_OK;

    case NGX_ETCD_HTTP_ANSWER_SIZE:
        return ngx_etcd_http_answer_size(answer, line);

    case NGX_ETCD_HTTP_ANSWER_END:
        answer->state = NGX_ETCD_HTTP_ANSWER_SIZE;
        return (line->len == 0) ? NGX_OK : NGX_ERROR;

    default: /* NGX_ETCD_HTTP_ANSWER_TRAILER */

        if (line->len == 0) {
            answer->state = NGX_ETCD_HTTP_ANSWER_DONE;
        }

        return NGX_OK;
    }
}


ngx_int_t
ngx_etcd_http_answer(ngx_etcd_http_answer_t *answer, u_char *buf, size_t n)
{
    ngx_str_t  line;

    for ( ;; ) {

        switch (answer->state) {

        case NGX_ETCD_HTTP_ANSWER_DONE:
            return NGX_OK;

        case NGX_ETCD_HTTP_ANSWER_LENGTH:
        case NGX_ETCD_HTTP_ANSWER_CLOSE:
        case NGX_ETCD_HTTP_ANSWER_CHUNK:

            if (answer->pos == n) {
                return NGX_AGAIN;
            }

            ngx_etcd_http_answer_data(answer, buf, n);
            break;

        default:

            if (ngx_etcd_http_answer_line(answer, buf, n, &line) != NGX_OK) {
                return NGX_AGAIN;
            }

            if (ngx_etcd_http_answer_take(answer, &line) != NGX_OK) {
                return NGX_ERROR;
            }
        }
    }
}
