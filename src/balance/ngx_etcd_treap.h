
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Ordered trees whose nodes say something about all that is below them: a
 * search tree by the order of its owner, balanced by random priorities.  All
 * calls take O(log n) steps.
 */


#ifndef _NGX_ETCD_TREAP_H_INCLUDED_
#define _NGX_ETCD_TREAP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef struct ngx_etcd_node_s  ngx_etcd_node_t;


struct ngx_etcd_node_s {
    ngx_etcd_node_t     *left;
    ngx_etcd_node_t     *right;
    uint32_t             priority;   /* drawn once; 0: it was not yet */
};


typedef struct {
    ngx_etcd_node_t     *root;

    /* below 0, above 0; 0 of a node and itself only */
    ngx_int_t          (*compare)(ngx_etcd_node_t *one, ngx_etcd_node_t *two);

    /* those below have changed; or NULL */
    void               (*update)(ngx_etcd_node_t *node);
} ngx_etcd_treap_t;


void ngx_etcd_treap_insert(ngx_etcd_treap_t *treap, ngx_etcd_node_t *node);

/* the node is in the tree, and in the order it was inserted by */
void ngx_etcd_treap_remove(ngx_etcd_treap_t *treap, ngx_etcd_node_t *node);

/* handler (or NULL) and update() of all, of a node after those below it */
void ngx_etcd_treap_each(ngx_etcd_treap_t *treap,
    void (*handler)(ngx_etcd_node_t *node, void *data), void *data);


#endif /* _NGX_ETCD_TREAP_H_INCLUDED_ */
