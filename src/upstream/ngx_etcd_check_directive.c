
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check_directive.h>
#include <ngx_etcd_check_share.h>
#include <ngx_etcd_option.h>
#include <ngx_etcd_ssl_module.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_version.h>


#define NGX_ETCD_CHECK_DIRECTIVE_COUNT   65535
#define NGX_ETCD_CHECK_DIRECTIVE_TIME    86400000   /* ms */

#define NGX_ETCD_CHECK_DIRECTIVE_AGENT   "nginx-etcd/" NGX_ETCD_VERSION

/* contexts: types of checks that have a parameter; those that need "ssl" */

#define NGX_ETCD_FOR_TCP     (1 << NGX_ETCD_CHECK_TCP)
#define NGX_ETCD_FOR_HTTP    (1 << NGX_ETCD_CHECK_HTTP)
#define NGX_ETCD_FOR_GRPC    (1 << NGX_ETCD_CHECK_GRPC)
#define NGX_ETCD_FOR_ANY                                                      \
    (NGX_ETCD_FOR_TCP|NGX_ETCD_FOR_HTTP|NGX_ETCD_FOR_GRPC)
#define NGX_ETCD_FOR_SSL     0x100

#define NGX_ETCD_IN_CHECK    offsetof(ngx_etcd_check_directive_t, check)

#define NGX_ETCD_CHECK_DIRECTIVE_RANGE      "the number is out of range"
#define NGX_ETCD_CHECK_DIRECTIVE_NOT_TIME   "it takes a time of 10ms to 1d"
#define NGX_ETCD_CHECK_DIRECTIVE_NOT_SHARE  "it must be from 0% to 100%"


typedef struct {
    ngx_str_t                *name;         /* of the upstream */
    ngx_etcd_check_conf_t    *check;
    ngx_uint_t                ssl;
    ngx_uint_t                verify;
    ngx_str_t                 trusted;
    ngx_str_t                 uri;
    ngx_str_t                 host;
    ngx_array_t               headers;      /* ngx_str_t: whole lines */
    ngx_str_t                 share;        /* len 0: checks are not shared */
    ngx_str_t                 zone;
} ngx_etcd_check_directive_t;


static ngx_conf_enum_t  ngx_etcd_check_types[] = {
    { ngx_string("tcp"), NGX_ETCD_CHECK_TCP },
    { ngx_string("http"), NGX_ETCD_CHECK_HTTP },
    { ngx_string("grpc"), NGX_ETCD_CHECK_GRPC },
    { ngx_null_string, 0 }
};


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
ngx_etcd_check_directive_uri(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    ngx_etcd_check_directive_t *dir = conf;

    if (value->len == 0 || value->data[0] != '/') {
        return "it does not begin with \"/\"";
    }

    if (!ngx_etcd_check_directive_visible(value)) {
        return "spaces and other bytes have to be escaped";
    }

    dir->uri = *value;

    return NULL;
}


static char *
ngx_etcd_check_directive_status(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    ngx_etcd_check_directive_t *dir = conf;

    ngx_int_t  low, high;

    if (ngx_etcd_option_statuses(value->data, value->data + value->len, &low,
                                 &high)
        != NGX_OK)
    {
        return "it takes a status of 100 to 599, or two as in \"200-399\"";
    }

    dir->check->lowest = low;
    dir->check->highest = high;

    return NULL;
}


static char *
ngx_etcd_check_directive_match(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    ngx_etcd_check_directive_t *dir = conf;

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
    rc.pool = cf->pool;
    rc.err.len = NGX_MAX_CONF_ERRSTR;
    rc.err.data = errstr;

    if (rc.pattern.len == 0) {
        return "the expression is empty";
    }

    if (ngx_regex_compile(&rc) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%V", &rc.err);
        return NGX_CONF_ERROR;
    }

    dir->check->regex = rc.regex;

    return NULL;

#else

    return "regular expressions need an nginx with PCRE";

#endif
}


