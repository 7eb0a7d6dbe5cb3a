
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A hash table in a zone: nodes by name.  The owner of the zone adds and
 * removes nodes under the mutex; every worker finds them without a lock, by a
 * seqlock.
 *
 * A node may be removed and its memory be used again while a worker reads it:
 * the data that a match handler has read count only if
 * ngx_etcd_shared_map_find() returns NGX_OK afterwards.  Until then any length
 * in it may be wrong, and no pointer in it may be followed unless it is inside
 * the zone.
 */


#ifndef _NGX_ETCD_SHARED_MAP_H_INCLUDED_
#define _NGX_ETCD_SHARED_MAP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_hash_table.h>
#include <ngx_etcd_shared.h>


/*
 * A redo log (write-ahead log) for words of a zone: several words change
 * atomically, even if the process is killed.
 *
 * The words and their values are collected, written to the log, and then
 * stored.  The process that locks the zone's mutex next repeats the stores
 * that a killed process has logged.
 */

#define NGX_ETCD_REDO_WORDS  16


typedef struct {
    void                  *addr;
    size_t                 size;         /* 4 or 8 */
    uint64_t               value;
} ngx_etcd_redo_word_t;


/* A redo log of words in shared memory.  All zero: nothing to store. */

typedef struct {
    ngx_uint_t             n;
    ngx_etcd_redo_word_t   words[NGX_ETCD_REDO_WORDS];
} ngx_etcd_redo_t;


/* adds a store of v to *addr, converted to the type of *addr */

#define ngx_etcd_redo_set(redo, addr, v)                                      \
    ngx_etcd_redo_add(redo, (void *) (addr),                                  \
                      (void *) &(__typeof__(*(addr))) { v },                  \
                      sizeof(*(addr)))

void ngx_etcd_redo_add(ngx_etcd_redo_t *redo, void *addr, void *value,
    size_t size);

/*
 * Add the stores that change the links of a queue.  A log may take one such
 * change of a queue: the links are read before the log is written.
 */
void ngx_etcd_redo_insert_tail(ngx_etcd_redo_t *redo, ngx_queue_t *h,
    ngx_queue_t *x);
void ngx_etcd_redo_remove(ngx_etcd_redo_t *redo, ngx_queue_t *x);

/*
 * Stores the collected words in order through the zone's log: after a kill
 * the next holder of the mutex completes the stores.  The caller holds the
 * mutex.
 */
void ngx_etcd_redo_write(ngx_etcd_redo_t *log, ngx_etcd_redo_t *redo);

/* Completes the stores of a killed process.  The caller holds the mutex. */
void ngx_etcd_redo_finish(ngx_etcd_redo_t *log);


typedef struct ngx_etcd_shared_node_s  ngx_etcd_shared_node_t;

struct ngx_etcd_shared_node_s {
    ngx_etcd_shared_node_t          *next;         /* in the chain */
    uint64_t                         hash;         /* of the name */
};


/* All zero: a map without chains, which has no nodes. */

typedef struct {
    ngx_etcd_seqlock_t               lock;
    ngx_etcd_shared_node_t         **chains;
    ngx_uint_t                       nchains;      /* a power of 2 */
    ngx_uint_t                       n;            /* nodes */
    ngx_atomic_t                     refused;      /* nodes whose newest value
                                                      is refused */
} ngx_etcd_shared_map_t;


/*
 * Gives the map chains for that many nodes; present nodes move.  Called by the
 * master, which holds the mutex.  NGX_ERROR: the zone is full.
 */
ngx_int_t ngx_etcd_shared_map_size(ngx_slab_pool_t *shpool,
    ngx_etcd_shared_map_t *map, ngx_uint_t nodes);

/* Frees the chains, which are empty.  The caller holds the mutex. */
void ngx_etcd_shared_map_done(ngx_slab_pool_t *shpool,
    ngx_etcd_shared_map_t *map, ngx_etcd_redo_t *log);

/* The hash of a name: equal in all processes of a master. */
#define ngx_etcd_shared_map_hash(name)  ngx_etcd_siphash(name)

/*
 * Adds the stores that link a node to a redo log, which takes one such change.
 * The caller holds the mutex, and then calls ngx_etcd_shared_map_write().
 */
void ngx_etcd_shared_map_add(ngx_etcd_shared_map_t *map,
    ngx_etcd_shared_node_t *node, ngx_etcd_redo_t *redo);

/*
 * Adds the stores that replace a node by another one of the same name; NULL:
 * that unlink it.
 */
void ngx_etcd_shared_map_replace(ngx_etcd_shared_map_t *map,
    ngx_etcd_shared_node_t *node, ngx_etcd_shared_node_t *other,
    ngx_etcd_redo_t *redo);

/* ngx_etcd_redo_write() for a log with such a change. */
void ngx_etcd_shared_map_write(ngx_etcd_shared_map_t *map, ngx_etcd_redo_t *log,
    ngx_etcd_redo_t *redo);

/* Returns 1 if the node has the name that is searched for. */
typedef ngx_uint_t (*ngx_etcd_shared_map_match_pt)(void *data,
    ngx_etcd_shared_node_t *node);

/*
 * Finds the node with that hash for which the handler returns 1.  The handler
 * may copy from the node; it is called again if the map has changed meanwhile.
 * *version is another number after each change of the map.
 *
 *     NGX_OK        the node was found, what the handler has copied is valid,
 *     NGX_DECLINED  there is no such node,
 *     NGX_AGAIN     the map is being changed: lock the mutex of the zone.
 */
ngx_int_t ngx_etcd_shared_map_find(ngx_slab_pool_t *shpool,
    ngx_etcd_shared_map_t *map, uint64_t hash,
    ngx_etcd_shared_map_match_pt match, void *data, uint64_t *version);

/* Finds the node for a caller that holds the mutex; NULL: there is none. */
ngx_etcd_shared_node_t *ngx_etcd_shared_map_find_locked(ngx_slab_pool_t *shpool,
    ngx_etcd_shared_map_t *map, uint64_t hash,
    ngx_etcd_shared_map_match_pt match, void *data);

/* Returns 1 if these bytes are inside the zone and may be read. */
ngx_uint_t ngx_etcd_shared_map_inside(ngx_slab_pool_t *shpool, void *p,
    size_t len);


#endif /* _NGX_ETCD_SHARED_MAP_H_INCLUDED_ */
