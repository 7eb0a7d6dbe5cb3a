
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_check"; common to http and stream.
 */


#ifndef _NGX_ETCD_CHECK_DIRECTIVE_H_INCLUDED_
#define _NGX_ETCD_CHECK_DIRECTIVE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check.h>


#define NGX_ETCD_CHECK_DIRECTIVE_TYPES  "tcp, http, grpc"


/* Reads the arguments into a new configuration; logs errors.  NULL: failed. */
ngx_etcd_check_conf_t *ngx_etcd_check_directive(ngx_conf_t *cf,
    ngx_str_t *upstream);


#endif /* _NGX_ETCD_CHECK_DIRECTIVE_H_INCLUDED_ */
