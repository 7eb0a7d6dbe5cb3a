
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_sweep.h>
#include <ngx_etcd_clock.h>


void
ngx_etcd_sweep_init(ngx_etcd_sweep_t *sweep)
{
    ngx_rbtree_init(&sweep->numbers, &sweep->sentinel,
                    ngx_rbtree_insert_value);
}


void
ngx_etcd_sweep_add(ngx_etcd_sweep_t *sweep, ngx_rbtree_node_t *node,
    ngx_uint_t number)
{
    node->key = number;

    ngx_rbtree_insert(&sweep->numbers, node);
}


void
ngx_etcd_sweep_remove(ngx_etcd_sweep_t *sweep, ngx_rbtree_node_t *node)
{
    if (node->key != 0) {
        ngx_rbtree_delete(&sweep->numbers, node);
        node->key = 0;
    }
}


/* Returns the number in a name LEASE-NUMBER of this lease, or NGX_ERROR. */

static ngx_int_t
ngx_etcd_sweep_number(ngx_etcd_sweep_t *sweep, ngx_str_t *key)
{
    size_t   n;
    u_char  *p, *last;
    u_char   lease[sizeof("/-") - 1 + 16];

    n = ngx_sprintf(lease, "/%xL-", sweep->lease) - lease;

    last = key->data + key->len;

    for (p = last; p > key->data && p[-1] != '-'; p--) { /* void */ }

    if ((size_t) (p - key->data) < n || ngx_memcmp(p - n, lease, n) != 0) {
        return NGX_ERROR;
    }

    return ngx_hextoi(p, last - p);
}


static ngx_uint_t
ngx_etcd_sweep_known(ngx_etcd_sweep_t *sweep, ngx_uint_t number)
{
    ngx_rbtree_node_t  *node, *sentinel;

    node = sweep->numbers.root;
    sentinel = sweep->numbers.sentinel;

    while (node != sentinel) {

        if (number == node->key) {
            return 1;
        }

        node = (number < node->key) ? node->left : node->right;
    }

    return 0;
}


static void
ngx_etcd_sweep_keys(ngx_etcd_lease_ttl_t *lease_ttl, ProtobufCBinaryData *keys,
    size_t n, int64_t revision)
{
    size_t             i;
    ngx_int_t          number;
    ngx_str_t          key;
    ngx_etcd_sweep_t  *sweep;

    sweep = lease_ttl->data;

    if (revision <= 0) {
        return;
    }

    for (i = 0; i < n; i++) {
        key = ngx_etcd_bytes_str(&keys[i]);
        number = ngx_etcd_sweep_number(sweep, &key);

        if (number > 0 && !ngx_etcd_sweep_known(sweep, number)) {
            sweep->found(sweep->data, &key, number, revision);
        }
    }

    sweep->answered = 1;
}


static void
ngx_etcd_sweep_done(ngx_etcd_lease_ttl_t *lease_ttl, uint64_t until)
{
    ngx_etcd_sweep_t  *sweep = lease_ttl->data;

    ngx_add_timer(&sweep->timer, NGX_ETCD_SWEEP_INTERVAL);

    if (sweep->answered) {
        sweep->swept(sweep->data);
    }
}


static void
ngx_etcd_sweep_timer(ngx_event_t *ev)
{
    ngx_etcd_sweep_t  *sweep = ev->data;

    sweep->answered = 0;

    ngx_etcd_lease_ttl_ask(&sweep->lease_ttl);
}


void
ngx_etcd_sweep_begin(ngx_etcd_sweep_t *sweep, int64_t lease)
{
    ngx_etcd_lease_ttl_t  *lease_ttl;

    if (sweep->lease != lease) {
        ngx_etcd_sweep_end(sweep);
    }

    sweep->since = ngx_etcd_clock();

    if (sweep->lease != 0) {
        return;
    }

    sweep->lease = lease;

    lease_ttl = &sweep->lease_ttl;

    lease_ttl->cluster = sweep->cluster;
    lease_ttl->lease = lease;
    lease_ttl->timeout = NGX_ETCD_SWEEP_INTERVAL;
    lease_ttl->keys = ngx_etcd_sweep_keys;
    lease_ttl->done = ngx_etcd_sweep_done;
    lease_ttl->data = sweep;

    ngx_etcd_event_init_timer(&sweep->timer, ngx_etcd_sweep_timer, sweep,
                              sweep->cluster->log);

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, sweep->cluster->log, 0,
                   "etcd cluster \"%V\": lease %xL: search for unknown keys",
                   &sweep->cluster->conf->name, lease);

    ngx_add_timer(&sweep->timer, NGX_ETCD_SWEEP_INTERVAL);
}


void
ngx_etcd_sweep_end(ngx_etcd_sweep_t *sweep)
{
    if (sweep->lease == 0) {
        return;
    }

    sweep->lease = 0;

    ngx_etcd_lease_ttl_cancel(&sweep->lease_ttl);

    ngx_etcd_event_stop(&sweep->timer);
}


ngx_uint_t
ngx_etcd_sweep_over(ngx_etcd_sweep_t *sweep)
{
    return sweep->lease != 0
           && sweep->numbers.root == sweep->numbers.sentinel
           && ngx_etcd_clock() - sweep->since >= NGX_ETCD_SWEEP_LONG;
}
