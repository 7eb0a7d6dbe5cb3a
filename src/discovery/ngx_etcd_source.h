
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Source: which members the keys of a service's mirror are.  A service is a
 * mirror and a source; where sources differ, their tables say so.
 *
 *     members   each key registers what its value says
 *     groups    several keys are one member (ngx_etcd_group.h)
 *     leaders   of all keys some are selected (ngx_etcd_leader.h)
 */


#ifndef _NGX_ETCD_SOURCE_H_INCLUDED_
#define _NGX_ETCD_SOURCE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_mirror.h>


typedef struct ngx_etcd_service_s       ngx_etcd_service_t;
typedef struct ngx_etcd_service_conf_s  ngx_etcd_service_conf_t;


/* handlers that are NULL have nothing to do */

typedef struct {
    /* of the mirror */
    size_t                       keep;
    size_t                       entry_size;

    /* entries are keys of the index: the mirror goes on from the set's */
    ngx_uint_t                   indexed;

    /* a key whose value is invalid has no member, not even its last one */
    ngx_uint_t                   strict;

    /* service->ctx; memory is of the pool.  NGX_ERROR: no memory */
    ngx_int_t                  (*create)(ngx_etcd_service_t *service,
                                         ngx_pool_t *pool);
    void                       (*destroy)(ngx_etcd_service_t *service);

    /* as of the mirror */
    ngx_uint_t                 (*wants)(ngx_etcd_mirror_t *mirror,
                                        ngx_str_t *key);

    /* as of the mirror, also while the service is broken */
    void                       (*changed)(ngx_etcd_service_t *service,
                                          ngx_etcd_mirror_entry_t *entry);
    void                       (*removed)(ngx_etcd_service_t *service,
                                          ngx_etcd_mirror_entry_t *entry);

    /*
     * After each whole revision, and each list, of a service that is not
     * broken: what is not registered yet.
     */
    void                       (*complete)(ngx_etcd_service_t *service);
} ngx_etcd_source_t;


const ngx_etcd_source_t *ngx_etcd_source(ngx_etcd_service_conf_t *conf);


#endif /* _NGX_ETCD_SOURCE_H_INCLUDED_ */
