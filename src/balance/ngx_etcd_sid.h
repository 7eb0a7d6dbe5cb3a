
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Ids of peers in sessions, for nginx's "sticky": the route of a member or,
 * without a route, the MD5 of its address in hex, as nginx computes it for a
 * "server".
 */


#ifndef _NGX_ETCD_SID_H_INCLUDED_
#define _NGX_ETCD_SID_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_compat.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_peer.h>
#include <ngx_etcd_treap.h>


struct ngx_etcd_sid_s {
    ngx_etcd_node_t              node;             /* in the tree of ids */
    ngx_etcd_peer_t             *peer;
    ngx_str_t                    id;
    u_char                       data[NGX_ETCD_MEMBER_MAX_ROUTE];
};


/* a tree of ids; several peers may have the same one */
void ngx_etcd_sid_init(ngx_etcd_treap_t *sids);

/*
 * Creates the id of a peer, which is freed with the peer.  An empty route:
 * none.  NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_sid_create(ngx_etcd_peer_t *peer, ngx_str_t *route,
    ngx_log_t *log);


/*
 * Returns the peer with this id that follows "after" in the order of slots,
 * which is the same in all workers; after NULL: the first one.  NULL: there
 * is none.
 */
ngx_etcd_peer_t *ngx_etcd_sid_find(ngx_etcd_treap_t *sids, ngx_str_t *text,
    ngx_etcd_peer_t *after);


#endif /* _NGX_ETCD_SID_H_INCLUDED_ */
