
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The versions of etcd that endpoints run, as any client of any process was
 * told last.  Written and read without the mutex.
 */


#ifndef _NGX_ETCD_SERVER_VERSIONS_H_INCLUDED_
#define _NGX_ETCD_SERVER_VERSIONS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_zone.h>


void ngx_etcd_server_versions_set(ngx_etcd_zone_t *zone, ngx_str_t *url,
    uint64_t version);

/* Returns the version of the endpoint with this URL; 0: unknown. */
uint64_t ngx_etcd_server_versions_get(ngx_etcd_zone_t *zone, ngx_str_t *url);

/* bits of "what": messages that are logged once, for any endpoint */

#define NGX_ETCD_SERVER_VERSIONS_FAULT     1
#define NGX_ETCD_SERVER_VERSIONS_UNTOLD    2
#define NGX_ETCD_SERVER_VERSIONS_ADVISORY  4

/*
 * Returns 1 once in the life of the zone for each of these: the caller, of all
 * processes, is the first one.
 */
ngx_uint_t ngx_etcd_server_versions_first(ngx_etcd_zone_t *zone,
    ngx_uint_t what);


#endif /* _NGX_ETCD_SERVER_VERSIONS_H_INCLUDED_ */
