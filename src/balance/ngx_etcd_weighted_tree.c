
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_order.h>


static ngx_int_t ngx_etcd_order_compare(ngx_etcd_node_t *one,
    ngx_etcd_node_t *two);
static void ngx_etcd_order_update(ngx_etcd_node_t *node);


void
ngx_etcd_order_init(ngx_etcd_treap_t *treap)
{
    treap->root = NULL;
    treap->compare = ngx_etcd_order_compare;
    treap->update = ngx_etcd_order_update;
}


ngx_int_t
ngx_etcd_order_reserve(ngx_etcd_peer_t *peer, ngx_log_t *log)
{
    peer->order = ngx_alloc(sizeof(ngx_etcd_order_t), log);
    if (peer->order == NULL) {
        return NGX_ERROR;
    }

    peer->order->node.priority = 0;
    peer->order->peer = peer;

    return NGX_OK;
}


void
ngx_etcd_order_add(ngx_etcd_treap_t *treap, ngx_etcd_peer_t *peer)
{
    ngx_etcd_treap_insert(treap, &peer->order->node);
}


void
ngx_etcd_order_remove(ngx_etcd_treap_t *treap, ngx_etcd_peer_t *peer)
{
    ngx_etcd_treap_remove(treap, &peer->order->node);
}


ngx_etcd_peer_t *
ngx_etcd_order_at(ngx_etcd_treap_t *treap, uint64_t point)
{
    uint64_t          left;
    ngx_etcd_node_t  *node;
    ngx_etcd_peer_t  *peer;

    node = treap->root;

    for ( ;; ) {
        left = ngx_etcd_order_sum(node->left);

        if (point < left) {
            node = node->left;
            continue;
        }

        point -= left;
        peer = ngx_etcd_order(node)->peer;

        if (point < peer->attr.weight) {
            return peer;
        }

        point -= peer->attr.weight;
        node = node->right;
    }
}


ngx_int_t
ngx_etcd_order_names(ngx_etcd_peer_t *one, ngx_etcd_peer_t *two)
{
    ngx_int_t  rc;

    rc = ngx_memcmp(one->name.data, two->name.data,
                    ngx_min(one->name.len, two->name.len));

    return (rc != 0) ? rc : (ngx_int_t) one->name.len
                            - (ngx_int_t) two->name.len;
}


static ngx_int_t
ngx_etcd_order_compare(ngx_etcd_node_t *one, ngx_etcd_node_t *two)
{
    ngx_int_t         rc;
    ngx_etcd_peer_t  *a, *b;

    a = ngx_etcd_order(one)->peer;
    b = ngx_etcd_order(two)->peer;

    rc = ngx_etcd_order_names(a, b);

    return (rc != 0) ? rc : (ngx_int_t) a->uid - (ngx_int_t) b->uid;
}


static void
ngx_etcd_order_update(ngx_etcd_node_t *node)
{
    ngx_etcd_order_t  *order;

    order = ngx_etcd_order(node);

    order->sum = order->peer->attr.weight + ngx_etcd_order_sum(node->left)
                 + ngx_etcd_order_sum(node->right);
}
