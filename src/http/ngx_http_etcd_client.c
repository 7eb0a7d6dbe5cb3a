
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_client.h>


ngx_int_t
ngx_http_etcd_client_watch(ngx_http_request_t *r)
{
    ngx_event_t  *rev;

    rev = r->connection->read;

    if (rev->ready) {
        ngx_post_event(rev, &ngx_posted_events);
        return NGX_OK;
    }

    return ngx_handle_read_event(rev, 0);
}


/*
 * nginx discards a body only if nothing has begun to read the body.  If
 * something has, the rest must not be taken for another request, so a
 * connection of HTTP/1 is closed after the answer.  The end of the body must
 * not continue the request that was refused, while an error page is awaited.
 */

void
ngx_http_etcd_client_skip_body(ngx_http_request_t *r)
{
    ngx_http_request_body_t  *rb;

    rb = r->request_body;

    if (r != r->main
        || rb == NULL
        || rb->last_saved
        || (r->headers_in.content_length_n <= 0 && !r->headers_in.chunked))
    {
        return;
    }

    r->keepalive = 0;
    r->read_event_handler = ngx_http_block_reading;

#if (NGX_HTTP_V2)

    if (r->stream) {
        r->stream->skip_data = 1;
    }

#endif
}
