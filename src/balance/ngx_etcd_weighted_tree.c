
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_weighted_tree.h>


static ngx_int_t
ngx_etcd_weighted_tree_compare(ngx_etcd_node_t *one, ngx_etcd_node_t *two)
{
    ngx_int_t         rc;
    ngx_etcd_peer_t  *a, *b;

    a = ngx_etcd_weighted_tree(one)->peer;
    b = ngx_etcd_weighted_tree(two)->peer;

    rc = ngx_etcd_weighted_tree_names(a, b);

    return (rc != 0) ? rc : (ngx_int_t) a->uid - (ngx_int_t) b->uid;
}


static void
ngx_etcd_weighted_tree_update(ngx_etcd_node_t *node)
{
    ngx_etcd_weighted_tree_t  *weighted;

    weighted = ngx_etcd_weighted_tree(node);

    weighted->sum = weighted->peer->attr.weight
                    + ngx_etcd_weighted_tree_sum(node->left)
                    + ngx_etcd_weighted_tree_sum(node->right);
}


void
ngx_etcd_weighted_tree_init(ngx_etcd_treap_t *treap)
{
    treap->root = NULL;
    treap->compare = ngx_etcd_weighted_tree_compare;
    treap->update = ngx_etcd_weighted_tree_update;
}


ngx_int_t
ngx_etcd_weighted_tree_reserve(ngx_etcd_peer_t *peer, ngx_log_t *log)
{
    peer->weighted = ngx_alloc(sizeof(ngx_etcd_weighted_tree_t), log);
    if (peer->weighted == NULL) {
        return NGX_ERROR;
    }

    peer->weighted->node.priority = 0;
    peer->weighted->peer = peer;

    return NGX_OK;
}


ngx_etcd_peer_t *
ngx_etcd_weighted_tree_at(ngx_etcd_treap_t *treap, uint64_t point)
{
    uint64_t          left;
    ngx_etcd_node_t  *node;
    ngx_etcd_peer_t  *peer;

    node = treap->root;

    for ( ;; ) {
        left = ngx_etcd_weighted_tree_sum(node->left);

        if (point < left) {
            node = node->left;
            continue;
        }

        point -= left;
        peer = ngx_etcd_weighted_tree(node)->peer;

        if (point < peer->attr.weight) {
            return peer;
        }

        point -= peer->attr.weight;
        node = node->right;
    }
}


ngx_int_t
ngx_etcd_weighted_tree_names(ngx_etcd_peer_t *one, ngx_etcd_peer_t *two)
{
    ngx_int_t  rc;

    rc = ngx_memcmp(one->name.data, two->name.data,
                    ngx_min(one->name.len, two->name.len));

    return (rc != 0) ? rc : (ngx_int_t) one->name.len
                            - (ngx_int_t) two->name.len;
}
