
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The rotation of a peer group, for one request: without the peers that the
 * request has tried.
 */


#ifndef _NGX_ETCD_PICK_EEVDF_H_INCLUDED_
#define _NGX_ETCD_PICK_EEVDF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_pick.h>


/* Returns the next usable peer of the rotation and uses up its turn. */
ngx_etcd_peer_t *ngx_etcd_pick_eevdf(ngx_etcd_pick_t *pick,
    ngx_etcd_peer_group_t *group);


#endif /* _NGX_ETCD_PICK_EEVDF_H_INCLUDED_ */
