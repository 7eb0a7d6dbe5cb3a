
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The parameters of "etcd_eject".
 */


#ifndef _NGX_ETCD_EJECT_CONF_H_INCLUDED_
#define _NGX_ETCD_EJECT_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_eject.h>
#include <ngx_etcd_service.h>


#define NGX_ETCD_EJECT_MIN_WINDOW  1000              /* ms */
#define NGX_ETCD_EJECT_MAX_WINDOW  3600000
#define NGX_ETCD_EJECT_MAX_TIME    86400             /* s */


/*
 * Reads the parameters; logs errors.  Without HTTP there is no "status".
 * NULL: invalid, or no memory.
 */
ngx_etcd_eject_conf_t *ngx_etcd_eject_conf(ngx_conf_t *cf, ngx_uint_t stream);

/* The members of the service are ejected. */
void ngx_etcd_eject_conf_use(ngx_etcd_eject_conf_t *conf,
    ngx_etcd_service_conf_t *service);


#endif /* _NGX_ETCD_EJECT_CONF_H_INCLUDED_ */
