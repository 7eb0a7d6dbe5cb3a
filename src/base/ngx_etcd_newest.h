
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The registrations of one address, in the order of ngx_etcd_entry_newer(),
 * which decides which one the slot shows: a treap.  Each call takes O(log n)
 * expected steps: thousands of keys may register one address.
 */


#ifndef _NGX_ETCD_NEWEST_H_INCLUDED_
#define _NGX_ETCD_NEWEST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_treap.h>


typedef struct {
    ngx_etcd_node_t      node;       /* first */
    uint64_t             revision;   /* constant while it is in a tree */
} ngx_etcd_newest_node_t;


/* the serial of an entry, likewise */
#define ngx_etcd_newest_serial(n)    ((n)->node.data)


/*
 * A tree is its root; NULL: it is empty.  The caller sets revision and serial
 * of a zeroed node before it is inserted.
 */
void ngx_etcd_newest_insert(ngx_etcd_node_t **root,
    ngx_etcd_newest_node_t *node);
void ngx_etcd_newest_remove(ngx_etcd_node_t **root,
    ngx_etcd_newest_node_t *node);

/* Returns the newest node; NULL: the tree is empty. */
ngx_etcd_newest_node_t *ngx_etcd_newest_first(ngx_etcd_node_t *root);


#endif /* _NGX_ETCD_NEWEST_H_INCLUDED_ */
