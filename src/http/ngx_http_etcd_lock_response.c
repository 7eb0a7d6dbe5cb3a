
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_str.h>
#include <ngx_http_etcd_lock_response.h>


/* RFC 9113, 4.1 and 6 */

#define NGX_HTTP_ETCD_LOCK_FRAME            9
#define NGX_HTTP_ETCD_LOCK_FRAME_DATA       0
#define NGX_HTTP_ETCD_LOCK_FRAME_HEADERS    1
#define NGX_HTTP_ETCD_LOCK_FRAME_RST        3
#define NGX_HTTP_ETCD_LOCK_FRAME_END        0x1

/* FastCGI 1.0, 3.3 and 5.5: the body of END_REQUEST is as long as a header */

#define NGX_HTTP_ETCD_LOCK_RECORD           8
#define NGX_HTTP_ETCD_LOCK_RECORD_END       3


typedef struct {
    ngx_str_t                            schema;
    ngx_http_etcd_lock_response_state_e  state;
} ngx_http_etcd_lock_protocol_t;


static ngx_http_etcd_lock_protocol_t  ngx_http_etcd_lock_protocols[] = {

    { ngx_string("http://"), NGX_HTTP_ETCD_LOCK_RESPONSE_STATUS },
    { ngx_string("https://"), NGX_HTTP_ETCD_LOCK_RESPONSE_STATUS },
    { ngx_string("fastcgi://"), NGX_HTTP_ETCD_LOCK_RESPONSE_RECORD },
    { ngx_string("uwsgi://"), NGX_HTTP_ETCD_LOCK_RESPONSE_CLOSE },
    { ngx_string("suwsgi://"), NGX_HTTP_ETCD_LOCK_RESPONSE_CLOSE },
    { ngx_string("scgi://"), NGX_HTTP_ETCD_LOCK_RESPONSE_CLOSE },

    { ngx_null_string, 0 }
};


/* Does the request, as nginx has sent it, begin with the text? */

static ngx_uint_t
ngx_http_etcd_lock_response_sent(ngx_http_upstream_t *u, char *text)
{
    size_t      len;
    ngx_buf_t  *b;

    if (u->request_bufs == NULL) {
        return 0;
    }

    b = u->request_bufs->buf;
    len = ngx_strlen(text);

    return ngx_buf_in_memory(b)
           && (size_t) (b->last - b->start) >= len
           && ngx_strncmp(b->start, text, len) == 0;
}


/* HTTP/2 has no schema of its own. */

static void
ngx_http_etcd_lock_response_protocol(ngx_http_etcd_lock_response_t *response,
    ngx_http_request_t *r)
{
    ngx_uint_t            i;
    ngx_http_upstream_t  *u;

    u = r->upstream;

    if (ngx_http_etcd_lock_response_sent(u, "PRI * HTTP/2.0\r\n")) {
        response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_FRAME;
        return;
    }

    response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_ANY;
    response->head = ngx_http_etcd_lock_response_sent(u, "HEAD ");

    for (i = 0; ngx_http_etcd_lock_protocols[i].schema.len != 0; i++) {

        if (ngx_etcd_str_equal(&u->schema,
                               &ngx_http_etcd_lock_protocols[i].schema))
        {
            response->state = ngx_http_etcd_lock_protocols[i].state;
            return;
        }
    }
}


/* A part of the body was received, and is in use or gone. */

static void
ngx_http_etcd_lock_response_body(ngx_http_etcd_lock_response_t *response,
    ngx_http_request_t *r)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    switch (response->state) {

    case NGX_HTTP_ETCD_LOCK_RESPONSE_STATUS:

        if (u->headers_in.status_n == NGX_HTTP_SWITCHING_PROTOCOLS) {
            response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_ANY;
            response->len = 1;
            return;
        }

        if (u->headers_in.chunked) {
            response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_LAST_CHUNK;
            return;
        }

        if (u->headers_in.content_length_n < 0 || u->headers_in.status_n < 200)
        {
            response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_CLOSE;
            return;
        }

        response->skip = (u->buffering && u->header_sent)
                         ? u->headers_in.content_length_n - u->pipe->read_length
                         : u->length;

        response->state = (response->skip > 0)
                          ? NGX_HTTP_ETCD_LOCK_RESPONSE_LENGTH
                          : NGX_HTTP_ETCD_LOCK_RESPONSE_ENDED;
        return;

    case NGX_HTTP_ETCD_LOCK_RESPONSE_RECORD:
        response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_LAST_RECORD;
        return;

    case NGX_HTTP_ETCD_LOCK_RESPONSE_FRAME:
        response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_CLOSE;
        return;

    default:
        response->len = 1;
        return;
    }
}


/* All that was received of the response is still in the buffer. */

static void
ngx_http_etcd_lock_response_header(ngx_http_etcd_lock_response_t *response,
    ngx_http_request_t *r)
{
    u_char     *start;
    ngx_buf_t  *b;

    b = &r->upstream->buffer;
    start = b->start;

    if (start == NULL) {
        return;
    }

#if (NGX_HTTP_CACHE)

    if (r->cache != NULL) {
        start += r->cache->header_start;
    }

#endif

    if (start < b->last) {
        ngx_http_etcd_lock_response_read(response, start, b->last - start);
    }
}


