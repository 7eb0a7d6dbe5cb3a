
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_leader_api.h>
#include <ngx_etcd_ssl_module.h>


/* Creates the TLS settings for the first parameter that needs them. */

static ngx_etcd_ssl_t *
ngx_etcd_leader_api_ssl(ngx_conf_t *cf, ngx_etcd_service_conf_t *service)
{
    ngx_etcd_ssl_t  *ssl;

    ssl = service->leader->api_ssl;
    if (ssl != NULL) {
        return ssl;
    }

    ssl = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_ssl_t));
    if (ssl == NULL) {
        return NULL;
    }

    ssl->verify = 1;
    ssl->verify_depth = 1;
    ssl->protocols = NGX_SSL_TLSv1_2|NGX_SSL_TLSv1_3;
    ssl->http1 = 1;

    ssl->ciphers.directive = "etcd_leader";
    ssl->ciphers.file = cf->conf_file->file.name.data;
    ssl->ciphers.line = cf->conf_file->line;

    service->leader->api_ssl = ssl;

    return ssl;
}


static ngx_int_t
ngx_etcd_leader_api_file(ngx_conf_t *cf, ngx_etcd_service_conf_t *service,
    ngx_str_t *value,     ngx_etcd_ssl_file_e which, char *name)
{
    ngx_etcd_ssl_t         *ssl;
    ngx_etcd_ssl_option_t  *option;

    if (value->len == 0) {
        return NGX_ERROR;
    }

    ssl = ngx_etcd_leader_api_ssl(cf, service);
    if (ssl == NULL) {
        return NGX_ABORT;
    }

    option = &ssl->files[which];

    option->value = *value;
    option->directive = name;
    option->file = cf->conf_file->file.name.data;
    option->line = cf->conf_file->line;

    return (ngx_conf_full_name(cf->cycle, &option->value, 1) == NGX_OK)
           ? NGX_OK : NGX_ABORT;
}


ngx_int_t
ngx_etcd_leader_api_trusted(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice)
{
    return ngx_etcd_leader_api_file(cf, service, value, NGX_ETCD_SSL_TRUSTED,
                                    "api_trusted_certificate=");
}


ngx_int_t
ngx_etcd_leader_api_certificate(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice)
{
    return ngx_etcd_leader_api_file(cf, service, value,
                                    NGX_ETCD_SSL_CERTIFICATE,
                                    "api_certificate=");
}


ngx_int_t
ngx_etcd_leader_api_key(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice)
{
    return ngx_etcd_leader_api_file(cf, service, value, NGX_ETCD_SSL_KEY,
                                    "api_certificate_key=");
}


ngx_int_t
ngx_etcd_leader_api_verify(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice)
{
    ngx_etcd_ssl_t  *ssl;

    ssl = ngx_etcd_leader_api_ssl(cf, service);
    if (ssl == NULL) {
        return NGX_ABORT;
    }

    ssl->verify = choice;

    return NGX_OK;
}


ngx_int_t
ngx_etcd_leader_api_done(ngx_conf_t *cf, ngx_etcd_service_conf_t *service)
{
    ngx_uint_t       certificate, key;
    ngx_etcd_ssl_t  *ssl;

    ssl = service->leader->api_ssl;
    if (ssl == NULL) {
        return NGX_OK;
    }

    if (ssl->verify && ssl->files[NGX_ETCD_SSL_TRUSTED].value.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"etcd_leader\" has no "
                           "\"api_trusted_certificate=\" to verify APIs by");
        return NGX_ERROR;
    }

    certificate = ssl->files[NGX_ETCD_SSL_CERTIFICATE].value.len;
    key = ssl->files[NGX_ETCD_SSL_KEY].value.len;

    if ((certificate == 0) != (key == 0)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"api_certificate=\" and "
                           "\"api_certificate_key=\" must be used together");
        return NGX_ERROR;
    }

    return ngx_etcd_ssl_module_load(cf, ssl);
}
