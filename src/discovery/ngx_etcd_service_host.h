
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Members whose addresses are host names: each address of the host is a
 * registration of the key, which comes and goes as the name is resolved.
 * Private to services.
 */


#ifndef _NGX_ETCD_SERVICE_HOST_H_INCLUDED_
#define _NGX_ETCD_SERVICE_HOST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_service.h>


/* NGX_ERROR: no memory.  Without a resolver there is nothing to do. */
ngx_int_t ngx_etcd_service_host_create(ngx_etcd_service_t *service,
    ngx_pool_t *pool);

/* names that the set, as it was read, has are asked for */
void ngx_etcd_service_host_adopt(ngx_etcd_service_t *service);

/*
 * A member of a key, as of ngx_etcd_service_member(), with all addresses that
 * are known of its host, or with one where a leader is selected, or Patroni's
 * members are: what the key has of it already, where nothing else is.
 */
ngx_int_t ngx_etcd_service_host_member(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key, Etcd__KeyValue *kv, ngx_etcd_member_t *member);

/*
 * 1 if the key has addresses of the member's host: the member has the lowest of
 * them afterwards.
 */
ngx_uint_t ngx_etcd_service_host_known(ngx_etcd_service_t *service,
    ngx_str_t *key, ngx_etcd_member_t *member);


#endif /* _NGX_ETCD_SERVICE_HOST_H_INCLUDED_ */
