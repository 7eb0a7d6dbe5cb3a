
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_metrics.h>
#include <ngx_etcd_option.h>
#include <ngx_etcd_status_json.h>
#include <ngx_etcd_str.h>
#include <ngx_http_etcd_client.h>
#include <ngx_http_etcd_output.h>
#include <ngx_http_etcd_page_text.h>
#include <ngx_http_etcd_status.h>


/*
 * A format, selected by a name (of the directive or of the "format" argument)
 * or by a media type.  Formats with the same name are distinguished by the
 * type.
 */

typedef struct {
    ngx_str_t                      name;
    ngx_str_t                      type;
    ngx_str_t                      version;     /* of the type, or empty */
    ngx_str_t                      content_type;
    const ngx_etcd_status_part_t  *parts;       /* NULL: the HTML page */
    ngx_uint_t                     openmetrics;
} ngx_http_etcd_format_t;


/* the first one is the default */

static const ngx_http_etcd_format_t  ngx_http_etcd_formats[] = {

    { ngx_string("json"), ngx_string("application/json"), ngx_null_string,
      ngx_string("application/json"),
      ngx_etcd_status_json, 0 },

    { ngx_string("html"), ngx_string("text/html"), ngx_null_string,
      ngx_string("text/html"),
      NULL, 0 },

    { ngx_string("prometheus"), ngx_string("text/plain"), ngx_string("0.0.4"),
      ngx_string("text/plain; version=0.0.4; charset=utf-8"),
      ngx_etcd_metrics, 0 },

    { ngx_string("prometheus"), ngx_string("application/openmetrics-text"),
      ngx_string("1.0.0"),
      ngx_string("application/openmetrics-text; version=1.0.0; "
                 "charset=utf-8"),
      ngx_etcd_metrics, 1 },

    { ngx_null_string, ngx_null_string, ngx_null_string, ngx_null_string,
      NULL, 0 }
};


/*
 * The name of the directive has priority.  With "html" the argument may
 * select "json": the page fetches its data.
 */

static ngx_str_t *
ngx_http_etcd_status_name(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *arg)
{
    ngx_uint_t  page;

    page = ngx_etcd_str_is(name, "html");

    if ((name->len != 0 && !page)
        || ngx_http_arg(r, (u_char *) "format", 6, arg) != NGX_OK)
    {
        return name;
    }

    if (page && !ngx_etcd_str_is(arg, "json")) {
        return name;
    }

    return arg;
}


static const ngx_http_etcd_format_t *
ngx_http_etcd_status_find(ngx_str_t *name)
{
    const ngx_http_etcd_format_t  *f;

    for (f = ngx_http_etcd_formats; f->name.len != 0; f++) {
        if (ngx_etcd_str_equal(&f->name, name)) {
            return f;
        }
    }

    return NULL;
}


/*
 * Selects the format by name, if given; among several by the client's
 * preference.
 */

static ngx_int_t
ngx_http_etcd_status_format(ngx_http_request_t *r, ngx_str_t *name,
    const ngx_http_etcd_format_t **format)
{
    ngx_str_t                      arg;
    ngx_uint_t                     quality, best;
    const ngx_http_etcd_format_t  *f;

    name = ngx_http_etcd_status_name(r, name, &arg);

    *format = (name->len != 0) ? ngx_http_etcd_status_find(name)
                               : ngx_http_etcd_formats;

    if (*format == NULL) {
        return NGX_HTTP_BAD_REQUEST;
    }

    best = 0;

    for (f = ngx_http_etcd_formats; f->name.len != 0; f++) {

        if (name->len != 0 && !ngx_etcd_str_equal(&f->name, name)) {
            continue;
        }

        quality = ngx_http_etcd_accept(r, &f->type, &f->version);

        if (quality > best) {
            best = quality;
            *format = f;
        }
    }

    return NGX_OK;
}


/* An argument of the request, decoded; empty: there is none. */

static ngx_int_t
ngx_http_etcd_status_arg(ngx_http_request_t *r, char *name, ngx_str_t *value)
{
    u_char     *src, *dst;
    ngx_str_t   arg;

    ngx_str_null(value);

    if (ngx_http_arg(r, (u_char *) name, ngx_strlen(name), &arg) != NGX_OK) {
        return NGX_OK;
    }

    dst = ngx_pnalloc(r->pool, arg.len + 1);
    if (dst == NULL) {
        return NGX_ERROR;
    }

    src = arg.data;
    value->data = dst;

    ngx_unescape_uri(&dst, &src, arg.len, 0);

    value->len = dst - value->data;

    return NGX_OK;
}


/* Arguments that would have no effect are refused. */

