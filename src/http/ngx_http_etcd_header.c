
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_header.h>


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
