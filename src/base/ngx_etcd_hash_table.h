
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Objects by a string that they begin with: a hash table whose places hold the
 * hashes, so that a lookup waits for memory once, and once more for an object
 * that is there, where a tree of 100 000 would wait at each of its levels.
 */


#ifndef _NGX_ETCD_HASH_TABLE_H_INCLUDED_
#define _NGX_ETCD_HASH_TABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef struct {
    ngx_str_t                   *str;          /* the object; NULL: free */
    uint32_t                     hash;
} ngx_etcd_hash_table_place_t;


typedef struct {
    ngx_etcd_hash_table_place_t *places;
    ngx_uint_t                   nplaces;      /* a power of 2, or 0 */
    ngx_uint_t                   n;            /* of them in use */
    ngx_log_t                   *log;
} ngx_etcd_hash_table_t;


void ngx_etcd_hash_table_init(ngx_etcd_hash_table_t *map, ngx_log_t *log);

/* objects are the caller's */
void ngx_etcd_hash_table_done(ngx_etcd_hash_table_t *map);

/* NULL: there is none */
void *ngx_etcd_hash_table_find(ngx_etcd_hash_table_t *map, ngx_str_t *str);

/* there must not be one yet; NGX_OK or NGX_ERROR: no memory */
ngx_int_t ngx_etcd_hash_table_insert(ngx_etcd_hash_table_t *map,
    ngx_str_t *str);

/*
 * A new object of that size, zeroed behind the string, whose bytes are copied
 * behind it; the caller frees it.  NULL: no memory.
 */
void *ngx_etcd_hash_table_add(ngx_etcd_hash_table_t *map, ngx_str_t *str,
    size_t size);

/* the next n insertions do not fail, and take no time for growth */
ngx_int_t ngx_etcd_hash_table_reserve(ngx_etcd_hash_table_t *map, ngx_uint_t n);

/* one that is there */
void ngx_etcd_hash_table_remove(ngx_etcd_hash_table_t *map, ngx_str_t *str);


#endif /* _NGX_ETCD_HASH_TABLE_H_INCLUDED_ */
