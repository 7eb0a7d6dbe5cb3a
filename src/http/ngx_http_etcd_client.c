
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_client.h>
#include <ngx_etcd_str.h>


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
 * The client of HTTP/3 closes its side of the stream with every request; in
 * HTTP/2 a reset of the stream is an error of its connection.
 */

ngx_uint_t
ngx_http_etcd_client_left(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    c = r->connection;

    if (c->error) {
        return 1;
    }

    if (ngx_http_etcd_is_quic(c)) {
        return c->read->error || c->write->error;
    }

#if (NGX_HTTP_V2)

    if (r->stream) {
        return 0;
    }

#endif

    return c->read->pending_eof;
}


/*
 * A server must not wait for the missing part of a body, and must not take what
 * there is for all of the body.  As with nginx's own error pages of a URI, the
 * method becomes GET: a PUT of nothing would do harm.
 */

static void
ngx_http_etcd_client_empty_body(ngx_http_request_t *r)
{
    ngx_uint_t                  i;
    ngx_http_variable_t        *var;
    ngx_http_request_body_t    *rb;
    ngx_http_core_loc_conf_t   *clcf;
    ngx_http_core_main_conf_t  *cmcf;

    rb = r->request_body;

    rb->bufs = NULL;
    rb->temp_file = NULL;
    rb->rest = 0;

    r->reading_body = 0;
    r->request_body_no_buffering = 0;

    r->headers_in.chunked = 0;
    r->headers_in.content_length_n = 0;

    if (r->headers_in.content_length != NULL) {
        ngx_str_set(&r->headers_in.content_length->value, "0");
    }

    /* nginx caches $content_length, which FastCGI and gRPC are told */

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);
    var = cmcf->variables.elts;

    for (i = 0; i < cmcf->variables.nelts; i++) {

        if (ngx_etcd_str_is(&var[i].name, "content_length")) {
            r->variables[i].valid = 0;
            r->variables[i].not_found = 0;
        }
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (clcf->error_pages != NULL && r->method != NGX_HTTP_HEAD) {
        r->method = NGX_HTTP_GET;
        r->method_name = ngx_http_core_get_method;
    }
}


/*
 * nginx discards a body only if nothing has begun to read the body.  If
 * something has, the rest must not be taken for another request, so a
 * connection of HTTP/1 is closed after the answer.  The end of the body must
 * not continue the request that was refused, while an error page is awaited.
 * An unbuffered body is gone even if nginx has read all of the body.
 */

void
ngx_http_etcd_client_skip_body(ngx_http_request_t *r)
{
    ngx_http_request_body_t  *rb;

    rb = r->request_body;

    if (r != r->main
        || rb == NULL
        || (rb->last_saved && !r->request_body_no_buffering)
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

    ngx_http_etcd_client_empty_body(r);
}


ngx_int_t
ngx_http_etcd_header_add(ngx_http_request_t *r, ngx_http_etcd_header_t *header)
{
    ngx_table_elt_t  *h;

    for ( /* void */ ; header->name.len != 0; header++) {

        h = ngx_list_push(&r->headers_out.headers);
        if (h == NULL) {
            return NGX_ERROR;
        }

        ngx_memzero(h, sizeof(ngx_table_elt_t));

        h->hash = 1;
        h->key = header->name;
        h->value = header->value;
    }

    return NGX_OK;
}
