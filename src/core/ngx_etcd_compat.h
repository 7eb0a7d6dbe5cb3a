
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Differences between nginx versions.
 */


#ifndef _NGX_ETCD_COMPAT_H_INCLUDED_
#define _NGX_ETCD_COMPAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* 1.27.3: "server NAME resolve", which has a placeholder as its address */

#if (nginx_version >= 1027003 && NGX_HTTP_UPSTREAM_ZONE)
#define ngx_http_etcd_server_resolves(server)    ((server)->host.len != 0)
#else
#define ngx_http_etcd_server_resolves(server)    0
#endif

#if (nginx_version >= 1027003 && NGX_STREAM_UPSTREAM_ZONE)
#define ngx_stream_etcd_server_resolves(server)  ((server)->host.len != 0)
#else
#define ngx_stream_etcd_server_resolves(server)  0
#endif

/* 1.23.0: headers with the same name are linked */

#if (nginx_version >= 1023000)
#define ngx_http_etcd_header_alone(h)            (h)->next = NULL
#else
#define ngx_http_etcd_header_alone(h)
#endif


#endif /* _NGX_ETCD_COMPAT_H_INCLUDED_ */
