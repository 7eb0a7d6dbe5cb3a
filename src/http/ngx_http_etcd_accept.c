
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The "Accept" header of a request.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_str.h>
#include <ngx_http_etcd_accept.h>


/* a media range of the header (RFC 9110, section 12.5.1) */

typedef struct {
    ngx_str_t     type;
    ngx_str_t     version;
    ngx_uint_t    quality;      /* 0 .. 1000 */
} ngx_http_etcd_range_t;


typedef struct {
    ngx_uint_t    exact;        /* specificity; 0: no match yet */
    ngx_uint_t    quality;
} ngx_http_etcd_match_t;


/* Splits off the text before "end" and trims spaces. */

static ngx_str_t
ngx_http_etcd_accept_word(ngx_str_t *text, u_char end)
{
    size_t     n;
    ngx_str_t  word;

    for (n = 0; n < text->len && text->data[n] != end; n++) { /* void */ }

    word.data = text->data;
    word.len = n;

    n = ngx_min(n + 1, text->len);
    text->data += n;
    text->len -= n;

    while (word.len != 0 && (word.data[0] == ' ' || word.data[0] == '\t')) {
        word.data++;
        word.len--;
    }

    while (word.len != 0
           && (word.data[word.len - 1] == ' '
               || word.data[word.len - 1] == '\t'))
    {
        word.len--;
    }

    return word;
}


static void
ngx_http_etcd_accept_range(ngx_str_t text, ngx_http_etcd_range_t *range)
{
    ngx_int_t  quality;
    ngx_str_t  name, value;

    range->type = ngx_http_etcd_accept_word(&text, ';');
    range->quality = 1000;
    ngx_str_null(&range->version);

    while (text.len != 0) {
        value = ngx_http_etcd_accept_word(&text, ';');
        name = ngx_http_etcd_accept_word(&value, '=');

        if (name.len == 1 && (name.data[0] | 0x20) == 'q') {
            quality = ngx_atofp(value.data, value.len, 3);
            range->quality = (quality >= 0 && quality <= 1000) ? quality : 0;

        } else if (name.len == sizeof("version") - 1
                   && ngx_strncasecmp(name.data, (u_char *) "version",
                                      name.len)
                      == 0)
        {
            range->version = value;
        }
    }
}


/* Returns the specificity; 0: the type is not in the range. */

static ngx_uint_t
ngx_http_etcd_accept_exact(ngx_http_etcd_range_t *range, const ngx_str_t *type,
    const ngx_str_t *version)
{
    size_t      n;
    ngx_str_t  *given;

    given = &range->type;

    if (ngx_etcd_str_is(given, "*/*")) {
        return 1;
    }

    n = given->len;

    if (n > 2 && given->data[n - 2] == '/' && given->data[n - 1] == '*') {
        return (type->len > n
                && ngx_strncasecmp(given->data, type->data, n - 1) == 0)
               ? 2 : 0;
    }

    if (!ngx_etcd_str_alike(given, type)) {
        return 0;
    }

    if (range->version.len == 0) {
        return 3;
    }

    return ngx_etcd_str_equal(&range->version, version) ? 4 : 0;
}


/* Of all ranges that match a type, the most specific one counts. */

static void
ngx_http_etcd_accept_header(ngx_str_t *header, const ngx_str_t *type,
    const ngx_str_t *version, ngx_http_etcd_match_t *match)
{
    ngx_str_t               text;
    ngx_uint_t              exact;
    ngx_http_etcd_range_t   range;

    text = *header;

    while (text.len != 0) {
        ngx_http_etcd_accept_range(ngx_http_etcd_accept_word(&text, ','),
                                   &range);

        exact = ngx_http_etcd_accept_exact(&range, type, version);

        if (exact > match->exact) {
            match->exact = exact;
            match->quality = range.quality;
        }
    }
}


ngx_uint_t
ngx_http_etcd_accept(ngx_http_request_t *r, const ngx_str_t *type,
    const ngx_str_t *version)
{
    ngx_uint_t              i, found;
    ngx_list_part_t        *part;
    ngx_table_elt_t        *h;
    ngx_http_etcd_match_t   match;

    ngx_memzero(&match, sizeof(ngx_http_etcd_match_t));
    found = 0;

    for (part = &r->headers_in.headers.part; part != NULL; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (h[i].key.len == sizeof("Accept") - 1
                && ngx_strncasecmp(h[i].key.data, (u_char *) "Accept",
                                   sizeof("Accept") - 1)
                   == 0)
            {
                found = 1;
                ngx_http_etcd_accept_header(&h[i].value, type, version,
                                            &match);
            }
        }
    }

    return found ? match.quality : 1000;
}
