
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Treaps (Seidel, Aragon 1996): search trees balanced by random priorities.
 * A node may aggregate the nodes below it.  Insertion and removal take
 * O(log n) expected steps.
 */


#ifndef _NGX_ETCD_TREAP_H_INCLUDED_
#define _NGX_ETCD_TREAP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef struct ngx_etcd_node_s  ngx_etcd_node_t;


struct ngx_etcd_node_s {
    ngx_etcd_node_t     *left;
    ngx_etcd_node_t     *right;
    uint32_t             priority;   /* random, fixed; 0: not drawn yet */
    uint32_t             data;       /* the owner's */
};


typedef struct {
    ngx_etcd_node_t     *root;

    /* < 0, > 0; 0 only if both are the same node */
    ngx_int_t          (*compare)(ngx_etcd_node_t *one, ngx_etcd_node_t *two);

    /* recomputes the aggregate after a change below the node; or NULL */
    void               (*update)(ngx_etcd_node_t *node);
} ngx_etcd_treap_t;


void ngx_etcd_treap_insert(ngx_etcd_treap_t *treap, ngx_etcd_node_t *node);

/* The node must be in the tree, with an unchanged order. */
void ngx_etcd_treap_remove(ngx_etcd_treap_t *treap, ngx_etcd_node_t *node);

/*
 * Calls handler (or NULL) and update() for the node, which may be NULL, and for
 * all nodes below, children first.
 */
void ngx_etcd_treap_each(ngx_etcd_treap_t *treap, ngx_etcd_node_t *node,
    void (*handler)(ngx_etcd_node_t *node, void *data), void *data);


#endif /* _NGX_ETCD_TREAP_H_INCLUDED_ */
