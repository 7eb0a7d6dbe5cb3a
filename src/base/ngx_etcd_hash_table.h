
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A hash table of objects that begin with an ngx_str_t, their key.  A lookup
 * costs a cache miss for the hashes, and two more if the object is found, while
 * a tree of 100 000 objects costs one at each of its levels.  Hashes and
 * pointers are arrays of their own: an array of both would have gaps.
 */


#ifndef _NGX_ETCD_HASH_TABLE_H_INCLUDED_
#define _NGX_ETCD_HASH_TABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * SipHash-1-3 (Aumasson, Bernstein 2012), as OpenSSL implements it.  A process
 * draws a random key, so that a client that writes keys into etcd cannot
 * choose keys that collide.  The workers of a master that has drawn one have
 * the master's key, and so the same hashes in shared memory.
 */

/*
 * Draws the key of this process, once.  NGX_ERROR: OpenSSL failed, which was
 * logged; the next call tries again.
 */
ngx_int_t ngx_etcd_siphash_init(ngx_log_t *log);

/* must not be called before ngx_etcd_siphash_init() has returned NGX_OK */
uint64_t ngx_etcd_siphash(ngx_str_t *str);


typedef struct {
    ngx_str_t                  **objects;      /* by place */
    uint32_t                    *hashes;       /* by place; 0: free */
    ngx_uint_t                   nplaces;      /* a power of 2, or 0 */
    ngx_uint_t                   n;            /* places in use */
    ngx_log_t                   *log;
} ngx_etcd_hash_table_t;


/* an empty table, without memory until the first insertion */
void ngx_etcd_hash_table_init(ngx_etcd_hash_table_t *table, ngx_log_t *log);

/* the objects remain, their owner is the caller */
void ngx_etcd_hash_table_done(ngx_etcd_hash_table_t *table);

/* Returns NULL if there is no such object. */
void *ngx_etcd_hash_table_find(ngx_etcd_hash_table_t *table, ngx_str_t *str);

/* The key must be new.  NGX_ERROR: no memory. */
ngx_int_t ngx_etcd_hash_table_insert(ngx_etcd_hash_table_t *table,
    ngx_str_t *str);

/*
 * Returns a new object with the key, or NULL if there is no memory.  The size
 * includes the ngx_str_t; the rest is zeroed.  The bytes of the key are copied
 * behind the object.  The caller frees the object with ngx_free() after its
 * removal.
 */
void *ngx_etcd_hash_table_add(ngx_etcd_hash_table_t *table, ngx_str_t *str,
    size_t size);

/*
 * Makes room: the next n insertions neither fail nor take time for growth.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_hash_table_reserve(ngx_etcd_hash_table_t *table,
    ngx_uint_t n);

/* the object must be in the table, and is not freed */
void ngx_etcd_hash_table_remove(ngx_etcd_hash_table_t *table, ngx_str_t *str);


#endif /* _NGX_ETCD_HASH_TABLE_H_INCLUDED_ */
