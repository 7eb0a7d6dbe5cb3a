
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_newest.h>


#define ngx_etcd_newest_node(n)  ((ngx_etcd_newest_node_t *) (n))


static ngx_int_t
ngx_etcd_newest_compare(ngx_etcd_node_t *one, ngx_etcd_node_t *two)
{
    ngx_etcd_newest_node_t  *a, *b;

    a = ngx_etcd_newest_node(one);
    b = ngx_etcd_newest_node(two);

    if (a->revision != b->revision) {
        return (a->revision < b->revision) ? -1 : 1;
    }

    if (one->data != two->data) {
        return (one->data < two->data) ? -1 : 1;
    }

    return (one < two) ? -1 : (one > two);
}


/* A treap for each address takes as much memory as its nodes: the root does. */

void
ngx_etcd_newest_insert(ngx_etcd_node_t **root, ngx_etcd_newest_node_t *node)
{
    ngx_etcd_treap_t  treap;

    treap.root = *root;
    treap.compare = ngx_etcd_newest_compare;
    treap.update = NULL;

    ngx_etcd_treap_insert(&treap, &node->node);

    *root = treap.root;
}


void
ngx_etcd_newest_remove(ngx_etcd_node_t **root, ngx_etcd_newest_node_t *node)
{
    ngx_etcd_treap_t  treap;

    treap.root = *root;
    treap.compare = ngx_etcd_newest_compare;
    treap.update = NULL;

    ngx_etcd_treap_remove(&treap, &node->node);

    *root = treap.root;
}


/* The newest node is the rightmost one. */

ngx_etcd_newest_node_t *
ngx_etcd_newest_first(ngx_etcd_node_t *root)
{
    if (root == NULL) {
        return NULL;
    }

    while (root->right != NULL) {
        root = root->right;
    }

    return ngx_etcd_newest_node(root);
}
