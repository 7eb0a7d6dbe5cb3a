
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The source of members, and what depends on a source.
 */


#ifndef _NGX_ETCD_SOURCE_H_INCLUDED_
#define _NGX_ETCD_SOURCE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_service.h>


/*
 * For "etcd_members": keys are members one by one, or a format has groups of
 * keys (NGX_ETCD_TAKES_GROUPS).
 */
extern const ngx_etcd_source_t  ngx_etcd_source_keys;
extern const ngx_etcd_source_t  ngx_etcd_source_groups;

/*
 * Returns the ms since the last proof of a set: for a leader, that etcd still
 * has it (ngx_etcd_verify.h); for members, that etcd answers
 * (ngx_etcd_fresh.h).  -1: there was none.
 */
int64_t ngx_etcd_source_staleness(ngx_etcd_service_conf_t *conf,
    ngx_etcd_member_set_t *set);


#endif /* _NGX_ETCD_SOURCE_H_INCLUDED_ */
