
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directives of an "etcd" block that say where etcd is: "endpoints",
 * "resolver", and what goes with them.
 */


#ifndef _NGX_ETCD_ENDPOINT_H_INCLUDED_
#define _NGX_ETCD_ENDPOINT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_module.h>


/* handlers; the conf is an ngx_etcd_conf_t */
char *ngx_etcd_endpoints(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_etcd_resolver(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* after the block: whether they fit together; sets what was not said */
ngx_int_t ngx_etcd_endpoints_done(ngx_conf_t *cf, ngx_etcd_conf_t *conf);


#endif /* _NGX_ETCD_ENDPOINT_H_INCLUDED_ */
