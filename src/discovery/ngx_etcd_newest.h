
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The registrations of one address, in the order of ngx_etcd_entry_newer(),
 * which decides which one the slot shows: a red-black tree.  Each call takes
 * O(log n) steps: thousands of keys may register one address.
 */


#ifndef _NGX_ETCD_NEWEST_H_INCLUDED_
#define _NGX_ETCD_NEWEST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef struct {
    ngx_rbtree_node_t    node;
    uint64_t             revision;   /* constant while it is in a tree */
    uint32_t             serial;     /* likewise */
} ngx_etcd_newest_node_t;


typedef struct {
    ngx_rbtree_t         tree;
    ngx_rbtree_node_t    sentinel;
} ngx_etcd_newest_t;


void ngx_etcd_newest_init(ngx_etcd_newest_t *newest);

/* The caller sets revision and serial before. */
void ngx_etcd_newest_insert(ngx_etcd_newest_t *newest,
    ngx_etcd_newest_node_t *node);
void ngx_etcd_newest_remove(ngx_etcd_newest_t *newest,
    ngx_etcd_newest_node_t *node);

/* Returns the newest node; NULL: the tree is empty. */
ngx_etcd_newest_node_t *ngx_etcd_newest_first(ngx_etcd_newest_t *newest);


#endif /* _NGX_ETCD_NEWEST_H_INCLUDED_ */
