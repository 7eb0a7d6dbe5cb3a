
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The interface of a balancing method; each method has its own file.
 */


#ifndef _NGX_ETCD_METHOD_H_INCLUDED_
#define _NGX_ETCD_METHOD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_peer.h>


/* the structures that peer groups maintain for a method */

#define NGX_ETCD_NEEDS_TURN   0x01
#define NGX_ETCD_NEEDS_CONNS  0x02     /* rotation by connections */
#define NGX_ETCD_NEEDS_SUMS   0x04
#define NGX_ETCD_NEEDS_ORDER  0x08
#define NGX_ETCD_NEEDS_RING   0x10
#define NGX_ETCD_NEEDS_KEY    0x20     /* the request's key */


typedef struct ngx_etcd_pick_s    ngx_etcd_pick_t;
typedef struct ngx_etcd_method_s  ngx_etcd_method_t;


struct ngx_etcd_method_s {
    ngx_str_t              name;
    ngx_str_t              parameter;     /* second parameter */
    ngx_uint_t             needs;         /* NGX_ETCD_NEEDS_ */

    /* Returns a peer for which ngx_etcd_pick_usable() is true; NULL: none. */
    ngx_etcd_peer_t     *(*pick)(ngx_etcd_pick_t *pick,
                                 ngx_etcd_peer_group_t *group);

    /* the peer has one connection more, "conns" in total; or NULL */
    void                 (*taken)(ngx_etcd_pick_t *pick,
                                  ngx_etcd_peer_group_t *group,
                                  ngx_etcd_peer_t *peer, ngx_uint_t conns);

    /*
     * The peer has answered or, in stream, is connected; or NULL.  An nginx
     * that tells of the header calls this for the header, and again for the
     * end.
     */
    void                 (*works)(ngx_etcd_pick_t *pick,
                                  ngx_etcd_peer_group_t *group,
                                  ngx_etcd_peer_t *peer);

    /* the peer has failed; or NULL */
    void                 (*failed)(ngx_etcd_pick_t *pick,
                                   ngx_etcd_peer_group_t *group,
                                   ngx_etcd_peer_t *peer);

    /* the peer has one connection less; or NULL */
    void                 (*freed)(ngx_etcd_peer_group_t *group,
                                  ngx_etcd_peer_t *peer);
};


#endif /* _NGX_ETCD_METHOD_H_INCLUDED_ */
