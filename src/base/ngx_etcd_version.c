
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_version.h>


const char  ngx_etcd_version[] = NGX_ETCD_VERSION;
