
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_candidates.h>


static void ngx_etcd_candidates_order(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
static void ngx_etcd_candidate_free(ngx_etcd_candidates_t *candidates,
    ngx_etcd_candidate_t *candidate);


void
ngx_etcd_candidates_init(ngx_etcd_candidates_t *candidates, size_t prefix,
    ngx_log_t *log)
{
    candidates->prefix = prefix;
    candidates->generation = 0;
    candidates->log = log;

    ngx_rbtree_init(&candidates->keys, &candidates->keys_sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&candidates->order, &candidates->order_sentinel,
                    ngx_etcd_candidates_order);
}


void
ngx_etcd_candidates_destroy(ngx_etcd_candidates_t *candidates)
{
    ngx_etcd_candidate_t  *candidate;

    for ( ;; ) {
        candidate = ngx_etcd_candidates_first(candidates);

        if (candidate == NULL) {
            return;
        }

        ngx_etcd_candidate_free(candidates, candidate);
    }
}


void
ngx_etcd_candidates_begin(ngx_etcd_candidates_t *candidates)
{
    candidates->generation++;
}


void
ngx_etcd_candidates_end(ngx_etcd_candidates_t *candidates)
{
    ngx_rbtree_node_t     *node, *next;
    ngx_etcd_candidate_t  *candidate;

    if (candidates->order.root == &candidates->order_sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(candidates->order.root,
                               &candidates->order_sentinel);
         node != NULL;
         node = next)
    {
        next = ngx_rbtree_next(&candidates->order, node);
        candidate = ngx_etcd_candidate_of(node);

        if (candidate->generation != candidates->generation) {
            ngx_etcd_candidate_free(candidates, candidate);
        }
    }
}


ngx_int_t
ngx_etcd_candidates_put(ngx_etcd_candidates_t *candidates, Etcd__KeyValue *kv)
{
    u_char                *p;
    size_t                 len;
    ngx_str_t              key;
    ngx_etcd_candidate_t  *candidate;

    key.data = kv->key.data;
    key.len = kv->key.len;

    ngx_etcd_candidates_remove(candidates, &key);

    len = (kv->value.len <= NGX_ETCD_CANDIDATE_MAX_VALUE) ? kv->value.len : 0;

    candidate = ngx_alloc(sizeof(ngx_etcd_candidate_t) + key.len + len,
                          candidates->log);
    if (candidate == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(candidate, sizeof(ngx_etcd_candidate_t));

    p = (u_char *) candidate + sizeof(ngx_etcd_candidate_t);

    candidate->name.str.data = p;
    candidate->name.str.len = key.len;
    candidate->name.node.key = ngx_crc32_long(key.data, key.len);

    p = ngx_cpymem(p, key.data, key.len);

    candidate->value.data = p;
    candidate->value.len = len;

    if (len != 0) {
        ngx_memcpy(p, kv->value.data, len);
    }

    candidate->created = kv->create_revision;
    candidate->modified = kv->mod_revision;
    candidate->lease = kv->lease;
    candidate->generation = candidates->generation;

    ngx_rbtree_insert(&candidates->keys, &candidate->name.node);
    ngx_rbtree_insert(&candidates->order, &candidate->order);

    return NGX_OK;
}


void
ngx_etcd_candidates_remove(ngx_etcd_candidates_t *candidates, ngx_str_t *key)
{
    ngx_etcd_candidate_t  *candidate;

    candidate = ngx_etcd_candidates_find(candidates, key);

    if (candidate != NULL) {
        ngx_etcd_candidate_free(candidates, candidate);
    }
}


ngx_etcd_candidate_t *
ngx_etcd_candidates_find(ngx_etcd_candidates_t *candidates, ngx_str_t *key)
{
    return (ngx_etcd_candidate_t *)
               ngx_str_rbtree_lookup(&candidates->keys, key,
                                     ngx_crc32_long(key->data, key->len));
}


ngx_etcd_candidate_t *
ngx_etcd_candidates_first(ngx_etcd_candidates_t *candidates)
{
    ngx_rbtree_t  *order;

    order = &candidates->order;

    if (order->root == order->sentinel) {
        return NULL;
    }

    return ngx_etcd_candidate_of(ngx_rbtree_min(order->root,
                                                order->sentinel));
}


ngx_uint_t
ngx_etcd_candidates_tied(ngx_etcd_candidates_t *candidates)
{
    ngx_rbtree_node_t     *next;
    ngx_etcd_candidate_t  *first;

    first = ngx_etcd_candidates_first(candidates);

    if (first == NULL) {
        return 0;
    }

    next = ngx_rbtree_next(&candidates->order, &first->order);

    return next != NULL
           && ngx_etcd_candidate_of(next)->created == first->created;
}


static void
ngx_etcd_candidates_order(ngx_rbtree_node_t *temp, ngx_rbtree_node_t *node,
    ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_node_t  **p;

    for ( ;; ) {
        p = (ngx_etcd_candidate_of(node)->created
             < ngx_etcd_candidate_of(temp)->created)
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


/*
 * Below the prefix is the lease, in hexadecimal digits without padding, or in
 * decimal ones where the key has just that lease.
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


static void
ngx_etcd_candidate_free(ngx_etcd_candidates_t *candidates,
    ngx_etcd_candidate_t *candidate)
{
    ngx_rbtree_delete(&candidates->keys, &candidate->name.node);
    ngx_rbtree_delete(&candidates->order, &candidate->order);

    ngx_free(candidate);
}
