
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check_directive.h>
#include <ngx_etcd_ssl_module.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_version.h>


#define NGX_ETCD_CHECK_DIRECTIVE_COUNT   65535
#define NGX_ETCD_CHECK_DIRECTIVE_TIME    86400000   /* ms */

#define NGX_ETCD_CHECK_DIRECTIVE_AGENT   "nginx-etcd/" NGX_ETCD_VERSION

/* types of checks that have a parameter; those that need "ssl" */

#define NGX_ETCD_FOR_TCP     (1 << NGX_ETCD_CHECK_TCP)
#define NGX_ETCD_FOR_HTTP    (1 << NGX_ETCD_CHECK_HTTP)
#define NGX_ETCD_FOR_GRPC    (1 << NGX_ETCD_CHECK_GRPC)
#define NGX_ETCD_FOR_ANY                                                      \
    (NGX_ETCD_FOR_TCP|NGX_ETCD_FOR_HTTP|NGX_ETCD_FOR_GRPC)
#define NGX_ETCD_FOR_SSL     0x100
#define NGX_ETCD_MANY        0x200


typedef struct {
    ngx_conf_t               *cf;
    ngx_etcd_check_conf_t    *check;
    ngx_str_t                *name;         /* of the upstream */
    ngx_uint_t                seen;         /* bits of parameters */
    ngx_str_t                 value;        /* of the present one */
    ngx_uint_t                verify;
    ngx_str_t                 uri;
    ngx_str_t                 host;
    ngx_array_t               headers;      /* ngx_str_t: whole lines */
} ngx_etcd_check_directive_t;


/* Returns what is wrong, or NULL. */

typedef char *(*ngx_etcd_check_directive_pt)(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number);

typedef struct {
    ngx_str_t                     name;     /* with "=", if it has a value */
    ngx_uint_t                    types;
    ngx_etcd_check_directive_pt   set;
    size_t                        offset;   /* of a number in the check */
} ngx_etcd_check_directive_param_t;


static char *ngx_etcd_check_directive_time(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number);
static char *ngx_etcd_check_directive_count(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number);
static char *ngx_etcd_check_directive_mandatory(
    ngx_etcd_check_directive_t *dir, ngx_str_t *value, ngx_uint_t *number);
static char *ngx_etcd_check_directive_share(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number);
static char *ngx_etcd_check_directive_port(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number);
static char *ngx_etcd_check_directive_uri(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number);
static char *ngx_etcd_check_directive_status(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number);
static char *ngx_etcd_check_directive_match(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number);
static char *ngx_etcd_check_directive_host(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number);
static char *ngx_etcd_check_directive_header(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number);
static char *ngx_etcd_check_directive_service(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number);
static char *ngx_etcd_check_directive_ssl(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number);
static char *ngx_etcd_check_directive_ssl_name(
    ngx_etcd_check_directive_t *dir, ngx_str_t *value, ngx_uint_t *number);
static char *ngx_etcd_check_directive_verify(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number);
static char *ngx_etcd_check_directive_trusted(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number);


static ngx_str_t  ngx_etcd_check_directive_types[] = {
    ngx_string("tcp"),
    ngx_string("http"),
    ngx_string("grpc"),
    ngx_null_string
};


