
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_shared_map.h>


void
ngx_etcd_redo_add(ngx_etcd_redo_t *redo, void *addr, void *value, size_t size)
{
    ngx_etcd_redo_word_t  *word;

    word = &redo->words[redo->n++];

    word->addr = addr;
    word->size = size;
    word->value = 0;
    ngx_memcpy(&word->value, value, size);
}


void
ngx_etcd_redo_insert_tail(ngx_etcd_redo_t *redo, ngx_queue_t *h,
    ngx_queue_t *x)
{
    ngx_etcd_redo_set(redo, &x->prev, h->prev);
    ngx_etcd_redo_set(redo, &x->next, h);
    ngx_etcd_redo_set(redo, &h->prev->next, x);
    ngx_etcd_redo_set(redo, &h->prev, x);
}


void
ngx_etcd_redo_remove(ngx_etcd_redo_t *redo, ngx_queue_t *x)
{
    ngx_etcd_redo_set(redo, &x->prev->next, x->next);
    ngx_etcd_redo_set(redo, &x->next->prev, x->prev);
}


void
ngx_etcd_redo_write(ngx_etcd_redo_t *log, ngx_etcd_redo_t *redo)
{
    ngx_memcpy(log->words, redo->words,
               redo->n * sizeof(ngx_etcd_redo_word_t));

    ngx_memory_barrier();

    log->n = redo->n;

    ngx_etcd_redo_finish(log);
}


void
ngx_etcd_redo_finish(ngx_etcd_redo_t *log)
{
    uint32_t               value;
    ngx_uint_t             i;
    ngx_etcd_redo_word_t  *word;

    if (log->n == 0) {
        return;
    }

    ngx_memory_barrier();

    for (i = 0; i < log->n; i++) {
        word = &log->words[i];

        if (word->size == sizeof(uint32_t)) {
            ngx_memcpy(&value, &word->value, sizeof(uint32_t));
            __atomic_store_n((uint32_t *) word->addr, value,
                             __ATOMIC_RELEASE);

        } else {
            __atomic_store_n((uint64_t *) word->addr, word->value,
                             __ATOMIC_RELEASE);
        }
    }

    ngx_memory_barrier();

    log->n = 0;
}


/* nodes of a chain that a reader follows: a torn chain may be circular */

#define NGX_ETCD_SHARED_MAP_STEPS  1024


#define ngx_etcd_shared_map_chain(map, hash)                                  \
    (&(map)->chains[(hash) & ((map)->nchains - 1)])


ngx_int_t
ngx_etcd_shared_map_size(ngx_slab_pool_t *shpool, ngx_etcd_shared_map_t *map,
    ngx_uint_t nodes)
{
    ngx_uint_t                i, n;
    ngx_etcd_shared_map_t     to;
    ngx_etcd_shared_node_t   *node, *next, **chain, **chains;

    for (n = 16; n < nodes; n *= 2) { /* void */ }

    if (n == map->nchains) {
        return NGX_OK;
    }

    to.nchains = n;
    to.chains = ngx_slab_calloc_locked(shpool,
                                       n * sizeof(ngx_etcd_shared_node_t *));
    if (to.chains == NULL) {
        return NGX_ERROR;
    }

    chains = map->chains;

    /* the master is not killed by a worker's crash: no redo log is needed */

    ngx_etcd_seqlock_write(&map->lock);

    for (i = 0; i < map->nchains; i++) {
        for (node = chains[i]; node != NULL; node = next) {
            next = node->next;

            chain = ngx_etcd_shared_map_chain(&to, node->hash);
            node->next = *chain;
            *chain = node;
        }
    }

    map->chains = to.chains;
    map->nchains = to.nchains;

    ngx_etcd_seqlock_written(&map->lock);

    if (chains != NULL) {
        ngx_slab_free_locked(shpool, chains);
    }

    return NGX_OK;
}


void
ngx_etcd_shared_map_done(ngx_slab_pool_t *shpool, ngx_etcd_shared_map_t *map,
    ngx_etcd_redo_t *log)
{
    ngx_etcd_redo_t          redo;
    ngx_etcd_shared_node_t **chains;

    chains = map->chains;

    if (chains == NULL) {
        return;
    }

    redo.n = 0;

    ngx_etcd_redo_set(&redo, &map->nchains, 0);
    ngx_etcd_redo_set(&redo, &map->chains, NULL);

    ngx_etcd_shared_map_write(map, log, &redo);

    ngx_slab_free_locked(shpool, chains);
}


