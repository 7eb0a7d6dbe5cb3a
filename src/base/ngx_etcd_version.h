
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The version of the modules.
 */


#ifndef _NGX_ETCD_VERSION_H_INCLUDED_
#define _NGX_ETCD_VERSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_VERSION  "1.0.0"

/*
 * The name of this symbol of ngx_etcd_module has the version.  The modules of
 * http and of stream refer to the symbol, so they load only beside an
 * ngx_etcd_module of their own version.  A reload would load others: nginx
 * keeps a module that is in use, also when its file has been replaced, and
 * loads a new one beside it.
 */
#define ngx_etcd_version  ngx_etcd_version_1_0_0


extern const char  ngx_etcd_version[];


#endif /* _NGX_ETCD_VERSION_H_INCLUDED_ */
