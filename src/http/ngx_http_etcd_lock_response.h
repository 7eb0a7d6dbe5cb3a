
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Finds the end of a response in the data that an upstream sends.  The data is
 * not kept.  An interim response (1xx) and the frames of a connection (SETTINGS
 * of HTTP/2) are no response, and a response that has begun has not ended.
 *
 * The end is exact in HTTP/1 by a length or by chunks, in HTTP/2 by END_STREAM
 * and in FastCGI by END_REQUEST.  If nginx has read the response up to an
 * unknown place in a chunk or record, the last bytes before a pause tell.  In
 * all other cases the response ends when the upstream closes its connection.
 */


#ifndef _NGX_HTTP_ETCD_LOCK_RESPONSE_H_INCLUDED_
#define _NGX_HTTP_ETCD_LOCK_RESPONSE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* a line of a header is longer: its beginning is enough */

#define NGX_HTTP_ETCD_LOCK_RESPONSE_UNIT  64


typedef enum {
    NGX_HTTP_ETCD_LOCK_RESPONSE_CLOSE = 0,  /* ends with the connection */
    NGX_HTTP_ETCD_LOCK_RESPONSE_STATUS,     /* HTTP/1: lines */
    NGX_HTTP_ETCD_LOCK_RESPONSE_HEADER,
    NGX_HTTP_ETCD_LOCK_RESPONSE_CHUNK,
    NGX_HTTP_ETCD_LOCK_RESPONSE_TRAILER,
    NGX_HTTP_ETCD_LOCK_RESPONSE_LENGTH,     /* ends after "skip" bytes */
    NGX_HTTP_ETCD_LOCK_RESPONSE_FRAME,      /* HTTP/2 */
    NGX_HTTP_ETCD_LOCK_RESPONSE_RECORD,     /* FastCGI */
    NGX_HTTP_ETCD_LOCK_RESPONSE_LAST_CHUNK, /* the place is unknown */
    NGX_HTTP_ETCD_LOCK_RESPONSE_LAST_RECORD,
    NGX_HTTP_ETCD_LOCK_RESPONSE_ANY,        /* another protocol, a tunnel */
    NGX_HTTP_ETCD_LOCK_RESPONSE_ENDED
} ngx_http_etcd_lock_response_state_e;


typedef struct {
    ngx_http_etcd_lock_response_state_e  state;
    off_t                                skip;    /* bytes */
    off_t                                length;  /* of the body; -1: unknown */
    ngx_uint_t                           status;
    size_t                               len;
    u_char                               unit[NGX_HTTP_ETCD_LOCK_RESPONSE_UNIT];
    unsigned                             head:1;  /* the method is HEAD */
    unsigned                             chunked:1;
} ngx_http_etcd_lock_response_t;


/* Goes on where nginx has stopped to read the response to the request. */
void ngx_http_etcd_lock_response_init(ngx_http_etcd_lock_response_t *response,
    ngx_http_request_t *r);

void ngx_http_etcd_lock_response_read(ngx_http_etcd_lock_response_t *response,
    u_char *p, size_t size);

/* If the upstream sends nothing for a while now, has the response ended? */
ngx_uint_t ngx_http_etcd_lock_response_paused(
    ngx_http_etcd_lock_response_t *response);


#define ngx_http_etcd_lock_response_ended(response)                           \
    ((response)->state == NGX_HTTP_ETCD_LOCK_RESPONSE_ENDED)


#endif /* _NGX_HTTP_ETCD_LOCK_RESPONSE_H_INCLUDED_ */