void
ngx_etcd_shared_map_add(ngx_etcd_shared_map_t *map,
    ngx_etcd_shared_node_t *node, ngx_etcd_redo_t *redo)
{
    ngx_etcd_shared_node_t  **chain;

    chain = ngx_etcd_shared_map_chain(map, node->hash);

    ngx_etcd_redo_set(redo, &node->next, *chain);
    ngx_etcd_redo_set(redo, chain, node);
    ngx_etcd_redo_set(redo, &map->n, map->n + 1);
}


void
ngx_etcd_shared_map_replace(ngx_etcd_shared_map_t *map,
    ngx_etcd_shared_node_t *node, ngx_etcd_shared_node_t *other,
    ngx_etcd_redo_t *redo)
{
    ngx_etcd_shared_node_t  **link;

    link = ngx_etcd_shared_map_chain(map, node->hash);

    while (*link != node) {
        link = &(*link)->next;
    }

    if (other != NULL) {
        ngx_etcd_redo_set(redo, &other->next, node->next);
        ngx_etcd_redo_set(redo, link, other);
        return;
    }

    ngx_etcd_redo_set(redo, link, node->next);
    ngx_etcd_redo_set(redo, &map->n, map->n - 1);
}


/*
 * A process that is killed in between leaves the number of the lock odd; the
 * next change makes it even.  Until then readers lock the mutex.
 */

void
ngx_etcd_shared_map_write(ngx_etcd_shared_map_t *map, ngx_etcd_redo_t *log,
    ngx_etcd_redo_t *redo)
{
    ngx_etcd_seqlock_write(&map->lock);

    ngx_etcd_redo_write(log, redo);

    ngx_etcd_seqlock_written(&map->lock);
}


ngx_uint_t
ngx_etcd_shared_map_inside(ngx_slab_pool_t *shpool, void *p, size_t len)
{
    u_char  *start, *at;

    at = p;
    start = (u_char *) shpool;

    return at >= start
           && at < shpool->end
           && len <= (size_t) (shpool->end - at);
}


/* A chain that is read without the mutex may end in memory of any use. */

ngx_etcd_shared_node_t *
ngx_etcd_shared_map_find_locked(ngx_slab_pool_t *shpool,
    ngx_etcd_shared_map_t *map, uint64_t hash,
    ngx_etcd_shared_map_match_pt match, void *data)
{
    ngx_uint_t                i, nchains;
    ngx_etcd_shared_node_t   *node, **chain, **chains;

    chains = map->chains;
    nchains = map->nchains;

    if (nchains == 0) {
        return NULL;
    }

    chain = &chains[hash & (nchains - 1)];

    if (!ngx_etcd_shared_map_inside(shpool, chain, sizeof(*chain))) {
        return NULL;
    }

    node = *chain;

    for (i = 0; i < NGX_ETCD_SHARED_MAP_STEPS && node != NULL; i++) {

        if (!ngx_etcd_shared_map_inside(shpool, node,
                                        sizeof(ngx_etcd_shared_node_t)))
        {
            return NULL;
        }

        if (node->hash == hash && match(data, node)) {
            return node;
        }

        node = node->next;
    }

    return NULL;
}


ngx_int_t
ngx_etcd_shared_map_find(ngx_slab_pool_t *shpool, ngx_etcd_shared_map_t *map,
    uint64_t hash, ngx_etcd_shared_map_match_pt match, void *data,
    uint64_t *version)
{
    ngx_etcd_shared_node_t     *node;
    ngx_etcd_seqlock_reader_t   reader;

    ngx_etcd_seqlock_read(&reader, &map->lock, 0);

    while (ngx_etcd_seqlock_try(&reader)) {
        node = ngx_etcd_shared_map_find_locked(shpool, map, hash, match, data);

        if (ngx_etcd_seqlock_valid(&reader)) {
            *version = reader.seen;
            return (node != NULL) ? NGX_OK : NGX_DECLINED;
        }
    }

    /* the writer is preempted or was killed */

    return NGX_AGAIN;
}
