
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The "ssl_*" directives of an "etcd" block.
 */


#ifndef _NGX_ETCD_SSL_MODULE_H_INCLUDED_
#define _NGX_ETCD_SSL_MODULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>


extern ngx_module_t  ngx_etcd_ssl_module;


/* Called before the block is read. */
ngx_int_t ngx_etcd_ssl_module_init(ngx_conf_t *cf, ngx_etcd_conf_t *conf);

/*
 * Called at the end of the block: loads the files; logs errors with their
 * place.
 */
char *ngx_etcd_ssl_module_done(ngx_conf_t *cf, ngx_etcd_conf_t *conf);

/*
 * Creates the settings of a directive that has TLS in its parameters, and sets
 * one of their files, unless the name is empty.  NULL, NGX_ERROR: no memory.
 */
ngx_etcd_ssl_t *ngx_etcd_ssl_module_create(ngx_conf_t *cf);
ngx_int_t ngx_etcd_ssl_module_file(ngx_conf_t *cf,
    ngx_etcd_ssl_option_t *option, char *parameter, ngx_str_t *name);

/* Loads the files of the settings; logs errors. */
ngx_int_t ngx_etcd_ssl_module_load(ngx_conf_t *cf, ngx_etcd_ssl_t *ssl);


#endif /* _NGX_ETCD_SSL_MODULE_H_INCLUDED_ */
