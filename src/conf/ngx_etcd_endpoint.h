
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The "endpoints" and "resolver" directives of an "etcd" block and their
 * parameters.
 */


#ifndef _NGX_ETCD_ENDPOINT_H_INCLUDED_
#define _NGX_ETCD_ENDPOINT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>


/* Handlers of the directives; conf is an ngx_etcd_conf_t. */
char *ngx_etcd_endpoint_list(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_etcd_endpoint_resolver(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * Called at the end of the block: checks the directives together and sets
 * defaults.
 */
ngx_int_t ngx_etcd_endpoint_done(ngx_conf_t *cf, ngx_etcd_conf_t *conf);


#endif /* _NGX_ETCD_ENDPOINT_H_INCLUDED_ */
