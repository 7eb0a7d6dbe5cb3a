
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_newest.h>


#define ngx_etcd_newest_node(n)                                               \
    ((ngx_etcd_newest_node_t *)                                               \
     ((u_char *) (n) - offsetof(ngx_etcd_newest_node_t, node)))


static void ngx_etcd_newest_put(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);


void
ngx_etcd_newest_init(ngx_etcd_newest_t *newest)
{
    ngx_rbtree_init(&newest->tree, &newest->sentinel, ngx_etcd_newest_put);
}


void
ngx_etcd_newest_insert(ngx_etcd_newest_t *newest, ngx_etcd_newest_node_t *node)
{
    ngx_rbtree_insert(&newest->tree, &node->node);
}


void
ngx_etcd_newest_remove(ngx_etcd_newest_t *newest, ngx_etcd_newest_node_t *node)
{
    ngx_rbtree_delete(&newest->tree, &node->node);
}


/* The newest node is the rightmost one. */

ngx_etcd_newest_node_t *
ngx_etcd_newest_first(ngx_etcd_newest_t *newest)
{
    ngx_rbtree_node_t  *node, *sentinel;

    node = newest->tree.root;
    sentinel = newest->tree.sentinel;

    if (node == sentinel) {
        return NULL;
    }

    while (node->right != sentinel) {
        node = node->right;
    }

    return ngx_etcd_newest_node(node);
}


static void
ngx_etcd_newest_put(ngx_rbtree_node_t *temp, ngx_rbtree_node_t *node,
    ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_node_t       **p;
    ngx_etcd_newest_node_t   *one, *two;

    one = ngx_etcd_newest_node(node);

    for ( ;; ) {
        two = ngx_etcd_newest_node(temp);

        p = (one->revision < two->revision
             || (one->revision == two->revision && one->serial < two->serial))
            ? &temp->left : &temp->right;

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    *p = node;
    node->parent = temp;
    node->left = sentinel;
    node->right = sentinel;
    ngx_rbt_red(node);
}
