
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_mirror_entry.h>


/* follows the entry and the consumer's data in an ordered mirror */

typedef struct {
    ngx_rbtree_node_t            node;         /* must be the first field */
    int64_t                      revision;
} ngx_etcd_mirror_place_t;


#define ngx_etcd_mirror_place_of(entries, entry)                              \
    ((ngx_etcd_mirror_place_t *) ((u_char *) (entry) + (entries)->entry_size))

#define ngx_etcd_mirror_entry_at(entries, node)                               \
    ((ngx_etcd_mirror_entry_t *) ((u_char *) (node) - (entries)->entry_size))


static void
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


void
ngx_etcd_mirror_entry_init(ngx_etcd_mirror_entries_t *entries, ngx_log_t *log)
{
    if (entries->entry_size == 0) {
        entries->entry_size = sizeof(ngx_etcd_mirror_entry_t);
    }

    entries->sum = &entries->own;

    ngx_etcd_hash_table_init(&entries->table, log);
    ngx_queue_init(&entries->queue);
    ngx_rbtree_init(&entries->tree, &entries->sentinel,
                    ngx_etcd_mirror_entry_insert);
}


void
ngx_etcd_mirror_entry_done(ngx_etcd_mirror_entries_t *entries)
{
    ngx_queue_t              *q;
    ngx_etcd_mirror_entry_t  *entry;

    while (!ngx_queue_empty(&entries->queue)) {
        q = ngx_queue_head(&entries->queue);
        entry = ngx_queue_data(q, ngx_etcd_mirror_entry_t, queue);

        ngx_etcd_mirror_entry_unplace(entries, entry);
        ngx_etcd_mirror_entry_free(entries, entry);
    }

    entries->n = 0;

    ngx_etcd_hash_table_done(&entries->table);
}


static size_t
ngx_etcd_mirror_entry_size(ngx_etcd_mirror_entries_t *entries, ngx_str_t *key)
{
    size_t  size;

    size = entries->entry_size + key->len;

    if (entries->ordered) {
        size += sizeof(ngx_etcd_mirror_place_t);
    }

    return size;
}


ngx_etcd_mirror_entry_t *
ngx_etcd_mirror_entry_create(ngx_etcd_mirror_entries_t *entries, ngx_str_t *key)
{
    size_t                    size;
    ngx_etcd_mirror_entry_t  *entry;

    size = ngx_etcd_mirror_entry_size(entries, key);

    entry = ngx_etcd_hash_table_add(&entries->table, key, size - key->len);
    if (entry == NULL) {
        return NULL;
    }

    ngx_queue_insert_tail(&entries->queue, &entry->queue);
    entries->size += size;

    return entry;
}


void
ngx_etcd_mirror_entry_free(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_str_t  none;

    if (entry->held) {
        return;
    }

    ngx_str_null(&none);
    ngx_etcd_mirror_entry_keep(entries, entry, &none);

    ngx_etcd_mirror_entry_detach(entries, entry);
    ngx_free(entry);
}


void
ngx_etcd_mirror_entry_detach(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry)
{
    entries->size -= ngx_etcd_mirror_entry_size(entries, &entry->key);

    ngx_queue_remove(&entry->queue);
    ngx_etcd_hash_table_remove(&entries->table, &entry->key);
}


ngx_int_t
ngx_etcd_mirror_entry_value(ngx_etcd_mirror_entries_t *entries,
    ProtobufCBinaryData *bytes, ngx_str_t *value)
{
    value->len = ngx_min(bytes->len, entries->keep);
    value->data = ngx_alloc(value->len + 1, entries->table.log);

    if (value->data == NULL) {
        return NGX_ERROR;
    }

    if (value->len != 0) {
        ngx_memcpy(value->data, bytes->data, value->len);
    }

    return NGX_OK;
}


void
ngx_etcd_mirror_entry_keep(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry, ngx_str_t *value)
{
    if (entry->value.data != NULL) {
        entries->size -= entry->value.len + 1;
        ngx_free(entry->value.data);
    }

    entry->value = *value;

    if (value->data != NULL) {
        entries->size += value->len + 1;
    }
}