void
ngx_http_etcd_lock_response_init(ngx_http_etcd_lock_response_t *response,
    ngx_http_request_t *r)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    ngx_memzero(response, sizeof(ngx_http_etcd_lock_response_t));

    if (u->upgrade) {
        return;
    }

    ngx_http_etcd_lock_response_protocol(response, r);

    if (u->header_sent
        || (r->subrequest_in_memory && u->headers_in.status_n != 0))
    {
        ngx_http_etcd_lock_response_body(response, r);
        return;
    }

    ngx_http_etcd_lock_response_header(response, r);
}


/* Keeps the last bytes. */

static void
ngx_http_etcd_lock_response_tail(ngx_http_etcd_lock_response_t *response,
    u_char *p, u_char *last)
{
    size_t  n, keep;

    n = ngx_min(last - p, NGX_HTTP_ETCD_LOCK_RESPONSE_UNIT);
    keep = ngx_min(response->len, NGX_HTTP_ETCD_LOCK_RESPONSE_UNIT - n);

    ngx_memmove(response->unit, response->unit + response->len - keep, keep);
    ngx_memcpy(response->unit + keep, last - n, n);

    response->len = keep + n;
}


static void
ngx_http_etcd_lock_response_frame(ngx_http_etcd_lock_response_t *response)
{
    u_char  *p;

    p = response->unit;

    response->len = 0;
    response->skip = (p[0] << 16) | (p[1] << 8) | p[2];

    /* stream 0 is the connection */

    if (((p[5] & 0x7f) | p[6] | p[7] | p[8]) == 0) {
        return;
    }

    if (p[3] == NGX_HTTP_ETCD_LOCK_FRAME_RST
        || ((p[3] == NGX_HTTP_ETCD_LOCK_FRAME_DATA
             || p[3] == NGX_HTTP_ETCD_LOCK_FRAME_HEADERS)
            && (p[4] & NGX_HTTP_ETCD_LOCK_FRAME_END)))
    {
        response->skip = 0;
        response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_ENDED;
    }
}


static void
ngx_http_etcd_lock_response_record(ngx_http_etcd_lock_response_t *response)
{
    u_char  *p;

    p = response->unit;

    response->len = 0;
    response->skip = ((p[4] << 8) | p[5]) + p[6];

    if (p[1] == NGX_HTTP_ETCD_LOCK_RECORD_END) {
        response->skip = 0;
        response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_ENDED;
    }
}


static void
ngx_http_etcd_lock_response_status(ngx_http_etcd_lock_response_t *response)
{
    u_char     *p;
    ngx_int_t   status;

    p = response->unit;

    status = (response->len > sizeof("HTTP/1.1 200") - 1
              && ngx_strncmp(p, "HTTP/1.", sizeof("HTTP/1.") - 1) == 0)
             ? ngx_atoi(p + sizeof("HTTP/1.1 ") - 1, 3) : NGX_ERROR;

    if (status == NGX_ERROR) {
        response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_CLOSE;
        return;
    }

    response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_HEADER;
    response->status = status;
    response->chunked = 0;
    response->length = -1;
}


/* RFC 9112, 6.3 */

static void
ngx_http_etcd_lock_response_header_done(
    ngx_http_etcd_lock_response_t *response)
{
    if (response->status == NGX_HTTP_SWITCHING_PROTOCOLS) {
        response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_ANY;

    } else if (response->status < 200) {
        response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_STATUS;

    } else if (response->head
               || response->status == NGX_HTTP_NO_CONTENT
               || response->status == NGX_HTTP_NOT_MODIFIED
               || (response->length == 0 && !response->chunked))
    {
        response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_ENDED;

    } else if (response->chunked) {
        response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_CHUNK;

    } else if (response->length > 0) {
        response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_LENGTH;
        response->skip = response->length;

    } else {
        response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_CLOSE;
    }
}


static void
ngx_http_etcd_lock_response_field(ngx_http_etcd_lock_response_t *response)
{
    u_char  *p, *last, *value;
    size_t   len;

    p = response->unit;
    last = p + response->len;

    while (last > p && last[-1] <= ' ') {
        last--;
    }

    len = sizeof("Content-Length:") - 1;

    if ((size_t) (last - p) > len
        && ngx_strncasecmp(p, (u_char *) "Content-Length:", len) == 0)
    {
        value = p + len;

        while (value < last && (*value == ' ' || *value == '\t')) {
            value++;
        }

        response->length = ngx_atoof(value, last - value);
        return;
    }

    len = sizeof("Transfer-Encoding:") - 1;

    if ((size_t) (last - p) > len
        && ngx_strncasecmp(p, (u_char *) "Transfer-Encoding:", len) == 0
        && ngx_strlcasestrn(p + len, last, (u_char *) "chunked", 7 - 1) != NULL)
    {
        response->chunked = 1;
    }
}


/* The skipped bytes are the chunk with its CRLF. */

