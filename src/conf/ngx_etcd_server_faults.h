
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Has a client of a cluster ask its endpoints for their version: the zone
 * remembers it for the status, and a version with faults that concern leaders,
 * elections and locks is logged, once, if the configuration has any; so is an
 * endpoint that refuses to tell its version.
 */


#ifndef _NGX_ETCD_SERVER_FAULTS_H_INCLUDED_
#define _NGX_ETCD_SERVER_FAULTS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>


/* NGX_ERROR: no memory. */
ngx_int_t ngx_etcd_server_faults_ask(ngx_etcd_cluster_t *cluster,
    ngx_etcd_conf_t *conf);


#endif /* _NGX_ETCD_SERVER_FAULTS_H_INCLUDED_ */
