
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check_panic.h>


void
ngx_etcd_check_panic(ngx_etcd_member_set_t *set, ngx_str_t *name,
    ngx_uint_t percent, ngx_uint_t n, ngx_uint_t nfailed, ngx_log_t *log)
{
    ngx_uint_t  panic;

    panic = ((n - nfailed) * 100 < n * percent);

    if (panic == set->panic) {
        return;
    }

    set->panic = panic;

    if (panic) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "etcd: upstream \"%V\": panic, since checks of %ui of "
                      "%ui members fail: failed checks keep no requests off",
                      name, nfailed, n);

    } else {
        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "etcd: upstream \"%V\": no panic any more, checks of %ui "
                      "of %ui members fail",
                      name, nfailed, n);
    }
}
