
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_watch_denial.h>


void
ngx_etcd_watch_denial(ngx_etcd_grpc_status_e *reported, ngx_str_t *name,
    ngx_etcd_watch_t *watch, ngx_etcd_grpc_status_e status, ngx_str_t *text,
    ngx_log_t *log)
{
    ngx_uint_t  level;

    level = (*reported == status) ? NGX_LOG_INFO : NGX_LOG_ERR;

    if (status == NGX_ETCD_GRPC_UNAUTHENTICATED) {

        /* the fault concerns the whole cluster, and was logged for it */

        level = NGX_LOG_DEBUG;
    }

    ngx_log_error(level, log, 0, "%V: %s \"%V\" cannot be read: %s: %V", name,
                  watch->exact ? "key" : "prefix", &watch->prefix,
                  ngx_etcd_grpc_status_name(status), text);

    if (status != NGX_ETCD_GRPC_UNAUTHENTICATED) {
        *reported = status;
    }
}


void
ngx_etcd_watch_denial_over(ngx_etcd_grpc_status_e *reported, ngx_str_t *name,
    ngx_etcd_watch_t *watch, ngx_log_t *log)
{
    if (*reported == NGX_ETCD_GRPC_OK) {
        return;
    }

    *reported = NGX_ETCD_GRPC_OK;

    ngx_log_error(NGX_LOG_NOTICE, log, 0, "%V: %s \"%V\" can be read again",
                  name, watch->exact ? "key" : "prefix", &watch->prefix);
}
