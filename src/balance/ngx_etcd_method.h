
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What a balancing method is: each has a file of its own.
 */


#ifndef _NGX_ETCD_METHOD_H_INCLUDED_
#define _NGX_ETCD_METHOD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_peer.h>


/* what tiers keep for it */

#define NGX_ETCD_NEEDS_TURN   0x01
#define NGX_ETCD_NEEDS_CONNS  0x02     /* turns by connections */
#define NGX_ETCD_NEEDS_SUMS   0x04
#define NGX_ETCD_NEEDS_ORDER  0x08
#define NGX_ETCD_NEEDS_RING   0x10
#define NGX_ETCD_NEEDS_KEY    0x20     /* of the request */


typedef struct ngx_etcd_pick_s    ngx_etcd_pick_t;
typedef struct ngx_etcd_method_s  ngx_etcd_method_t;


struct ngx_etcd_method_s {
    ngx_str_t              name;
    ngx_str_t              parameter;     /* after the key */
    ngx_uint_t             needs;         /* NGX_ETCD_NEEDS_ */

    /* one that ngx_etcd_pick_usable() says may be used; NULL: there is none */
    ngx_etcd_peer_t     *(*pick)(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier);

    /* it has one connection more, of so many by now; or NULL */
    void                 (*taken)(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
                                  ngx_etcd_peer_t *peer, ngx_uint_t conns);

    /* it has answered, or, to stream, is connected; or NULL */
    void                 (*works)(ngx_etcd_pick_t *pick, ngx_etcd_tier_t *tier,
                                  ngx_etcd_peer_t *peer);

    /* it has failed; or NULL */
    void                 (*failed)(ngx_etcd_pick_t *pick,
                                   ngx_etcd_tier_t *tier,
                                   ngx_etcd_peer_t *peer);

    /* it has one connection less; or NULL */
    void                 (*freed)(ngx_etcd_tier_t *tier,
                                  ngx_etcd_peer_t *peer);
};


extern const ngx_etcd_method_t  ngx_etcd_method_round_robin;
extern const ngx_etcd_method_t  ngx_etcd_method_least_conn;
extern const ngx_etcd_method_t  ngx_etcd_method_random;
extern const ngx_etcd_method_t  ngx_etcd_method_hash;
extern const ngx_etcd_method_t  ngx_etcd_method_consistent;
extern const ngx_etcd_method_t  ngx_etcd_method_ewma;


#endif /* _NGX_ETCD_METHOD_H_INCLUDED_ */
