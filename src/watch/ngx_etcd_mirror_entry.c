
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_mirror_entry.h>


/* behind an entry of an ordered mirror */

typedef struct {
    ngx_rbtree_node_t            node;         /* first */
    int64_t                      revision;
} ngx_etcd_mirror_place_t;


#define ngx_etcd_mirror_place_of(mirror, entry)                               \
    ((ngx_etcd_mirror_place_t *) ((u_char *) (entry) + (mirror)->entry_size))

#define ngx_etcd_mirror_entry_at(mirror, node)                                \
    ((ngx_etcd_mirror_entry_t *) ((u_char *) (node) - (mirror)->entry_size))


static size_t ngx_etcd_mirror_entry_size(ngx_etcd_mirror_t *mirror,
    ngx_str_t *key);


ngx_etcd_mirror_entry_t *
ngx_etcd_mirror_entry_find(ngx_etcd_mirror_t *mirror, ngx_str_t *key)
{
    return ngx_etcd_map_find(&mirror->map, key);
}


ngx_etcd_mirror_entry_t *
ngx_etcd_mirror_entry_create(ngx_etcd_mirror_t *mirror, ngx_str_t *key)
{
    size_t                    size;
    ngx_etcd_mirror_entry_t  *entry;

    size = ngx_etcd_mirror_entry_size(mirror, key);

    entry = ngx_etcd_map_add(&mirror->map, key, size - key->len);
    if (entry == NULL) {
        return NULL;
    }

    entry->epoch = mirror->epoch;

    ngx_queue_insert_tail(&mirror->entries, &entry->queue);
    mirror->size += size;

    return entry;
}


void
ngx_etcd_mirror_entry_free(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_str_t  none;

    if (entry->held) {
        return;
    }

    ngx_str_null(&none);
    ngx_etcd_mirror_entry_keep(mirror, entry, &none);

    ngx_etcd_mirror_entry_detach(mirror, entry);
    ngx_free(entry);
}


void
ngx_etcd_mirror_entry_detach(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    mirror->size -= ngx_etcd_mirror_entry_size(mirror, &entry->key);

    ngx_queue_remove(&entry->queue);
    ngx_etcd_map_remove(&mirror->map, &entry->key);
}


static size_t
ngx_etcd_mirror_entry_size(ngx_etcd_mirror_t *mirror, ngx_str_t *key)
{
    size_t  size;

    size = mirror->entry_size + key->len;

    if (mirror->order != NGX_ETCD_MIRROR_UNORDERED) {
        size += sizeof(ngx_etcd_mirror_place_t);
    }

    return size;
}


ngx_int_t
ngx_etcd_mirror_entry_value(ngx_etcd_mirror_t *mirror,
    ProtobufCBinaryData *bytes, ngx_str_t *value)
{
    value->len = ngx_min(bytes->len, mirror->keep);
    value->data = ngx_alloc(value->len + 1, mirror->map.log);

    if (value->data == NULL) {
        return NGX_ERROR;
    }

    if (value->len != 0) {
        ngx_memcpy(value->data, bytes->data, value->len);
    }

    return NGX_OK;
}


void
ngx_etcd_mirror_entry_keep(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry, ngx_str_t *value)
{
    if (entry->value.data != NULL) {
        mirror->size -= entry->value.len + 1;
        ngx_free(entry->value.data);
    }

    entry->value = *value;

    if (value->data != NULL) {
        mirror->size += value->len + 1;
    }
}


void
ngx_etcd_mirror_entry_place(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_mirror_place_t  *place;

    if (mirror->order == NGX_ETCD_MIRROR_UNORDERED) {
        return;
    }

    place = ngx_etcd_mirror_place_of(mirror, entry);

    place->revision = (mirror->order == NGX_ETCD_MIRROR_BY_CREATE)
                      ? entry->create_revision : entry->mod_revision;

    ngx_rbtree_insert(&mirror->tree, &place->node);
}


void
ngx_etcd_mirror_entry_unplace(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    if (mirror->order != NGX_ETCD_MIRROR_UNORDERED) {
        ngx_rbtree_delete(&mirror->tree,
                          &ngx_etcd_mirror_place_of(mirror, entry)->node);
    }
}


ngx_etcd_mirror_entry_t *
ngx_etcd_mirror_entry_first(ngx_etcd_mirror_t *mirror)
{
    ngx_rbtree_t  *tree;

    tree = &mirror->tree;

    return (tree->root != tree->sentinel)
           ? ngx_etcd_mirror_entry_at(mirror, ngx_rbtree_min(tree->root,
                                                     tree->sentinel))
           : NULL;
}


ngx_etcd_mirror_entry_t *
ngx_etcd_mirror_entry_next(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_rbtree_node_t  *node;

    node = ngx_rbtree_next(&mirror->tree,
                           &ngx_etcd_mirror_place_of(mirror, entry)->node);

    return (node != NULL) ? ngx_etcd_mirror_entry_at(mirror, node) : NULL;
}


void
ngx_etcd_mirror_entry_insert(ngx_rbtree_node_t *temp, ngx_rbtree_node_t *node,
    ngx_rbtree_node_t *sentinel)
{
    int64_t              revision;
    ngx_rbtree_node_t  **p;

    revision = ((ngx_etcd_mirror_place_t *) node)->revision;

    for ( ;; ) {
        p = (revision < ((ngx_etcd_mirror_place_t *) temp)->revision)
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
