
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The "etcd_status" directive: selects the format of the response.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_metrics.h>
#include <ngx_etcd_status_json.h>
#include <ngx_etcd_str.h>
#include <ngx_http_etcd_accept.h>
#include <ngx_http_etcd_output.h>
#include <ngx_http_etcd_page.h>
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


/* the arguments of a request: one upstream, and some of its sets */

typedef struct {
    ngx_str_t                      only;
    ngx_str_t                      like;
    uint32_t                       after;
} ngx_http_etcd_status_asked_t;


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
    const ngx_http_etcd_format_t *format, ngx_http_etcd_status_asked_t *asked)
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


static ngx_int_t
ngx_http_etcd_status_headers(ngx_http_request_t *r,
    const ngx_http_etcd_format_t *format)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    ngx_http_etcd_header_alone(h);
    ngx_str_set(&h->key, "Cache-Control");
    ngx_str_set(&h->value, "no-store");

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = -1;
    r->headers_out.content_type = format->content_type;

    /* without the parameters: the gzip filter compares the type */

    r->headers_out.content_type_len = format->type.len;

    return NGX_OK;
}


static ngx_int_t
ngx_http_etcd_status_send(ngx_http_request_t *r,
    const ngx_http_etcd_format_t *format)
{
    ngx_int_t                      rc;
    ngx_etcd_status_t             *status;
    ngx_etcd_main_conf_t          *emcf;
    ngx_http_etcd_loc_conf_t      *elcf;
    ngx_http_etcd_status_asked_t   asked;

    rc = ngx_http_etcd_status_asked(r, format, &asked);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_http_etcd_status_headers(r, format) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

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
    status->only = asked.only;
    status->like = asked.like;
    status->after = asked.after;

    if (format->parts == ngx_etcd_metrics && status->like.len != 0) {
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


static ngx_int_t
ngx_http_etcd_status_parameter(ngx_conf_t *cf,
    ngx_http_etcd_status_conf_t *conf, ngx_uint_t i)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_strcmp(value[i].data, "members=on") == 0) {
        conf->members = 1;
        return NGX_OK;
    }

    if (ngx_strcmp(value[i].data, "members=off") == 0) {
        conf->members = 0;
        return NGX_OK;
    }

    if (ngx_strchr(value[i].data, '=') != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\", there are: members=on, "
                           "members=off", &value[i]);
        return NGX_ERROR;
    }

    if (ngx_http_etcd_status_find(&value[i]) == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid status format \"%V\", there are: json, "
                           "html, prometheus", &value[i]);
        return NGX_ERROR;
    }

    if (i != 1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "status format \"%V\" %s", &value[i],
                           conf->format.len ? "is the second one"
                                            : "is not the first parameter");
        return NGX_ERROR;
    }

    conf->format = value[i];

    return NGX_OK;
}


char *
ngx_http_etcd_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_etcd_loc_conf_t *elcf = conf;

    ngx_uint_t                 i;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->handler == ngx_http_etcd_status_handler) {
        return "is duplicate";
    }

    clcf->handler = ngx_http_etcd_status_handler;
    elcf->status.members = 0;

    for (i = 1; i < cf->args->nelts; i++) {
        if (ngx_http_etcd_status_parameter(cf, &elcf->status, i) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


/*
 * A block within the location, such as "if", may process the request and has
 * no handler.
 */

void
ngx_http_etcd_status_merge(ngx_http_etcd_status_conf_t *conf,
    ngx_http_etcd_status_conf_t *prev)
{
    if (conf->members == NGX_CONF_UNSET_UINT) {
        *conf = *prev;
    }
}