static void
ngx_http_etcd_lock_response_chunk(ngx_http_etcd_lock_response_t *response)
{
    u_char     *p, *last;
    ngx_int_t   size;

    p = response->unit;
    last = p + response->len;

    while (p < last && ((*p >= '0' && *p <= '9')
                        || ((*p | 0x20) >= 'a' && (*p | 0x20) <= 'f')))
    {
        p++;
    }

    size = ngx_hextoi(response->unit, p - response->unit);

    if (size == NGX_ERROR || size > NGX_MAX_OFF_T_VALUE - 2) {
        response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_CLOSE;

    } else if (size == 0) {
        response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_TRAILER;

    } else {
        response->skip = size + 2;
    }
}


static void
ngx_http_etcd_lock_response_line(ngx_http_etcd_lock_response_t *response)
{
    u_char      *p;
    ngx_uint_t   empty;

    p = response->unit;
    empty = (p[0] == LF || (p[0] == CR && response->len == 2));

    switch (response->state) {

    case NGX_HTTP_ETCD_LOCK_RESPONSE_STATUS:
        ngx_http_etcd_lock_response_status(response);
        break;

    case NGX_HTTP_ETCD_LOCK_RESPONSE_HEADER:
        if (empty) {
            ngx_http_etcd_lock_response_header_done(response);
        } else {
            ngx_http_etcd_lock_response_field(response);
        }

        break;

    case NGX_HTTP_ETCD_LOCK_RESPONSE_CHUNK:
        ngx_http_etcd_lock_response_chunk(response);
        break;

    default: /* NGX_HTTP_ETCD_LOCK_RESPONSE_TRAILER */
        if (empty) {
            response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_ENDED;
        }
    }

    response->len = 0;
}


/* Adds to the unit: a line, or the head of a frame or record. */

static u_char *
ngx_http_etcd_lock_response_unit(ngx_http_etcd_lock_response_t *response,
    u_char *p, u_char *last)
{
    u_char  c;

    while (p < last) {
        c = *p++;

        if (response->len < NGX_HTTP_ETCD_LOCK_RESPONSE_UNIT) {
            response->unit[response->len++] = c;
        }

        switch (response->state) {

        case NGX_HTTP_ETCD_LOCK_RESPONSE_FRAME:
            if (response->len == NGX_HTTP_ETCD_LOCK_FRAME) {
                ngx_http_etcd_lock_response_frame(response);
                return p;
            }

            break;

        case NGX_HTTP_ETCD_LOCK_RESPONSE_RECORD:
            if (response->len == NGX_HTTP_ETCD_LOCK_RECORD) {
                ngx_http_etcd_lock_response_record(response);
                return p;
            }

            break;

        default:
            if (c == LF) {
                ngx_http_etcd_lock_response_line(response);
                return p;
            }
        }
    }

    return p;
}


void
ngx_http_etcd_lock_response_read(ngx_http_etcd_lock_response_t *response,
    u_char *p, size_t size)
{
    off_t    n;
    u_char  *last;

    last = p + size;

    while (p < last) {

        if (response->skip != 0) {
            n = ngx_min(response->skip, last - p);

            response->skip -= n;
            p += n;

            if (response->skip == 0
                && response->state == NGX_HTTP_ETCD_LOCK_RESPONSE_LENGTH)
            {
                response->state = NGX_HTTP_ETCD_LOCK_RESPONSE_ENDED;
            }

            continue;
        }

        switch (response->state) {

        case NGX_HTTP_ETCD_LOCK_RESPONSE_LAST_CHUNK:
        case NGX_HTTP_ETCD_LOCK_RESPONSE_LAST_RECORD:
            ngx_http_etcd_lock_response_tail(response, p, last);
            return;

        case NGX_HTTP_ETCD_LOCK_RESPONSE_ANY:
            response->len = 1;
            return;

        case NGX_HTTP_ETCD_LOCK_RESPONSE_CLOSE:
        case NGX_HTTP_ETCD_LOCK_RESPONSE_LENGTH:
        case NGX_HTTP_ETCD_LOCK_RESPONSE_ENDED:
            return;

        default:
            p = ngx_http_etcd_lock_response_unit(response, p, last);
        }
    }
}


ngx_uint_t
ngx_http_etcd_lock_response_paused(ngx_http_etcd_lock_response_t *response)
{
    size_t   len;
    u_char  *last;

    len = response->len;
    last = response->unit + len;

    switch (response->state) {

    case NGX_HTTP_ETCD_LOCK_RESPONSE_LAST_CHUNK:
        return len >= 5 && ngx_memcmp(last - 5, "0" CRLF CRLF, 5) == 0;

    case NGX_HTTP_ETCD_LOCK_RESPONSE_LAST_RECORD:
        last -= 2 * NGX_HTTP_ETCD_LOCK_RECORD;

        return len >= 2 * NGX_HTTP_ETCD_LOCK_RECORD
               && last[0] == 1
               && last[1] == NGX_HTTP_ETCD_LOCK_RECORD_END;

    case NGX_HTTP_ETCD_LOCK_RESPONSE_ANY:
        return len != 0 || response->status == NGX_HTTP_SWITCHING_PROTOCOLS;

    default:
        return 0;
    }
}
