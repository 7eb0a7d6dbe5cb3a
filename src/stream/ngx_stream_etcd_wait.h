
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_wait" in stream.
 */


#ifndef _NGX_STREAM_ETCD_WAIT_H_INCLUDED_
#define _NGX_STREAM_ETCD_WAIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd.h>



/*
 * NGX_DECLINED: no need to wait, and with "full" a connection is reserved for
 * the session; NGX_DONE: the session is paused.
 */
ngx_int_t ngx_stream_etcd_wait_handler(ngx_stream_session_t *s);


#endif /* _NGX_STREAM_ETCD_WAIT_H_INCLUDED_ */
