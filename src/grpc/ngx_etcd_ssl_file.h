
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The files of TLS settings.  nginx's own functions need an ngx_conf_t and
 * log failures at "emerg".
 */


#ifndef _NGX_ETCD_SSL_FILE_H_INCLUDED_
#define _NGX_ETCD_SSL_FILE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_ssl_error.h>


typedef enum {
    NGX_ETCD_SSL_CERTIFICATE = 0,
    NGX_ETCD_SSL_KEY,
    NGX_ETCD_SSL_PASSWORDS,
    NGX_ETCD_SSL_TRUSTED,
    NGX_ETCD_SSL_CRL,
    NGX_ETCD_SSL_FILES
} ngx_etcd_ssl_file_e;


/*
 * Loads "files", an array of NGX_ETCD_SSL_FILES, into the SSL_CTX.  On
 * NGX_ERROR the error is set.
 */
ngx_int_t ngx_etcd_ssl_file_load(ngx_etcd_ssl_option_t *files, SSL_CTX *ctx,
    ngx_etcd_ssl_error_t *error);


#endif /* _NGX_ETCD_SSL_FILE_H_INCLUDED_ */