static ngx_etcd_check_directive_param_t  ngx_etcd_check_directive_params[] = {

    { ngx_string("interval="), NGX_ETCD_FOR_ANY,
      ngx_etcd_check_directive_time,
      offsetof(ngx_etcd_check_conf_t, interval) },
    { ngx_string("fast="), NGX_ETCD_FOR_ANY,
      ngx_etcd_check_directive_time,
      offsetof(ngx_etcd_check_conf_t, fast) },
    { ngx_string("timeout="), NGX_ETCD_FOR_ANY,
      ngx_etcd_check_directive_time,
      offsetof(ngx_etcd_check_conf_t, timeout) },
    { ngx_string("rises="), NGX_ETCD_FOR_ANY,
      ngx_etcd_check_directive_count,
      offsetof(ngx_etcd_check_conf_t, rises) },
    { ngx_string("fails="), NGX_ETCD_FOR_ANY,
      ngx_etcd_check_directive_count,
      offsetof(ngx_etcd_check_conf_t, fails) },
    { ngx_string("mandatory"), NGX_ETCD_FOR_ANY,
      ngx_etcd_check_directive_mandatory, 0 },
    { ngx_string("panic="), NGX_ETCD_FOR_ANY,
      ngx_etcd_check_directive_share,
      offsetof(ngx_etcd_check_conf_t, panic) },
    { ngx_string("jitter="), NGX_ETCD_FOR_ANY,
      ngx_etcd_check_directive_share,
      offsetof(ngx_etcd_check_conf_t, jitter) },
    { ngx_string("port="), NGX_ETCD_FOR_ANY,
      ngx_etcd_check_directive_port, 0 },

    { ngx_string("uri="), NGX_ETCD_FOR_HTTP,
      ngx_etcd_check_directive_uri, 0 },
    { ngx_string("status="), NGX_ETCD_FOR_HTTP,
      ngx_etcd_check_directive_status, 0 },
    { ngx_string("match="), NGX_ETCD_FOR_HTTP,
      ngx_etcd_check_directive_match, 0 },
    { ngx_string("host="), NGX_ETCD_FOR_HTTP|NGX_ETCD_FOR_GRPC,
      ngx_etcd_check_directive_host, 0 },
    { ngx_string("header="), NGX_ETCD_FOR_HTTP|NGX_ETCD_MANY,
      ngx_etcd_check_directive_header, 0 },

    { ngx_string("service="), NGX_ETCD_FOR_GRPC,
      ngx_etcd_check_directive_service, 0 },

    { ngx_string("ssl"), NGX_ETCD_FOR_ANY,
      ngx_etcd_check_directive_ssl, 0 },
    { ngx_string("ssl_name="), NGX_ETCD_FOR_ANY|NGX_ETCD_FOR_SSL,
      ngx_etcd_check_directive_ssl_name, 0 },
    { ngx_string("ssl_verify="), NGX_ETCD_FOR_ANY|NGX_ETCD_FOR_SSL,
      ngx_etcd_check_directive_verify, 0 },
    { ngx_string("ssl_trusted_certificate="),
      NGX_ETCD_FOR_ANY|NGX_ETCD_FOR_SSL,
      ngx_etcd_check_directive_trusted, 0 },

    { ngx_null_string, 0, NULL, 0 }
};


static ngx_int_t
ngx_etcd_check_directive_type(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value)
{
    ngx_uint_t   i;
    ngx_str_t   *types;

    types = ngx_etcd_check_directive_types;

    for (i = 0; types[i].len != 0; i++) {
        if (ngx_etcd_str_equal(value, &types[i])) {
            dir->check->type = i;
            return NGX_OK;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, dir->cf, 0,
                       "unknown type of check \"%V\", there are: "
                       NGX_ETCD_CHECK_DIRECTIVE_TYPES, value);

    return NGX_ERROR;
}


static char *
ngx_etcd_check_directive_wrong(ngx_etcd_check_directive_t *dir,
    ngx_etcd_check_directive_param_t *param, ngx_str_t *value)
{
    u_char      *number;
    ngx_uint_t   bit;

    if (!(param->types & (1 << dir->check->type))) {
        return "it is for another type of check";
    }

    bit = 1 << (param - ngx_etcd_check_directive_params);

    if ((dir->seen & bit) && !(param->types & NGX_ETCD_MANY)) {
        return "it is duplicate";
    }

    dir->seen |= bit;

    if ((param->types & NGX_ETCD_FOR_SSL) && dir->check->ssl == NULL) {
        return "it needs \"ssl\" before it";
    }

    dir->value.data = value->data + param->name.len;
    dir->value.len = value->len - param->name.len;

    number = (u_char *) dir->check + param->offset;

    return param->set(dir, &dir->value, (ngx_uint_t *) number);
}


static ngx_int_t
ngx_etcd_check_directive_param(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value)
{
    char                              *wrong;
    ngx_etcd_check_directive_param_t  *param;

    for (param = ngx_etcd_check_directive_params; param->name.len; param++) {

        if (ngx_strncmp(value->data, param->name.data, param->name.len) == 0
            && (param->name.data[param->name.len - 1] == '='
                || value->len == param->name.len))
        {
            break;
        }
    }

    wrong = (param->name.len != 0)
            ? ngx_etcd_check_directive_wrong(dir, param, value)
            : "there is no such parameter";

    if (wrong == NULL) {
        return NGX_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, dir->cf, 0,
                       "invalid parameter \"%V\": %s", ngx_etcd_shown(value),
                       wrong);

    return NGX_ERROR;
}


static ngx_int_t
ngx_etcd_check_directive_load(ngx_etcd_check_directive_t *dir)
{
    ngx_etcd_ssl_t  *ssl;

    ssl = dir->check->ssl;

    ssl->verify = dir->verify;
    ssl->verify_depth = 1;
    ssl->protocols = NGX_SSL_TLSv1_2|NGX_SSL_TLSv1_3;
    ssl->http1 = (dir->check->type != NGX_ETCD_CHECK_GRPC);

    ssl->ciphers.directive = "etcd_check";
    ssl->ciphers.file = dir->cf->conf_file->file.name.data;
    ssl->ciphers.line = dir->cf->conf_file->line;

    if (ssl->verify && ssl->files[NGX_ETCD_SSL_TRUSTED].value.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, dir->cf, 0,
                           "\"etcd_check\" has no "
                           "\"ssl_trusted_certificate=\" to verify members by");
        return NGX_ERROR;
    }

    return ngx_etcd_ssl_module_load(dir->cf, ssl);
}


