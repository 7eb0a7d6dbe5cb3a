
/*
 * Copyright (C) nginx-etcd contributors
 *
 * From keys to changes of a set: what a key registers is compared with what
 * is known of it, and the difference goes into the service's batch.  Private
 * to services.
 */


#ifndef _NGX_ETCD_REGISTRATION_H_INCLUDED_
#define _NGX_ETCD_REGISTRATION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_service.h>


/*
 * Each adds to service->ops.  Where index and set may differ afterwards (no
 * memory, the mutex was held), service->broken is set.
 */

/* a key with its value, listed or changed; the pool is for the moment only */
void ngx_etcd_service_put(ngx_etcd_service_t *service, Etcd__KeyValue *kv,
    ngx_pool_t *pool);

/* a key is gone: its members leave with the next ngx_etcd_service_gone() */
void ngx_etcd_service_delete(ngx_etcd_service_t *service, Etcd__KeyValue *kv);

/* members of keys that are gone leave, unless all would and may not */
void ngx_etcd_service_gone(ngx_etcd_service_t *service);

/* static servers as this configuration has them */
void ngx_etcd_service_statics(ngx_etcd_service_t *service);


#endif /* _NGX_ETCD_REGISTRATION_H_INCLUDED_ */
