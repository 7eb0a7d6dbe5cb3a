
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_ssl_module.h>


static char *ngx_etcd_ssl_value(ngx_conf_t *cf, void *post, void *data);
static char *ngx_etcd_ssl_mask(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static char *ngx_etcd_ssl_option(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_etcd_ssl_file(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static char *ngx_etcd_ssl_command(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


static ngx_conf_bitmask_t  ngx_etcd_ssl_protocols[] = {
    { ngx_string("TLSv1"), NGX_SSL_TLSv1 },
    { ngx_string("TLSv1.1"), NGX_SSL_TLSv1_1 },
    { ngx_string("TLSv1.2"), NGX_SSL_TLSv1_2 },
    { ngx_string("TLSv1.3"), NGX_SSL_TLSv1_3 },
    { ngx_null_string, 0 }
};


/* after nginx's own handlers */

static ngx_conf_post_t  ngx_etcd_ssl_value_post = { ngx_etcd_ssl_value };


static ngx_command_t  ngx_etcd_ssl_directives[] = {

    { ngx_string("ssl_certificate"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_etcd_ssl_file,
      0,
      offsetof(ngx_etcd_conf_t, ssl.files[NGX_ETCD_SSL_CERTIFICATE]),
      NULL },

    { ngx_string("ssl_certificate_key"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_etcd_ssl_file,
      0,
      offsetof(ngx_etcd_conf_t, ssl.files[NGX_ETCD_SSL_KEY]),
      NULL },

    { ngx_string("ssl_password_file"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_etcd_ssl_file,
      0,
      offsetof(ngx_etcd_conf_t, ssl.files[NGX_ETCD_SSL_PASSWORDS]),
      NULL },

    { ngx_string("ssl_trusted_certificate"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_etcd_ssl_file,
      0,
      offsetof(ngx_etcd_conf_t, ssl.files[NGX_ETCD_SSL_TRUSTED]),
      NULL },

    { ngx_string("ssl_crl"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_etcd_ssl_file,
      0,
      offsetof(ngx_etcd_conf_t, ssl.files[NGX_ETCD_SSL_CRL]),
      NULL },

    { ngx_string("ssl_ciphers"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_etcd_ssl_option,
      0,
      offsetof(ngx_etcd_conf_t, ssl.ciphers),
      NULL },

    { ngx_string("ssl_conf_command"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE2,
      ngx_etcd_ssl_command,
      0,
      0,
      NULL },

    { ngx_string("ssl_protocols"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_1MORE,
      ngx_etcd_ssl_mask,
      0,
      offsetof(ngx_etcd_conf_t, ssl.protocols),
      &ngx_etcd_ssl_protocols },

    { ngx_string("ssl_name"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_str_slot,
      0,
      offsetof(ngx_etcd_conf_t, ssl.name),
      &ngx_etcd_ssl_value_post },

    { ngx_string("ssl_verify"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      0,
      offsetof(ngx_etcd_conf_t, ssl.verify),
      &ngx_etcd_ssl_value_post },

    { ngx_string("ssl_verify_depth"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      0,
      offsetof(ngx_etcd_conf_t, ssl.verify_depth),
      &ngx_etcd_ssl_value_post },

      ngx_null_command
};


static ngx_core_module_t  ngx_etcd_ssl_module_ctx = {
    ngx_string("etcd_ssl"),
    NULL,
    NULL
};


ngx_module_t  ngx_etcd_ssl_module = {
    NGX_MODULE_V1,
    &ngx_etcd_ssl_module_ctx,              /* module context */
    ngx_etcd_ssl_directives,               /* module directives */
    NGX_CORE_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


ngx_int_t
ngx_etcd_ssl_module_init(ngx_conf_t *cf, ngx_etcd_conf_t *ecf)
{
    ngx_etcd_ssl_t  *ssl;

    ssl = &ecf->ssl;

    ssl->verify = NGX_CONF_UNSET;
    ssl->verify_depth = NGX_CONF_UNSET;

    /* errors that belong to no directive are reported for the block */

    ssl->ciphers.directive = "etcd";
    ssl->ciphers.file = ecf->file;
    ssl->ciphers.line = ecf->line;

    return ngx_array_init(&ssl->commands, cf->pool, 1,
                          sizeof(ngx_etcd_ssl_option_t));
}


static char *
ngx_etcd_ssl_check(ngx_conf_t *cf, ngx_etcd_conf_t *ecf, ngx_uint_t secure)
{
    ngx_uint_t              key, certificate;
    ngx_etcd_ssl_option_t  *file;

    file = ecf->ssl.files;

    if (secure && ecf->ssl.verify
        && file[NGX_ETCD_SSL_TRUSTED].value.len == 0)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "etcd cluster \"%V\" has https endpoints and no "
                           "\"ssl_trusted_certificate\" to verify them by",
                           &ecf->name);
        return NGX_CONF_ERROR;
    }

    key = file[NGX_ETCD_SSL_KEY].value.len;
    certificate = file[NGX_ETCD_SSL_CERTIFICATE].value.len;

    if ((key == 0) != (certificate == 0)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "etcd cluster \"%V\" has no \"%s\" for its \"%s\"",
                           &ecf->name,
                           key ? "ssl_certificate" : "ssl_certificate_key",
                           key ? "ssl_certificate_key" : "ssl_certificate");
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_etcd_ssl_module_done(ngx_conf_t *cf, ngx_etcd_conf_t *ecf)
{
    char                   *rv;
    ngx_uint_t              i, secure, wanted;
    ngx_etcd_ssl_t         *ssl;
    ngx_etcd_endpoint_t    *endpoint;
    ngx_etcd_ssl_option_t  *seen;

    ssl = &ecf->ssl;
    seen = &ecf->ssl_seen;

    ngx_conf_init_value(ssl->verify, 1);
    ngx_conf_init_value(ssl->verify_depth, 1);

    /* HTTP/2 requires TLS 1.2: RFC 9113, section 9.2 */

    if (ssl->protocols == 0) {
        ssl->protocols = NGX_SSL_TLSv1_2|NGX_SSL_TLSv1_3;
    }

    secure = 0;
    endpoint = ecf->client.endpoints.elts;

    for (i = 0; i < ecf->client.endpoints.nelts; i++) {
        secure |= endpoint[i].secure;
    }

    /* "auto_sync" and SRV records may add https endpoints */

    if (!secure && ecf->client.auto_sync == 0 && ecf->client.srv.len == 0
        && seen->directive != NULL)
    {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "\"%s\" in \"etcd\" has no effect: no endpoint is "
                      "\"https://\" in %s:%ui", seen->directive, seen->file,
                      seen->line);
    }

    rv = ngx_etcd_ssl_check(cf, ecf, secure);

    /* files are checked even if all endpoints use http */

    wanted = (secure || (ecf->client.srv.len != 0 && !ssl->verify)
              || ssl->ciphers.value.len != 0
              || ssl->commands.nelts != 0);

    for (i = 0; i < NGX_ETCD_SSL_FILES; i++) {
        wanted |= (ssl->files[i].value.len != 0);
    }

    if (rv != NGX_CONF_OK || !wanted) {
        return rv;
    }

    if (ngx_etcd_ssl_module_load(cf, ssl) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (ssl->files[NGX_ETCD_SSL_CERTIFICATE].value.len == 0) {
        ssl->hint = ", is an \"ssl_certificate\" required?";
    }

    ecf->client.ssl = ssl;

    return NGX_CONF_OK;
}


static void
ngx_etcd_ssl_place(ngx_conf_t *cf, ngx_etcd_ssl_option_t *option)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    option->directive = (char *) value[0].data;
    option->file = cf->conf_file->file.name.data;
    option->line = cf->conf_file->line;
}


ngx_etcd_ssl_t *
ngx_etcd_ssl_module_create(ngx_conf_t *cf)
{
    ngx_etcd_ssl_t  *ssl;

    ssl = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_ssl_t));
    if (ssl == NULL) {
        return NULL;
    }

    ssl->verify_depth = 1;
    ssl->protocols = NGX_SSL_TLSv1_2|NGX_SSL_TLSv1_3;

    ngx_etcd_ssl_place(cf, &ssl->ciphers);

    return ssl;
}


ngx_int_t
ngx_etcd_ssl_module_file(ngx_conf_t *cf, ngx_etcd_ssl_option_t *option,
    char *parameter, ngx_str_t *name)
{
    if (name->len == 0) {
        return NGX_OK;
    }

    ngx_etcd_ssl_place(cf, option);

    option->value = *name;
    option->directive = parameter;

    return ngx_conf_full_name(cf->cycle, &option->value, 1);
}


ngx_int_t
ngx_etcd_ssl_module_load(ngx_conf_t *cf, ngx_etcd_ssl_t *ssl)
{
    ngx_pool_cleanup_t    *cln;
    ngx_etcd_ssl_error_t   error;

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_etcd_ssl_cleanup;
    cln->data = ssl;

    /*
     * the log of the new configuration, since the context exists as long as
     * it does
     */

    if (ngx_etcd_ssl_load(ssl, &cf->cycle->new_log, &error) != NGX_OK) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "\"%s\" directive: %V in "
                      "%s:%ui", error.option->directive, &error.text,
                      error.option->file, error.option->line);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* Remembers the first directive of a block. */

static void
ngx_etcd_ssl_seen(ngx_conf_t *cf, ngx_etcd_conf_t *ecf)
{
    if (ecf->ssl_seen.directive == NULL) {
        ngx_etcd_ssl_place(cf, &ecf->ssl_seen);
    }
}


static char *
ngx_etcd_ssl_value(ngx_conf_t *cf, void *post, void *data)
{
    void **ctx = cf->ctx;

    ngx_etcd_ssl_seen(cf, ctx[ngx_etcd_ssl_module.index]);

    return NGX_CONF_OK;
}


static char *
ngx_etcd_ssl_mask(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_etcd_ssl_seen(cf, conf);

    return ngx_conf_set_bitmask_slot(cf, cmd, conf);
}


static char *
ngx_etcd_ssl_option(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char  *p = conf;

    ngx_str_t              *value;
    ngx_etcd_ssl_option_t  *option;

    option = (ngx_etcd_ssl_option_t *) (p + cmd->offset);

    if (option->value.len != 0) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "is empty";
    }

    option->value = value[1];

    ngx_etcd_ssl_place(cf, option);
    ngx_etcd_ssl_seen(cf, conf);

    return NGX_CONF_OK;
}


static char *
ngx_etcd_ssl_file(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char  *p = conf;

    char                   *rv;
    ngx_etcd_ssl_option_t  *option;

    rv = ngx_etcd_ssl_option(cf, cmd, conf);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    option = (ngx_etcd_ssl_option_t *) (p + cmd->offset);

    if (ngx_conf_full_name(cf->cycle, &option->value, 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* Makes a file name absolute: the prefix is not available later. */

static ngx_int_t
ngx_etcd_ssl_command_file(ngx_conf_t *cf, ngx_etcd_ssl_option_t *option)
{
    int            type;
    SSL_CONF_CTX  *cctx;

    cctx = SSL_CONF_CTX_new();
    if (cctx == NULL) {
        return NGX_ERROR;
    }

    SSL_CONF_CTX_set_flags(cctx, SSL_CONF_FLAG_FILE|SSL_CONF_FLAG_CLIENT
                                 |SSL_CONF_FLAG_CERTIFICATE);

    type = SSL_CONF_cmd_value_type(cctx, (char *) option->key.data);

    SSL_CONF_CTX_free(cctx);

    if (type != SSL_CONF_TYPE_FILE && type != SSL_CONF_TYPE_DIR) {
        return NGX_OK;
    }

    return ngx_conf_full_name(cf->cycle, &option->value, 1);
}


static char *
ngx_etcd_ssl_command(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_etcd_conf_t *ecf = conf;

    ngx_str_t              *value;
    ngx_etcd_ssl_option_t  *option;

    option = ngx_array_push(&ecf->ssl.commands);
    if (option == NULL) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    option->key = value[1];
    option->value = value[2];

    ngx_etcd_ssl_place(cf, option);
    ngx_etcd_ssl_seen(cf, conf);

    return (ngx_etcd_ssl_command_file(cf, option) == NGX_OK)
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}
