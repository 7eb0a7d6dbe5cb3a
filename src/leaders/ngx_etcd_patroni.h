
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The source for Patroni, and the keys that Patroni writes: "leader" holds the
 * name of a member, "members/NAME" is JSON about a member, "failover" is JSON
 * with an order to hand over, "sync" is JSON that names the synchronous
 * standbys, "config" is JSON with the mode of the standbys, and "failsafe" is
 * JSON with the URL of each member's API by the member's name.  The other keys
 * below the prefix (initialize, history, status) are not read.
 */


#ifndef _NGX_ETCD_PATRONI_H_INCLUDED_
#define _NGX_ETCD_PATRONI_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_leader.h>


extern const ngx_etcd_leader_source_t  ngx_etcd_patroni_source;


#endif /* _NGX_ETCD_PATRONI_H_INCLUDED_ */
