
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The parameters of "etcd_members"; common to http and stream.
 */


#ifndef _NGX_ETCD_MEMBERS_CONF_H_INCLUDED_
#define _NGX_ETCD_MEMBERS_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_catalog_conf.h>
#include <ngx_etcd_option.h>
#include <ngx_etcd_service.h>


/* contexts: a prefix with variables only; the other bits are the leader's */

#define NGX_ETCD_MEMBERS_SETS  0x100


/* rows that "etcd_leader" has, too; a JSON pointer is for the last row */

#define NGX_ETCD_MEMBERS_OPTIONS                                              \
                                                                              \
    { .name = ngx_string("cluster="), .type = NGX_ETCD_OPTION_READ,           \
      .min = 1 },                                                             \
                                                                              \
    { .name = ngx_string("limit="), .type = NGX_ETCD_OPTION_NUMBER,           \
      .offset = offsetof(ngx_etcd_catalog_conf_t, limit),                     \
      .min = 1, .max = NGX_ETCD_CATALOG_MAX_LIMIT,                            \
      .contexts = NGX_ETCD_MEMBERS_SETS },                                    \
                                                                              \
    { .name = ngx_string("idle="), .type = NGX_ETCD_OPTION_TIME,              \
      .offset = offsetof(ngx_etcd_catalog_conf_t, idle),                      \
      .min = 1, .contexts = NGX_ETCD_MEMBERS_SETS },                          \
                                                                              \
    { .name = ngx_string("max_conns="), .pointer = 1,                         \
      .set = ngx_etcd_members_conf_value },                                   \
                                                                              \
    { .name = ngx_string("max_fails="), .pointer = 1,                         \
      .set = ngx_etcd_members_conf_value },                                   \
                                                                              \
    { .name = ngx_string("fail_timeout="), .pointer = 1,                      \
      .set = ngx_etcd_members_conf_value },                                   \
                                                                              \
    { .name = ngx_string("lease="), .set = ngx_etcd_members_conf_value }


/*
 * Setters for a format's parameters (ngx_etcd_parameter.h) and the attributes
 * of members, and for JSON pointers.
 */
char *ngx_etcd_members_conf_value(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf);
char *ngx_etcd_members_conf_pointer(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf);

/* Returns NULL, or why the service cannot have the parameter. */
char *ngx_etcd_members_conf_allowed(ngx_etcd_option_t *option, void *conf);

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

/*
 * Sets the format of values that the parameter names, or the default; logs
 * errors.
 */
ngx_int_t ngx_etcd_members_conf_format(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, char *parameter);


#endif /* _NGX_ETCD_MEMBERS_CONF_H_INCLUDED_ */
