
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The parameters of "etcd_members" for a format.
 */


#ifndef _NGX_ETCD_PARAMETER_H_INCLUDED_
#define _NGX_ETCD_PARAMETER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member.h>


/*
 * Reads a parameter of the format: scheme=, tag=, port= and, for json, the
 * pointers.  Defaults must be read before.  NGX_DECLINED: another parameter.
 * NGX_ERROR: *err is set.
 */
ngx_int_t ngx_etcd_parameter(ngx_etcd_member_conf_t *conf,
    ngx_str_t *parameter, ngx_pool_t *pool, char **err);

/* Checks the parameters after all were read: NULL, or what is wrong. */
char *ngx_etcd_parameter_complete(ngx_etcd_member_conf_t *conf,
    ngx_str_t *prefix);

/* Returns 1 if values may have tags. */
ngx_uint_t ngx_etcd_parameter_tags(ngx_etcd_member_conf_t *conf);


#endif /* _NGX_ETCD_PARAMETER_H_INCLUDED_ */
