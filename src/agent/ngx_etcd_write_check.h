
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The "write_check" directive: asks etcd whether the user may write keys, by a
 * transaction whose condition is never true and which would put the key.  etcd
 * checks the rights of both branches before it looks at the condition, so
 * nothing is written.
 *
 * One worker asks, once after its start and by a client of its own, which is
 * destroyed after the last answer.
 */


#ifndef _NGX_ETCD_WRITE_CHECK_H_INCLUDED_
#define _NGX_ETCD_WRITE_CHECK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>


/*
 * Called in a worker.  NGX_ERROR: no memory; never because etcd is
 * unreachable.
 */
ngx_int_t ngx_etcd_write_check_start(ngx_cycle_t *cycle,
    ngx_etcd_main_conf_t *conf);

/* Called when the worker exits. */
void ngx_etcd_write_check_stop(void);


#endif /* _NGX_ETCD_WRITE_CHECK_H_INCLUDED_ */
