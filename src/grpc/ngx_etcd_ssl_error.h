
/*
 * Copyright (C) nginx-etcd contributors
 *
 * An error of a TLS setting: the faulty directive and the reason.
 */


#ifndef _NGX_ETCD_SSL_ERROR_H_INCLUDED_
#define _NGX_ETCD_SSL_ERROR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_SSL_ERROR_LEN  512


/* A directive.  The value is zero-terminated, and empty if not configured. */

typedef struct {
    ngx_str_t                  key;           /* ssl_conf_command only */
    ngx_str_t                  value;
    char                      *directive;
    u_char                    *file;          /* configuration file */
    ngx_uint_t                 line;
} ngx_etcd_ssl_option_t;


typedef struct {
    ngx_etcd_ssl_option_t     *option;        /* the faulty directive */
    ngx_str_t                  text;
    u_char                     buf[NGX_ETCD_SSL_ERROR_LEN];
} ngx_etcd_ssl_error_t;


/* Sets the error; returns NGX_ERROR. */
ngx_int_t ngx_etcd_ssl_error(ngx_etcd_ssl_error_t *error,
    ngx_etcd_ssl_option_t *option, const char *fmt, ...);

/*
 * Writes the reason of an OpenSSL error: "no start line", "No such file or
 * directory".  Returns the end.
 */
u_char *ngx_etcd_ssl_error_reason(u_char *buf, u_char *last, u_long error);


#endif /* _NGX_ETCD_SSL_ERROR_H_INCLUDED_ */
