
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check_panic.h>


void
ngx_etcd_check_panic(ngx_etcd_service_conf_t *conf, ngx_uint_t percent,
    ngx_uint_t n, ngx_uint_t nfailed, ngx_log_t *log)
{
    ngx_uint_t  panic;

    panic = ((n - nfailed) * 100 < n * percent);

    if (panic == conf->set->panic
        || ngx_etcd_zone_lock_owned(conf->zone, 0) != NGX_OK)
    {
        return;
    }

    conf->set->panic = panic;

    ngx_etcd_zone_unlock(conf->zone);

    if (panic) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "etcd: upstream \"%V\": panic, since checks of %ui of "
                      "%ui members fail: failed checks keep no requests off",
                      &conf->name, nfailed, n);

    } else {
        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "etcd: upstream \"%V\": no panic any more, checks of %ui "
                      "of %ui members fail",
                      &conf->name, nfailed, n);
    }
}
