
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Variables of the stream module.
 */


#ifndef _NGX_STREAM_ETCD_VARIABLE_H_INCLUDED_
#define _NGX_STREAM_ETCD_VARIABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd.h>


ngx_int_t ngx_stream_etcd_variable_add(ngx_conf_t *cf);


#endif /* _NGX_STREAM_ETCD_VARIABLE_H_INCLUDED_ */