static ngx_int_t
ngx_http_etcd_status_asked(ngx_http_request_t *r,
    const ngx_http_etcd_format_t *format, ngx_etcd_status_asked_t *asked)
{
    off_t       n;
    ngx_str_t   from;
    ngx_uint_t  json;

    if (ngx_http_etcd_status_arg(r, "upstream", &asked->only) != NGX_OK
        || ngx_http_etcd_status_arg(r, "set", &asked->like) != NGX_OK
        || ngx_http_etcd_status_arg(r, "from", &from) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    json = (format->parts == ngx_etcd_status_json);
    asked->after = 0;

    if (json && asked->like.len != 0 && asked->only.len == 0) {
        return NGX_HTTP_BAD_REQUEST;
    }

    if (from.len == 0) {
        return NGX_OK;
    }

    n = ngx_atoof(from.data, from.len);

    if (!json || asked->only.len == 0 || n == NGX_ERROR
        || n > NGX_MAX_UINT32_VALUE)
    {
        return NGX_HTTP_BAD_REQUEST;
    }

    asked->after = (uint32_t) n;

    return NGX_OK;
}


static ngx_http_etcd_header_t  ngx_http_etcd_status_header[] = {
    { ngx_string("Cache-Control"), ngx_string("no-store") },
    { ngx_null_string, ngx_null_string }
};


static ngx_int_t
ngx_http_etcd_status_send(ngx_http_request_t *r,
    const ngx_http_etcd_format_t *format)
{
    ngx_int_t                  rc;
    ngx_etcd_status_t         *status;
    ngx_etcd_main_conf_t      *emcf;
    ngx_etcd_status_asked_t    asked;
    ngx_http_etcd_loc_conf_t  *elcf;

    rc = ngx_http_etcd_status_asked(r, format, &asked);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_http_etcd_header_add(r, ngx_http_etcd_status_header) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = -1;
    r->headers_out.content_type = format->content_type;

    /* without the parameters: the gzip filter compares the type */

    r->headers_out.content_type_len = format->type.len;

    /*
     * The length is unknown without rendering.  Subrequests for their status
     * alone, as those of "auth_request", have no body.
     */

    if (r->method == NGX_HTTP_HEAD || r->header_only) {
        return ngx_http_send_header(r);
    }

    emcf = ngx_etcd_conf_main(ngx_cycle);

    status = ngx_etcd_status_create(emcf, format->parts,
                                    (ngx_buf_tag_t) &ngx_http_etcd_module,
                                    r->pool);
    if (status == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    status->remaining = (format->parts == ngx_etcd_status_json);
    status->openmetrics = format->openmetrics;
    status->members = elcf->status.members;
    status->asked = asked;

    if (format->parts == ngx_etcd_metrics && asked.like.len != 0) {
        status->parts = ngx_etcd_metrics_set;
    }

    return ngx_http_etcd_output(r, status);
}


static ngx_int_t
ngx_http_etcd_status_handler(ngx_http_request_t *r)
{
    ngx_int_t                      rc;
    ngx_http_etcd_loc_conf_t      *elcf;
    const ngx_http_etcd_format_t  *format;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    rc = ngx_http_etcd_status_format(r, &elcf->status.format, &format);

    if (rc != NGX_OK) {
        return rc;
    }

    if (format->parts == NULL) {
        return ngx_http_etcd_page(r);
    }

    return ngx_http_etcd_status_send(r, format);
}


static char *
ngx_http_etcd_status_parameter(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    ngx_http_etcd_status_conf_t *status = conf;

    ngx_str_t  *first;

    if (ngx_strchr(value->data, '=') != NULL) {
        return "";
    }

    if (ngx_http_etcd_status_find(value) == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid status format \"%V\", there are: json, "
                           "html, prometheus", value);
        return NGX_CONF_ERROR;
    }

    first = cf->args->elts;
    first++;

    if (value->data != first->data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "status format \"%V\" %s", value,
                           status->format.len ? "is the second one"
                                              : "is not the first parameter");
        return NGX_CONF_ERROR;
    }

    status->format = *value;

    return NGX_CONF_OK;
}


static ngx_etcd_option_t  ngx_http_etcd_status_options[] = {

    { .name = ngx_string("members="), .type = NGX_ETCD_OPTION_ENUM,
      .offset = offsetof(ngx_http_etcd_status_conf_t, members),
      .names = ngx_etcd_option_switch },

    { .name = ngx_null_string, .set = ngx_http_etcd_status_parameter }
};


char *
ngx_http_etcd_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_etcd_loc_conf_t *elcf = conf;

    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->handler == ngx_http_etcd_status_handler) {
        return "is duplicate";
    }

    clcf->handler = ngx_http_etcd_status_handler;
    elcf->status.members = 0;

    return (ngx_etcd_option_read(cf, 1, ngx_http_etcd_status_options, NULL,
                                 &elcf->status)
            == NGX_OK)
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/*
 * A block within the location may process the request.  "if" leaves it its
 * handler, "limit_except" needs one of its own.
 */

void
ngx_http_etcd_status_merge(ngx_conf_t *cf, ngx_http_etcd_status_conf_t *prev,
    ngx_http_etcd_status_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->members == NGX_CONF_UNSET_UINT && clcf->noname) {
        *conf = *prev;
    }

    if (clcf->lmt_excpt
        && clcf->handler == NULL
        && conf->members != NGX_CONF_UNSET_UINT)
    {
        clcf->handler = ngx_http_etcd_status_handler;
    }
}


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


static ngx_http_etcd_header_t  ngx_http_etcd_page_header[] = {

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

    if (ngx_http_etcd_header_add(r, ngx_http_etcd_page_header) != NGX_OK) {
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