/* The end is the finalizer of SplitMix64 (Steele, Lea, Flood 2014). */

uint64_t
ngx_etcd_mirror_entry_sum(ngx_str_t *key, int64_t mod_revision)
{
    uint64_t  x;

    x = (uint64_t) mod_revision * 0x9e3779b97f4a7c15ULL
        + ngx_murmur_hash2(key->data, key->len);

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;

    return x ^ (x >> 31);
}


void
ngx_etcd_mirror_entry_place(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_mirror_place_t  *place;

    *entries->sum += ngx_etcd_mirror_entry_sum(&entry->key,
                                               entry->mod_revision);

    if (!entries->ordered) {
        return;
    }

    place = ngx_etcd_mirror_place_of(entries, entry);

    place->revision = entry->create_revision;

    ngx_rbtree_insert(&entries->tree, &place->node);
}


void
ngx_etcd_mirror_entry_unplace(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry)
{
    *entries->sum -= ngx_etcd_mirror_entry_sum(&entry->key,
                                               entry->mod_revision);

    if (entries->ordered) {
        ngx_rbtree_delete(&entries->tree,
                          &ngx_etcd_mirror_place_of(entries, entry)->node);
    }
}


/* Returns the entry at that place of the queue; NULL: end. */

static ngx_etcd_mirror_entry_t *
ngx_etcd_mirror_entry_of(ngx_etcd_mirror_entries_t *entries, ngx_queue_t *q)
{
    return (q != ngx_queue_sentinel(&entries->queue))
           ? ngx_queue_data(q, ngx_etcd_mirror_entry_t, queue) : NULL;
}


ngx_etcd_mirror_entry_t *
ngx_etcd_mirror_entry_first(ngx_etcd_mirror_entries_t *entries)
{
    ngx_rbtree_t  *tree;

    if (!entries->ordered) {
        return ngx_etcd_mirror_entry_of(entries,
                                        ngx_queue_head(&entries->queue));
    }

    tree = &entries->tree;

    return (tree->root != tree->sentinel)
           ? ngx_etcd_mirror_entry_at(entries, ngx_rbtree_min(tree->root,
                                                              tree->sentinel))
           : NULL;
}


ngx_etcd_mirror_entry_t *
ngx_etcd_mirror_entry_next(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_rbtree_node_t  *node;

    if (!entries->ordered) {
        return ngx_etcd_mirror_entry_of(entries, ngx_queue_next(&entry->queue));
    }

    node = ngx_rbtree_next(&entries->tree,
                           &ngx_etcd_mirror_place_of(entries, entry)->node);

    return (node != NULL) ? ngx_etcd_mirror_entry_at(entries, node) : NULL;
}


/*
 * The name below the prefix is the lease in hexadecimal digits without padding,
 * or in decimal digits if it equals the key's lease.
 */

const char *
ngx_etcd_candidate_fault(ngx_etcd_mirror_entry_t *entry, size_t prefix)
{
    size_t     i;
    ngx_str_t  name;

    if (entry->value.len > NGX_ETCD_CANDIDATE_MAX_VALUE) {
        return "its value is too long";
    }

    if (ngx_etcd_candidate_decimal(&entry->key, entry->lease, prefix)) {
        return NULL;
    }

    name.data = entry->key.data + prefix;
    name.len = entry->key.len - prefix;

    if (name.len == 0 || name.len > 16 || name.data[0] == '0') {
        return "its name is no lease";
    }

    for (i = 0; i < name.len; i++) {
        if ((name.data[i] < '0' || name.data[i] > '9')
            && (name.data[i] < 'a' || name.data[i] > 'f'))
        {
            return "its name is no lease";
        }
    }

    return NULL;
}


ngx_uint_t
ngx_etcd_candidate_decimal(ngx_str_t *key, int64_t lease, size_t prefix)
{
    size_t  len;
    u_char  name[NGX_INT64_LEN];

    len = ngx_sprintf(name, "%L", lease) - name;

    return lease != 0
           && key->len == prefix + len
           && ngx_memcmp(key->data + prefix, name, len) == 0;
}
