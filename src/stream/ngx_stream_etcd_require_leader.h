
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_require_leader" in stream.
 */


#ifndef _NGX_STREAM_ETCD_REQUIRE_LEADER_H_INCLUDED_
#define _NGX_STREAM_ETCD_REQUIRE_LEADER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd.h>


/* NGX_DECLINED: the session is admitted. */
ngx_int_t ngx_stream_etcd_require_leader_handler(ngx_stream_session_t *s);

/*
 * Called after the configuration was read, if a server has
 * etcd_require_leader.
 */
ngx_int_t ngx_stream_etcd_require_leader_init(ngx_conf_t *cf);


#endif /* _NGX_STREAM_ETCD_REQUIRE_LEADER_H_INCLUDED_ */
