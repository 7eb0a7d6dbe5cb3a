
/*
 * Copyright (C) nginx-etcd contributors
 *
 * An answer of HTTP/1.0 or HTTP/1.1, read as its bytes arrive: the status and
 * the body, of which chunks are put together in place.
 */


#ifndef _NGX_ETCD_HTTP_ANSWER_H_INCLUDED_
#define _NGX_ETCD_HTTP_ANSWER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef enum {
    NGX_ETCD_HTTP_ANSWER_STATUS = 0,
    NGX_ETCD_HTTP_ANSWER_HEADER,
    NGX_ETCD_HTTP_ANSWER_LENGTH,     /* a body of known length */
    NGX_ETCD_HTTP_ANSWER_CLOSE,      /* a body that ends with the connection */
    NGX_ETCD_HTTP_ANSWER_SIZE,       /* the line before a chunk */
    NGX_ETCD_HTTP_ANSWER_CHUNK,
    NGX_ETCD_HTTP_ANSWER_END,        /* the line after a chunk */
    NGX_ETCD_HTTP_ANSWER_TRAILER,
    NGX_ETCD_HTTP_ANSWER_DONE
} ngx_etcd_http_answer_state_e;


/* All zero before the first byte. */

typedef struct {
    ngx_etcd_http_answer_state_e   state;
    ngx_uint_t                     status;     /* valid behind its line; final,
                                                  if the header is complete */
    size_t                         body;       /* the beginning of the body */
    size_t                         len;        /* of the body so far */

    /* private */

    size_t                         pos;        /* of what is not read yet */
    size_t                         seen;       /* searched for a line end */
    size_t                         rest;       /* of the body, or a chunk */
    unsigned                       sized:1;    /* Content-Length was seen */
    unsigned                       chunked:1;
    unsigned                       coded:1;    /* has another coding */
} ngx_etcd_http_answer_t;


/* 1 if the header is complete */

#define ngx_etcd_http_answer_begun(answer)                                    \
    ((answer)->state > NGX_ETCD_HTTP_ANSWER_HEADER)

/* 1 if the answer is complete when no more will arrive */

#define ngx_etcd_http_answer_closed(answer)                                   \
    ((answer)->state == NGX_ETCD_HTTP_ANSWER_CLOSE                            \
     || (answer)->state == NGX_ETCD_HTTP_ANSWER_DONE)


/*
 * Reads on; "buf" has all "n" bytes that have arrived, and the bytes before
 * are those of the former call.
 *
 *     NGX_OK     the answer is complete,
 *     NGX_AGAIN  more has to arrive, or the connection has to be closed,
 *     NGX_ERROR  this is no answer of HTTP/1.
 */
ngx_int_t ngx_etcd_http_answer(ngx_etcd_http_answer_t *answer, u_char *buf,
    size_t n);


#endif /* _NGX_ETCD_HTTP_ANSWER_H_INCLUDED_ */