static ngx_int_t
ngx_etcd_check_directive_request(ngx_etcd_check_directive_t *dir)
{
    size_t       len;
    u_char      *p;
    ngx_str_t   *header, *request;
    ngx_uint_t   i;

    header = dir->headers.elts;

    len = sizeof("GET  HTTP/1.1" CRLF "Host: " CRLF
                 "User-Agent: " NGX_ETCD_CHECK_DIRECTIVE_AGENT CRLF
                 "Connection: close" CRLF CRLF)
          + dir->uri.len + dir->host.len;

    for (i = 0; i < dir->headers.nelts; i++) {
        len += header[i].len + 2;
    }

    p = ngx_pnalloc(dir->cf->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    request = &dir->check->request;
    request->data = p;

    p = ngx_sprintf(p, "GET %V HTTP/1.1" CRLF "Host: %V" CRLF
                    "User-Agent: " NGX_ETCD_CHECK_DIRECTIVE_AGENT CRLF
                    "Connection: close" CRLF, &dir->uri, &dir->host);

    for (i = 0; i < dir->headers.nelts; i++) {
        p = ngx_sprintf(p, "%V" CRLF, &header[i]);
    }

    p = ngx_sprintf(p, CRLF);

    request->len = p - request->data;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_check_directive_done(ngx_etcd_check_directive_t *dir)
{
    ngx_etcd_check_conf_t  *check;

    check = dir->check;

    if (check->timeout > check->interval) {
        ngx_conf_log_error(NGX_LOG_EMERG, dir->cf, 0,
                           "\"timeout\" of \"etcd_check\" is longer than its "
                           "\"interval\"");
        return NGX_ERROR;
    }

    if (check->fast > check->interval) {
        ngx_conf_log_error(NGX_LOG_EMERG, dir->cf, 0,
                           "\"fast\" of \"etcd_check\" is longer than its "
                           "\"interval\"");
        return NGX_ERROR;
    }

    if (dir->host.len == 0) {
        dir->host = *dir->name;
    }

    check->authority = dir->host;

    if (check->ssl_name.len == 0) {
        check->ssl_name = dir->host;
    }

    if (check->ssl != NULL && ngx_etcd_check_directive_load(dir) != NGX_OK) {
        return NGX_ERROR;
    }

    return (check->type == NGX_ETCD_CHECK_HTTP)
           ? ngx_etcd_check_directive_request(dir) : NGX_OK;
}


ngx_etcd_check_conf_t *
ngx_etcd_check_directive(ngx_conf_t *cf, ngx_str_t *upstream)
{
    ngx_str_t                   *value;
    ngx_uint_t                   i;
    ngx_etcd_check_conf_t       *check;
    ngx_etcd_check_directive_t   dir;

    check = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_check_conf_t));
    if (check == NULL) {
        return NULL;
    }

    check->interval = 5000;
    check->timeout = 1000;
    check->rises = 2;
    check->fails = 3;
    check->panic = 50;
    check->jitter = 10;
    check->lowest = 200;
    check->highest = 399;

    ngx_memzero(&dir, sizeof(ngx_etcd_check_directive_t));

    dir.cf = cf;
    dir.check = check;
    dir.name = upstream;
    dir.verify = 1;

    ngx_str_set(&dir.uri, "/");

    value = cf->args->elts;

    if (ngx_array_init(&dir.headers, cf->pool, 1, sizeof(ngx_str_t)) != NGX_OK
        || ngx_etcd_check_directive_type(&dir, &value[1]) != NGX_OK)
    {
        return NULL;
    }

    for (i = 2; i < cf->args->nelts; i++) {
        if (ngx_etcd_check_directive_param(&dir, &value[i]) != NGX_OK) {
            return NULL;
        }
    }

    return (ngx_etcd_check_directive_done(&dir) == NGX_OK) ? check : NULL;
}


