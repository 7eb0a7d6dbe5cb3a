
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The panic of an upstream: if too few members pass their checks, failed checks
 * keep no requests off.
 */


#ifndef _NGX_ETCD_CHECK_PANIC_H_INCLUDED_
#define _NGX_ETCD_CHECK_PANIC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_service.h>


/*
 * Called by the owner: begins or ends the panic of a set and logs it.  Of n
 * members nfailed fail; there is a panic if less than that percentage of them
 * pass.
 */
void ngx_etcd_check_panic(ngx_etcd_service_conf_t *conf, ngx_uint_t percent,
    ngx_uint_t n, ngx_uint_t nfailed, ngx_log_t *log);


#endif /* _NGX_ETCD_CHECK_PANIC_H_INCLUDED_ */
