
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
#include <jansson.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_service.h>


/*
 * Each adds to service->ops.  Where index and set may differ afterwards (no
 * memory, the mutex was held), service->broken is set.
 */

/* a key that has a value, of these revisions; or an object in its place */
void ngx_etcd_service_put(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    ngx_str_t *value, int64_t created, int64_t modified);
void ngx_etcd_service_put_object(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key, json_t *object, int64_t created, int64_t modified);

/*
 * One of the index's own keys, found or made, which is not gone; NULL: no
 * memory
 */
ngx_etcd_key_t *ngx_etcd_service_key(ngx_etcd_service_t *service,
    ngx_str_t *name);

/*
 * A selection of own keys begins, and ends: those that were not asked for, or
 * used, in between are gone.
 */
void ngx_etcd_service_select(ngx_etcd_service_t *service);
void ngx_etcd_service_sweep(ngx_etcd_service_t *service);

/*
 * What a selection found: a key, said to be of these revisions, with its
 * members, or with a reason why it has none, which is reported once.  What it
 * had before leaves.
 */
void ngx_etcd_service_use(ngx_etcd_service_t *service, Etcd__KeyValue *kv,
    ngx_array_t *members, ngx_str_t *reason);

/*
 * The members that the key registers, instead of those that it did; kv says
 * its revisions.  NGX_OK: the batch holds all of it.
 */
ngx_int_t ngx_etcd_service_members(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key, Etcd__KeyValue *kv, ngx_array_t *members);

/*
 * One of them, whose address is known, or a static server (no key, no kv):
 * found, changed or new.
 */
ngx_int_t ngx_etcd_service_member(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key, Etcd__KeyValue *kv, ngx_etcd_member_t *member);

/* 1 if the key is in use, as one of that create_revision */
ngx_uint_t ngx_etcd_service_uses(ngx_etcd_service_t *service, ngx_str_t *key,
    uint64_t create_revision);

/* members of keys that are gone leave, unless all would and may not */
void ngx_etcd_service_gone(ngx_etcd_service_t *service);

/* static servers as this configuration has them */
void ngx_etcd_service_statics(ngx_etcd_service_t *service);


#endif /* _NGX_ETCD_REGISTRATION_H_INCLUDED_ */
