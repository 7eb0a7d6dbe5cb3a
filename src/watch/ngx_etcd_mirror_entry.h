
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The entries of a mirror: their memory, and their order.  Private to the
 * mirror.
 */


#ifndef _NGX_ETCD_MIRROR_ENTRY_H_INCLUDED_
#define _NGX_ETCD_MIRROR_ENTRY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_mirror.h>


/* deleted ones, too; NULL: there is none */
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_entry_find(ngx_etcd_mirror_t *mirror,
    ngx_str_t *key);

/* without a place in the order; NULL: no memory */
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_entry_create(
    ngx_etcd_mirror_t *mirror, ngx_str_t *key);

/* no part of the mirror any more; must not have a place in the order */
void ngx_etcd_mirror_entry_detach(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);

/* the same, and frees it, unless it is held */
void ngx_etcd_mirror_entry_free(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);

/* copies what is kept of the bytes; NGX_ERROR: no memory */
ngx_int_t ngx_etcd_mirror_entry_value(ngx_etcd_mirror_t *mirror,
    ProtobufCBinaryData *bytes, ngx_str_t *value);

/* the entry keeps such a copy, or nothing if its data is NULL */
void ngx_etcd_mirror_entry_keep(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry, ngx_str_t *value);

/* into the order, if there is one, by its revisions; and out of it */
void ngx_etcd_mirror_entry_place(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);
void ngx_etcd_mirror_entry_unplace(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);

/* the first in the order, and the one after an entry; NULL: there is none */
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_entry_first(
    ngx_etcd_mirror_t *mirror);
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_entry_next(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);

/* of the tree */
void ngx_etcd_mirror_entry_insert(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);


#endif /* _NGX_ETCD_MIRROR_ENTRY_H_INCLUDED_ */