static char *
ngx_etcd_check_directive_host(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    ngx_etcd_check_directive_t *dir = conf;

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
ngx_etcd_check_directive_header(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    ngx_etcd_check_directive_t *dir = conf;

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


static ngx_etcd_option_t  ngx_etcd_check_options[] = {

    { .name = ngx_string("interval="), .type = NGX_ETCD_OPTION_TIME,
      .conf = NGX_ETCD_IN_CHECK,
      .offset = offsetof(ngx_etcd_check_conf_t, interval),
      .min = NGX_ETCD_CHECK_TIME, .max = NGX_ETCD_CHECK_DIRECTIVE_TIME,
      .contexts = NGX_ETCD_FOR_ANY,
      .otherwise = NGX_ETCD_CHECK_DIRECTIVE_NOT_TIME },

    { .name = ngx_string("fast="), .type = NGX_ETCD_OPTION_TIME,
      .conf = NGX_ETCD_IN_CHECK,
      .offset = offsetof(ngx_etcd_check_conf_t, fast),
      .min = NGX_ETCD_CHECK_TIME, .max = NGX_ETCD_CHECK_DIRECTIVE_TIME,
      .contexts = NGX_ETCD_FOR_ANY,
      .otherwise = NGX_ETCD_CHECK_DIRECTIVE_NOT_TIME },

    { .name = ngx_string("timeout="), .type = NGX_ETCD_OPTION_TIME,
      .conf = NGX_ETCD_IN_CHECK,
      .offset = offsetof(ngx_etcd_check_conf_t, timeout),
      .min = NGX_ETCD_CHECK_TIME, .max = NGX_ETCD_CHECK_DIRECTIVE_TIME,
      .contexts = NGX_ETCD_FOR_ANY,
      .otherwise = NGX_ETCD_CHECK_DIRECTIVE_NOT_TIME },

    { .name = ngx_string("rises="), .type = NGX_ETCD_OPTION_NUMBER,
      .conf = NGX_ETCD_IN_CHECK,
      .offset = offsetof(ngx_etcd_check_conf_t, rises),
      .min = 1, .max = NGX_ETCD_CHECK_DIRECTIVE_COUNT,
      .contexts = NGX_ETCD_FOR_ANY,
      .otherwise = NGX_ETCD_CHECK_DIRECTIVE_RANGE },

    { .name = ngx_string("fails="), .type = NGX_ETCD_OPTION_NUMBER,
      .conf = NGX_ETCD_IN_CHECK,
      .offset = offsetof(ngx_etcd_check_conf_t, fails),
      .min = 1, .max = NGX_ETCD_CHECK_DIRECTIVE_COUNT,
      .contexts = NGX_ETCD_FOR_ANY,
      .otherwise = NGX_ETCD_CHECK_DIRECTIVE_RANGE },

    { .name = ngx_string("mandatory"), .type = NGX_ETCD_OPTION_FLAG,
      .conf = NGX_ETCD_IN_CHECK,
      .offset = offsetof(ngx_etcd_check_conf_t, mandatory),
      .contexts = NGX_ETCD_FOR_ANY },

    { .name = ngx_string("panic="), .type = NGX_ETCD_OPTION_SHARE,
      .conf = NGX_ETCD_IN_CHECK,
      .offset = offsetof(ngx_etcd_check_conf_t, panic),
      .min = 0, .max = 100,
      .contexts = NGX_ETCD_FOR_ANY,
      .otherwise = NGX_ETCD_CHECK_DIRECTIVE_NOT_SHARE },

    { .name = ngx_string("jitter="), .type = NGX_ETCD_OPTION_SHARE,
      .conf = NGX_ETCD_IN_CHECK,
      .offset = offsetof(ngx_etcd_check_conf_t, jitter),
      .min = 0, .max = 100,
      .contexts = NGX_ETCD_FOR_ANY,
      .otherwise = NGX_ETCD_CHECK_DIRECTIVE_NOT_SHARE },

    { .name = ngx_string("port="), .type = NGX_ETCD_OPTION_NUMBER,
      .conf = NGX_ETCD_IN_CHECK,
      .offset = offsetof(ngx_etcd_check_conf_t, port),
      .min = 1, .max = 65535,
      .contexts = NGX_ETCD_FOR_ANY,
      .otherwise = NGX_ETCD_CHECK_DIRECTIVE_RANGE },

    { .name = ngx_string("share="), .type = NGX_ETCD_OPTION_STRING,
      .offset = offsetof(ngx_etcd_check_directive_t, share), .min = 1,
      .contexts = NGX_ETCD_FOR_ANY,
      .otherwise = "it is empty" },

    { .name = ngx_string("zone="), .type = NGX_ETCD_OPTION_STRING,
      .offset = offsetof(ngx_etcd_check_directive_t, zone), .min = 1,
      .contexts = NGX_ETCD_FOR_ANY,
      .otherwise = "it is empty" },

    { .name = ngx_string("uri="), .contexts = NGX_ETCD_FOR_HTTP,
      .set = ngx_etcd_check_directive_uri },

    { .name = ngx_string("status="), .contexts = NGX_ETCD_FOR_HTTP,
      .set = ngx_etcd_check_directive_status },

    { .name = ngx_string("match="), .contexts = NGX_ETCD_FOR_HTTP,
      .set = ngx_etcd_check_directive_match },

    { .name = ngx_string("host="),
      .contexts = NGX_ETCD_FOR_HTTP|NGX_ETCD_FOR_GRPC,
      .set = ngx_etcd_check_directive_host },

    { .name = ngx_string("header="), .repeat = 1,
      .contexts = NGX_ETCD_FOR_HTTP,
      .set = ngx_etcd_check_directive_header },

    { .name = ngx_string("service="), .type = NGX_ETCD_OPTION_STRING,
      .conf = NGX_ETCD_IN_CHECK,
      .offset = offsetof(ngx_etcd_check_conf_t, service),
      .contexts = NGX_ETCD_FOR_GRPC },

    { .name = ngx_string("ssl"), .type = NGX_ETCD_OPTION_FLAG,
      .offset = offsetof(ngx_etcd_check_directive_t, ssl),
      .contexts = NGX_ETCD_FOR_ANY },

    { .name = ngx_string("ssl_name="), .type = NGX_ETCD_OPTION_STRING,
      .conf = NGX_ETCD_IN_CHECK,
      .offset = offsetof(ngx_etcd_check_conf_t, ssl_name), .min = 1,
      .contexts = NGX_ETCD_FOR_ANY|NGX_ETCD_FOR_SSL,
      .otherwise = "it is empty" },

    { .name = ngx_string("ssl_verify="), .type = NGX_ETCD_OPTION_ENUM,
      .offset = offsetof(ngx_etcd_check_directive_t, verify),
      .contexts = NGX_ETCD_FOR_ANY|NGX_ETCD_FOR_SSL,
      .names = ngx_etcd_option_switch,
      .otherwise = "it is neither on nor off" },

    { .name = ngx_string("ssl_trusted_certificate="),
      .type = NGX_ETCD_OPTION_STRING,
      .offset = offsetof(ngx_etcd_check_directive_t, trusted), .min = 1,
      .contexts = NGX_ETCD_FOR_ANY|NGX_ETCD_FOR_SSL,
      .otherwise = "it is empty" },

    ngx_etcd_null_option
};


static char *
ngx_etcd_check_directive_allowed(ngx_etcd_option_t *option, void *conf)
{
    ngx_etcd_check_directive_t *dir = conf;

    if (!(option->contexts & (1 << dir->check->type))) {
        return "it is for another type of check";
    }

    if ((option->contexts & NGX_ETCD_FOR_SSL) && !dir->ssl) {
        return "it needs \"ssl\" before it";
    }

    return NULL;
}


static ngx_int_t
ngx_etcd_check_directive_load(ngx_conf_t *cf, ngx_etcd_check_directive_t *dir)
{
    ngx_etcd_ssl_t  *ssl;

    ssl = ngx_etcd_ssl_module_create(cf);
    if (ssl == NULL) {
        return NGX_ERROR;
    }

    dir->check->ssl = ssl;

    ssl->verify = dir->verify;
    ssl->http1 = (dir->check->type != NGX_ETCD_CHECK_GRPC);

    if (ssl->verify && dir->trusted.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"etcd_check\" has no "
                           "\"ssl_trusted_certificate=\" to verify members by");
        return NGX_ERROR;
    }

    if (ngx_etcd_ssl_module_file(cf, &ssl->files[NGX_ETCD_SSL_TRUSTED],
                                 "ssl_trusted_certificate=", &dir->trusted)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_etcd_ssl_module_load(cf, ssl);
}


static ngx_int_t
ngx_etcd_check_directive_request(ngx_conf_t *cf,
    ngx_etcd_check_directive_t *dir)
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

    p = ngx_pnalloc(cf->pool, len);
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


/* KEY or KEY/ZONE: the prefix of an election */

static char *
ngx_etcd_check_directive_share(ngx_conf_t *cf, ngx_etcd_check_directive_t *dir)
{
    u_char                  *p;
    ngx_str_t               *key;
    ngx_etcd_check_conf_t   *check;
    ngx_etcd_check_share_t  *share;

    check = dir->check;
    key = &dir->share;

    if (key->len == 0 && dir->zone.len != 0) {
        return "has a \"zone=\" and no \"share=\"";
    }

    if (key->len == 0) {
        return NGX_CONF_OK;
    }

    if (check->interval < NGX_ETCD_CHECK_SHARE_INTERVAL) {
        return "has \"share=\" and an \"interval=\" of less than 1s";
    }

    if (ngx_strlchr(dir->zone.data, dir->zone.data + dir->zone.len, '/')
        != NULL)
    {
        return "has a slash in \"zone=\"";
    }

    if (check->fast == 0) {
        check->fast = NGX_ETCD_CHECK_SHARE_INTERVAL;
    }

    if (key->data[key->len - 1] == '/') {
        key->len--;
    }

    share = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_check_share_t));
    p = ngx_pnalloc(cf->pool, key->len + 1 + dir->zone.len);

    if (share == NULL || p == NULL) {
        return "no memory";
    }

    share->key.data = p;

    p = ngx_cpymem(p, key->data, key->len);

    if (dir->zone.len != 0) {
        *p++ = '/';
        p = ngx_cpymem(p, dir->zone.data, dir->zone.len);
    }

    share->key.len = p - share->key.data;
    share->zone = dir->zone;

    check->share = share;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_etcd_check_directive_done(ngx_conf_t *cf,
    ngx_etcd_check_directive_t *dir)
{
    char                   *err;
    ngx_etcd_check_conf_t  *check;

    check = dir->check;

    err = ngx_etcd_check_directive_share(cf, dir);

    if (err != NGX_CONF_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"etcd_check\" %s", err);
        return NGX_ERROR;
    }

    if (check->timeout > check->interval) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"timeout\" of \"etcd_check\" is longer than its "
                           "\"interval\"");
        return NGX_ERROR;
    }

    if (check->fast > check->interval) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
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

    if (dir->ssl && ngx_etcd_check_directive_load(cf, dir) != NGX_OK) {
        return NGX_ERROR;
    }

    return (check->type == NGX_ETCD_CHECK_HTTP)
           ? ngx_etcd_check_directive_request(cf, dir) : NGX_OK;
}


