
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The source of members, and what depends on a source.
 */


#ifndef _NGX_ETCD_SOURCE_H_INCLUDED_
#define _NGX_ETCD_SOURCE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_set.h>
#include <ngx_etcd_service.h>


/* The source for "etcd_members", whose format is known. */
const ngx_etcd_source_t *ngx_etcd_source_members(
    ngx_etcd_service_conf_t *conf);

/*
 * Returns the ms since the last proof of a set: for a leader, that etcd still
 * has it (ngx_etcd_proof.h); for members, that etcd answers
 * (ngx_etcd_proof.h).  -1: there was none.
 */
int64_t ngx_etcd_source_staleness(ngx_etcd_service_conf_t *conf,
    ngx_etcd_member_set_t *set);


/*
 * Static servers, which are members without a key: usable before etcd answers.
 */

/*
 * Called by the master: makes servers, of ngx_etcd_member_t, the members of a
 * new set.
 */
ngx_int_t ngx_etcd_static_seed(ngx_array_t *statics, ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set);


#endif /* _NGX_ETCD_SOURCE_H_INCLUDED_ */
