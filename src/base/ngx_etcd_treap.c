
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_treap.h>


static ngx_inline void
ngx_etcd_treap_update(ngx_etcd_treap_t *treap, ngx_etcd_node_t *node)
{
    if (treap->update != NULL) {
        treap->update(node);
    }
}


static void
ngx_etcd_treap_split(ngx_etcd_treap_t *treap, ngx_etcd_node_t *root,
    ngx_etcd_node_t *at, ngx_etcd_node_t **left, ngx_etcd_node_t **right)
{
    if (root == NULL) {
        *left = NULL;
        *right = NULL;
        return;
    }

    if (treap->compare(root, at) < 0) {
        ngx_etcd_treap_split(treap, root->right, at, &root->right, right);
        *left = root;

    } else {
        ngx_etcd_treap_split(treap, root->left, at, left, &root->left);
        *right = root;
    }

    ngx_etcd_treap_update(treap, root);
}


static ngx_etcd_node_t *
ngx_etcd_treap_put(ngx_etcd_treap_t *treap, ngx_etcd_node_t *root,
    ngx_etcd_node_t *node)
{
    if (root == NULL) {
        root = node;

    } else if (root->priority < node->priority) {
        ngx_etcd_treap_split(treap, root, node, &node->left, &node->right);
        root = node;

    } else if (treap->compare(node, root) < 0) {
        root->left = ngx_etcd_treap_put(treap, root->left, node);

    } else {
        root->right = ngx_etcd_treap_put(treap, root->right, node);
    }

    ngx_etcd_treap_update(treap, root);

    return root;
}


void
ngx_etcd_treap_insert(ngx_etcd_treap_t *treap, ngx_etcd_node_t *node)
{
    node->left = NULL;
    node->right = NULL;

    if (node->priority == 0) {
        node->priority = (uint32_t) ngx_random() | 1;
    }

    treap->root = ngx_etcd_treap_put(treap, treap->root, node);
}


static ngx_etcd_node_t *
ngx_etcd_treap_merge(ngx_etcd_treap_t *treap, ngx_etcd_node_t *left,
    ngx_etcd_node_t *right)
{
    if (left == NULL || right == NULL) {
        return (left != NULL) ? left : right;
    }

    if (left->priority > right->priority) {
        left->right = ngx_etcd_treap_merge(treap, left->right, right);
        ngx_etcd_treap_update(treap, left);
        return left;
    }

    right->left = ngx_etcd_treap_merge(treap, left, right->left);
    ngx_etcd_treap_update(treap, right);

    return right;
}


static ngx_etcd_node_t *
ngx_etcd_treap_cut(ngx_etcd_treap_t *treap, ngx_etcd_node_t *root,
    ngx_etcd_node_t *node)
{
    if (root == node) {
        return ngx_etcd_treap_merge(treap, node->left, node->right);
    }

    if (treap->compare(node, root) < 0) {
        root->left = ngx_etcd_treap_cut(treap, root->left, node);

    } else {
        root->right = ngx_etcd_treap_cut(treap, root->right, node);
    }

    ngx_etcd_treap_update(treap, root);

    return root;
}


void
ngx_etcd_treap_remove(ngx_etcd_treap_t *treap, ngx_etcd_node_t *node)
{
    treap->root = ngx_etcd_treap_cut(treap, treap->root, node);
}


void
ngx_etcd_treap_each(ngx_etcd_treap_t *treap, ngx_etcd_node_t *node,
    void (*handler)(ngx_etcd_node_t *node, void *data), void *data)
{
    if (node == NULL) {
        return;
    }

    ngx_etcd_treap_each(treap, node->left, handler, data);
    ngx_etcd_treap_each(treap, node->right, handler, data);

    if (handler != NULL) {
        handler(node, data);
    }

    ngx_etcd_treap_update(treap, node);
}
