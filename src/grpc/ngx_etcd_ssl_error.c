
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_ssl_error.h>


ngx_int_t
ngx_etcd_ssl_error(ngx_etcd_ssl_error_t *error, ngx_etcd_ssl_option_t *option,
    const char *fmt, ...)
{
    u_char  *p;
    va_list  args;

    va_start(args, fmt);
    p = ngx_vslprintf(error->buf, error->buf + NGX_ETCD_SSL_ERROR_LEN, fmt,
                      args);
    va_end(args);

    error->option = option;
    error->text.data = error->buf;
    error->text.len = p - error->buf;

    return NGX_ERROR;
}


u_char *
ngx_etcd_ssl_error_reason(u_char *buf, u_char *last, u_long error)
{
    const char  *text;

    /* OpenSSL 3 has no strings for system errors */

    if (ERR_GET_LIB(error) == ERR_LIB_SYS) {
        return ngx_strerror(ERR_GET_REASON(error), buf, last - buf);
    }

    text = ERR_reason_error_string(error);

    if (text == NULL) {
        return ngx_slprintf(buf, last, "OpenSSL error %08xl", error);
    }

    return ngx_slprintf(buf, last, "%s", text);
}
