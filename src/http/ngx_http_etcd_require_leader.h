
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_require_leader" in http.
 */


#ifndef _NGX_HTTP_ETCD_REQUIRE_LEADER_H_INCLUDED_
#define _NGX_HTTP_ETCD_REQUIRE_LEADER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


/* Phase handler; NGX_DECLINED: the request is admitted. */
ngx_int_t ngx_http_etcd_require_leader_handler(ngx_http_request_t *r);

/*
 * Called after the configuration was read, if a location has
 * etcd_require_leader.
 */
ngx_int_t ngx_http_etcd_require_leader_init(ngx_conf_t *cf);

/*
 * Returns the admission of the request, or of one of its parents, by that
 * election; NULL: there is none.
 */
ngx_etcd_admission_t *ngx_http_etcd_require_leader_admission(
    ngx_http_request_t *r, ngx_etcd_campaign_t *campaign);


#endif /* _NGX_HTTP_ETCD_REQUIRE_LEADER_H_INCLUDED_ */
