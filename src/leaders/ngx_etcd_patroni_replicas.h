
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The roles of Patroni that several members may have: replicas, with or
 * without the leader.
 */


#ifndef _NGX_ETCD_PATRONI_REPLICAS_H_INCLUDED_
#define _NGX_ETCD_PATRONI_REPLICAS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_patroni_member.h>


/* Called within select(): registers the members of the role. */
void ngx_etcd_patroni_replicas(ngx_etcd_patroni_hosts_t *hosts);


#endif /* _NGX_ETCD_PATRONI_REPLICAS_H_INCLUDED_ */
