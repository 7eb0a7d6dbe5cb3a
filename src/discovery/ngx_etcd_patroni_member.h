
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The member that a value of Patroni describes, with the address of its host
 * name.
 */


#ifndef _NGX_ETCD_PATRONI_MEMBER_H_INCLUDED_
#define _NGX_ETCD_PATRONI_MEMBER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_leader.h>
#include <ngx_etcd_member_host.h>


typedef struct {
    ngx_etcd_leader_t         *leader;
    ngx_etcd_member_host_t    *list;          /* in use by the selection */
} ngx_etcd_patroni_hosts_t;


/*
 * Called while the leader is selected: makes the member that the value of a
 * key describes.  A host name is replaced by an address that is known of it.
 *
 *     NGX_OK        the member has an address,
 *     NGX_AGAIN     its host name is being resolved for the first time,
 *     NGX_DECLINED  its host name has no address: *reason says why,
 *     NGX_ERROR     there is no member: *reason names the fault of the value,
 *                   unless it is empty.
 */
ngx_int_t ngx_etcd_patroni_member(ngx_etcd_patroni_hosts_t *hosts,
    ngx_etcd_mirror_entry_t *key, ngx_etcd_member_t *member,
    ngx_str_t *reason);

/* Likewise, of a member that is known, by its key; never NGX_ERROR. */
ngx_int_t ngx_etcd_patroni_member_resolve(ngx_etcd_patroni_hosts_t *hosts,
    ngx_str_t *key, ngx_etcd_member_t *member, ngx_str_t *reason);


#endif /* _NGX_ETCD_PATRONI_MEMBER_H_INCLUDED_ */