ngx_etcd_check_conf_t *
ngx_etcd_check_directive(ngx_conf_t *cf, ngx_str_t *upstream)
{
    ngx_int_t                    type;
    ngx_str_t                   *value;
    ngx_etcd_check_conf_t       *check;
    ngx_etcd_check_directive_t   dir;

    if (cf->args->nelts == 1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"etcd_check\" needs a type of check, there are: "
                           NGX_ETCD_CHECK_DIRECTIVE_TYPES);
        return NULL;
    }

    value = cf->args->elts;

    type = ngx_etcd_option_enum(ngx_etcd_check_types, &value[1]);

    if (type == NGX_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown type of check \"%V\", there are: "
                           NGX_ETCD_CHECK_DIRECTIVE_TYPES, &value[1]);
        return NULL;
    }

    check = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_check_conf_t));
    if (check == NULL) {
        return NULL;
    }

    check->type = type;
    check->interval = 5000;
    check->timeout = 1000;
    check->rises = 2;
    check->fails = 3;
    check->panic = 50;
    check->jitter = 10;
    check->lowest = 200;
    check->highest = 399;

    ngx_memzero(&dir, sizeof(ngx_etcd_check_directive_t));

    dir.check = check;
    dir.name = upstream;
    dir.verify = 1;

    ngx_str_set(&dir.uri, "/");

    if (ngx_array_init(&dir.headers, cf->pool, 1, sizeof(ngx_str_t)) != NGX_OK
        || ngx_etcd_option_read(cf, 2, ngx_etcd_check_options,
                                ngx_etcd_check_directive_allowed, &dir)
           != NGX_OK
        || ngx_etcd_check_directive_done(cf, &dir) != NGX_OK)
    {
        return NULL;
    }

    return check;
}
