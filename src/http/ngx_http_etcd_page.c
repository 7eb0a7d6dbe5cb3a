
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The status as an HTML page that fetches the JSON of the same location.  The
 * page is static: it never contains data from etcd.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_page.h>
#include <ngx_http_etcd_page_text.h>


/*
 * Content-Security-Policy: only the page's own script runs, identified by its
 * hash; the script cannot turn text into elements, and can connect to the
 * page's origin only.
 */

#define NGX_HTTP_ETCD_PAGE_POLICY                                             \
    "default-src 'none'; "                                                    \
    "script-src " NGX_HTTP_ETCD_PAGE_SCRIPT "; "                              \
    "style-src " NGX_HTTP_ETCD_PAGE_STYLE "; "                                \
    "img-src data:; "                                                         \
    "connect-src 'self'; "                                                    \
    "base-uri 'none'; "                                                       \
    "form-action 'none'; "                                                    \
    "frame-ancestors 'none'; "                                                \
    "require-trusted-types-for 'script'; "                                    \
    "trusted-types 'none'"


typedef struct {
    ngx_str_t                  name;
    ngx_str_t                  value;
} ngx_http_etcd_page_header_t;


static ngx_http_etcd_page_header_t  ngx_http_etcd_page_header[] = {

    { ngx_string("Content-Security-Policy"),
      ngx_string(NGX_HTTP_ETCD_PAGE_POLICY) },

    { ngx_string("X-Content-Type-Options"),
      ngx_string("nosniff") },

    { ngx_string("Referrer-Policy"),
      ngx_string("no-referrer") },

    { ngx_string("Cache-Control"),
      ngx_string("no-store") },

    { ngx_string("Vary"),
      ngx_string("Accept") },

    { ngx_null_string, ngx_null_string }
};


static ngx_str_t  ngx_http_etcd_page_html = ngx_string("text/html");


static ngx_int_t
ngx_http_etcd_page_headers(ngx_http_request_t *r)
{
    ngx_table_elt_t              *h;
    ngx_http_etcd_page_header_t  *header;

    for (header = ngx_http_etcd_page_header; header->name.len; header++) {

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


ngx_int_t
ngx_http_etcd_page(ngx_http_request_t *r)
{
    ngx_int_t     rc;
    ngx_buf_t    *b;
    ngx_chain_t   out;

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = sizeof(ngx_http_etcd_page_text) - 1;
    r->headers_out.content_type = ngx_http_etcd_page_html;
    r->headers_out.content_type_len = ngx_http_etcd_page_html.len;
    ngx_str_set(&r->headers_out.charset, "utf-8");

    if (ngx_http_etcd_page_headers(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_ERROR;
    }

    b->pos = ngx_http_etcd_page_text;
    b->last = b->pos + sizeof(ngx_http_etcd_page_text) - 1;
    b->memory = 1;
    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}
