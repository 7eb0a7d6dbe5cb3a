
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Members in the bytewise order of their addresses as text, each as long as
 * its weight; the order is the same in all workers and on all machines.
 */


#ifndef _NGX_ETCD_WEIGHTED_TREE_H_INCLUDED_
#define _NGX_ETCD_WEIGHTED_TREE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_peer.h>
#include <ngx_etcd_treap.h>


struct ngx_etcd_weighted_tree_s {
    ngx_etcd_node_t              node;
    ngx_etcd_peer_t             *peer;
    uint64_t                     sum;           /* weights of the subtree */
};


void ngx_etcd_weighted_tree_init(ngx_etcd_treap_t *treap);

/*
 * Allocates the peer's node, which is freed with the peer: NGX_OK or
 * NGX_ERROR.
 */
ngx_int_t ngx_etcd_weighted_tree_reserve(ngx_etcd_peer_t *peer, ngx_log_t *log);


/* Compares two peers by name: < 0, 0, > 0. */
ngx_int_t ngx_etcd_weighted_tree_names(ngx_etcd_peer_t *one,
    ngx_etcd_peer_t *two);

#define ngx_etcd_weighted_tree(n)                                             \
    (ngx_queue_data(n, ngx_etcd_weighted_tree_t, node))
#define ngx_etcd_weighted_tree_sum(n)                                         \
    ((n) == NULL ? 0 : ngx_etcd_weighted_tree(n)->sum)

/* the tree must not be empty */
#define ngx_etcd_weighted_tree_weight(treap)                                  \
    (ngx_etcd_weighted_tree((treap)->root)->sum)

/* Returns the peer that covers the point; 0 <= point < total weight. */
ngx_etcd_peer_t *ngx_etcd_weighted_tree_at(ngx_etcd_treap_t *treap,
    uint64_t point);


#endif /* _NGX_ETCD_WEIGHTED_TREE_H_INCLUDED_ */