static char *
ngx_etcd_check_directive_time(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
    ngx_int_t  time;

    time = ngx_parse_time(value, 0);

    if (time < NGX_ETCD_CHECK_TIME || time > NGX_ETCD_CHECK_DIRECTIVE_TIME) {
        return "it takes a time of 10ms to 1d";
    }

    *number = time;

    return NULL;
}


static char *
ngx_etcd_check_directive_number(ngx_str_t *value, ngx_uint_t *n,
    ngx_int_t least, ngx_int_t most)
{
    ngx_int_t  number;

    number = ngx_atoi(value->data, value->len);

    if (number == NGX_ERROR || number < least || number > most) {
        return "the number is out of range";
    }

    *n = number;

    return NULL;
}


static char *
ngx_etcd_check_directive_count(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
    return ngx_etcd_check_directive_number(value, number, 1,
                                           NGX_ETCD_CHECK_DIRECTIVE_COUNT);
}


static char *
ngx_etcd_check_directive_mandatory(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
    dir->check->mandatory = 1;

    return NULL;
}


/* "50%", and "0" */

static char *
ngx_etcd_check_directive_share(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
    ngx_str_t  text;

    text = *value;

    if (text.len > 1 && text.data[text.len - 1] == '%') {
        text.len--;

    } else if (text.len != 1 || text.data[0] != '0') {
        return "it takes a number and \"%\"";
    }

    return ngx_etcd_check_directive_number(&text, number, 0, 100);
}


static char *
ngx_etcd_check_directive_port(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
    char        *wrong;
    ngx_uint_t   port;

    wrong = ngx_etcd_check_directive_number(value, &port, 1, 65535);

    if (wrong == NULL) {
        dir->check->port = (in_port_t) port;
    }

    return wrong;
}


static ngx_uint_t
ngx_etcd_check_directive_visible(ngx_str_t *value)
{
    size_t  i;

    for (i = 0; i < value->len; i++) {
        if (value->data[i] <= 0x20 || value->data[i] >= 0x7f) {
            return 0;
        }
    }

    return 1;
}


static char *
ngx_etcd_check_directive_uri(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
    if (value->len == 0 || value->data[0] != '/') {
        return "it does not begin with \"/\"";
    }

    if (!ngx_etcd_check_directive_visible(value)) {
        return "spaces and other bytes have to be escaped";
    }

    dir->uri = *value;

    return NULL;
}


/* A status, or the first and the last one of several. */

static char *
ngx_etcd_check_directive_status(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
    u_char                 *p, *last;
    ngx_int_t               low, high;
    ngx_etcd_check_conf_t  *check;

    check = dir->check;
    last = value->data + value->len;

    p = ngx_strlchr(value->data, last, '-');

    low = ngx_atoi(value->data, (p ? p : last) - value->data);
    high = p ? ngx_atoi(p + 1, last - p - 1) : low;

    if (low < 100 || high > 599 || high < low) {
        return "it takes a status of 100 to 599, or two as in \"200-399\"";
    }

    check->lowest = low;
    check->highest = high;

    return NULL;
}


