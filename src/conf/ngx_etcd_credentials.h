
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The identity of nginx in etcd: the directives "user" and "password_file" of
 * "etcd" blocks.
 */


#ifndef _NGX_ETCD_CREDENTIALS_H_INCLUDED_
#define _NGX_ETCD_CREDENTIALS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>


/* Handlers of the directives; conf is an ngx_etcd_conf_t. */

char *ngx_etcd_credentials_user(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_etcd_credentials_file(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* Called at the end of the block: checks that both directives are given. */
ngx_int_t ngx_etcd_credentials_done(ngx_conf_t *cf, ngx_etcd_conf_t *ecf);


#endif /* _NGX_ETCD_CREDENTIALS_H_INCLUDED_ */
