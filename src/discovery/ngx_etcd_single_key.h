
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The source of services whose keys are members one by one: each key registers
 * the members that its value names.
 */


#ifndef _NGX_ETCD_SINGLE_KEY_H_INCLUDED_
#define _NGX_ETCD_SINGLE_KEY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_service.h>


extern const ngx_etcd_source_t  ngx_etcd_single_key_source;


#endif /* _NGX_ETCD_SINGLE_KEY_H_INCLUDED_ */