static char *
ngx_etcd_check_directive_match(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
#if (NGX_PCRE)
    u_char                errstr[NGX_MAX_CONF_ERRSTR];
    ngx_regex_compile_t   rc;
#endif

    dir->check->match = *value;

    if (value->len == 0) {
        return "it is empty";
    }

    if (value->data[0] != '~') {
        return NULL;
    }

#if (NGX_PCRE)

    ngx_memzero(&rc, sizeof(ngx_regex_compile_t));

    rc.pattern.data = value->data + 1;
    rc.pattern.len = value->len - 1;
    rc.pool = dir->cf->pool;
    rc.err.len = NGX_MAX_CONF_ERRSTR;
    rc.err.data = errstr;

    if (rc.pattern.len == 0) {
        return "the expression is empty";
    }

    if (ngx_regex_compile(&rc) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, dir->cf, 0, "%V", &rc.err);
        return "the expression is invalid";
    }

    dir->check->regex = rc.regex;

    return NULL;

#else

    return "regular expressions need an nginx with PCRE";

#endif
}


static char *
ngx_etcd_check_directive_host(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
    if (value->len == 0 || !ngx_etcd_check_directive_visible(value)) {
        return "it is not a host name";
    }

    dir->host = *value;

    return NULL;
}


static ngx_uint_t
ngx_etcd_check_directive_token(ngx_str_t *name)
{
    u_char  *p, *last;

    if (name->len == 0) {
        return 0;
    }

    last = name->data + name->len;

    for (p = name->data; p < last; p++) {
        if (!((*p >= '0' && *p <= '9') || (*p >= 'A' && *p <= 'Z')
              || (*p >= 'a' && *p <= 'z') || *p == '-' || *p == '_'))
        {
            return 0;
        }
    }

    return 1;
}


static ngx_uint_t
ngx_etcd_check_directive_own(ngx_str_t *name)
{
    ngx_uint_t  i;

    static ngx_str_t  own[] = {
        ngx_string("Host"), ngx_string("Connection"),
        ngx_string("Content-Length"), ngx_string("Transfer-Encoding"),
        ngx_null_string
    };

    for (i = 0; own[i].len != 0; i++) {
        if (ngx_etcd_str_alike(name, &own[i])) {
            return 1;
        }
    }

    return 0;
}


/* No line of a request may come from here that is not one header. */

static char *
ngx_etcd_check_directive_header(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
    u_char     *p, *last;
    ngx_str_t  *header, name, text;

    if (!ngx_etcd_str_cut(value, ':', &name, &text)
        || !ngx_etcd_check_directive_token(&name))
    {
        return "it takes a name, \":\", and a value";
    }

    if (ngx_etcd_check_directive_own(&name)) {
        return "the header is set by the check";
    }

    last = text.data + text.len;

    for (p = text.data; p < last; p++) {
        if ((*p < 0x20 && *p != '\t') || *p == 0x7f) {
            return "the value has a control character";
        }
    }

    header = ngx_array_push(&dir->headers);
    if (header == NULL) {
        return "no memory";
    }

    *header = *value;

    return NULL;
}


static char *
ngx_etcd_check_directive_service(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
    dir->check->service = *value;

    return NULL;
}


static char *
ngx_etcd_check_directive_ssl(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
    dir->check->ssl = ngx_pcalloc(dir->cf->pool, sizeof(ngx_etcd_ssl_t));

    return (dir->check->ssl != NULL) ? NULL : "no memory";
}


static char *
ngx_etcd_check_directive_ssl_name(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
    dir->check->ssl_name = *value;

    return value->len ? NULL : "it is empty";
}


static char *
ngx_etcd_check_directive_verify(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
    if (ngx_strcmp(value->data, "on") == 0) {
        return NULL;
    }

    dir->verify = 0;

    return (ngx_strcmp(value->data, "off") == 0) ? NULL
                                                 : "it is neither on nor off";
}


static char *
ngx_etcd_check_directive_trusted(ngx_etcd_check_directive_t *dir,
    ngx_str_t *value, ngx_uint_t *number)
{
    ngx_etcd_ssl_option_t  *option;

    option = &dir->check->ssl->files[NGX_ETCD_SSL_TRUSTED];

    option->value = *value;
    option->directive = "ssl_trusted_certificate=";
    option->file = dir->cf->conf_file->file.name.data;
    option->line = dir->cf->conf_file->line;

    if (value->len == 0) {
        return "it is empty";
    }

    return (ngx_conf_full_name(dir->cf->cycle, &option->value, 1) == NGX_OK)
           ? NULL : "no memory";
}
