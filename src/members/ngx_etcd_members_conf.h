
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The parameters of "etcd_members"; common to http and stream.
 */


#ifndef _NGX_ETCD_MEMBERS_CONF_H_INCLUDED_
#define _NGX_ETCD_MEMBERS_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_service.h>


/*
 * Reads all parameters except cluster= into the service, whose prefix is set;
 * logs errors.
 */
char *ngx_etcd_members_conf(ngx_conf_t *cf, ngx_etcd_service_conf_t *service);

/* Sets what the guard does without "etcd_guard". */
void ngx_etcd_members_conf_guarded(ngx_etcd_guard_conf_t *guard);

/* Reads "etcd_guard" into zeroes; logs errors. */
char *ngx_etcd_members_conf_guard(ngx_conf_t *cf,
    ngx_etcd_guard_conf_t *guard);

/* Sets the format of values, logs errors; NULL: the default. */
char *ngx_etcd_members_conf_format(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *name);


/*
 * Reads "limit=" and "idle=", which a prefix with variables has.  NGX_DECLINED:
 * another parameter; NGX_ERROR: invalid, *err may say why.
 */
ngx_int_t ngx_etcd_members_conf_sets(ngx_etcd_service_conf_t *service,
    ngx_str_t *value, char **err);


#endif /* _NGX_ETCD_MEMBERS_CONF_H_INCLUDED_ */
