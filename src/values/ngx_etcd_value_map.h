
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A value map: the values of all keys that match patterns with the same
 * literal part, in shared memory.  The owner of the zone changes the map under
 * the mutex; every worker finds the value of a key without a lock.
 *
 * The changes of a revision are one batch of the zone (ngx_etcd_batch.h): a
 * reader sees all of them or none.
 */


#ifndef _NGX_ETCD_VALUE_MAP_H_INCLUDED_
#define _NGX_ETCD_VALUE_MAP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_object.h>
#include <ngx_etcd_pattern.h>
#include <ngx_etcd_shared_map.h>


#define NGX_ETCD_VALUE_MAP_LIMIT      10240    /* default number of values */
#define NGX_ETCD_VALUE_MAP_MAX_LIMIT  1000000
#define NGX_ETCD_VALUE_MAP_SIZE       4096     /* default bytes of a value */
#define NGX_ETCD_VALUE_MAP_MAX_SIZE   65536


typedef enum {
    NGX_ETCD_VALUE_LOADING = 0,      /* not read yet */
    NGX_ETCD_VALUE_SYNCED,
    NGX_ETCD_VALUE_DENIED            /* the user may not read the keys */
} ngx_etcd_value_state_e;


/* The type of all values of a map: another value is refused. */

typedef enum {
    NGX_ETCD_VALUE_ANY = 0,
    NGX_ETCD_VALUE_PEM,              /* certificates and private keys: secret */
    NGX_ETCD_VALUE_INT,
    NGX_ETCD_VALUE_SIZE,
    NGX_ETCD_VALUE_FLAG
} ngx_etcd_value_type_e;


/* All zero but the object: an empty map, not read yet. */

typedef struct {
    ngx_etcd_object_t                object;       /* name: the literal part
                                                      with the namespace;
                                                      variant: type, exact */
    ngx_etcd_shared_map_t            map;

    /* written by the owner only */

    ngx_etcd_atomic64_t              revision;     /* the map is complete as of
                                                      it; 0: never read */
    ngx_atomic_t                     state;        /* ngx_etcd_value_state_e */
    ngx_atomic_t                     changes;      /* of values */
    ngx_atomic_t                     over;         /* keys beyond the limit, or
                                                      for which there is no
                                                      room in the zone */
} ngx_etcd_value_map_t;


/* made by the configuration; exists as long as the cycle */

typedef struct {
    ngx_str_t                        name;         /* of the first variable */
    ngx_str_t                        literal;      /* without the namespace */
    ngx_array_t                      patterns;     /* of
                                                 ngx_etcd_value_pattern_t * */
    ngx_uint_t                       type;         /* ngx_etcd_value_type_e */
    ngx_uint_t                       exact;        /* no variables: the literal
                                                      part is the only key */
    ngx_uint_t                       limit;        /* sum of all patterns */
    ngx_uint_t                       split;        /* of any pattern */
    size_t                           max_size;     /* room for any value, or its
                                                      table */

    ngx_etcd_zone_t                 *zone;         /* from declare() on */
    ngx_etcd_value_map_t            *map;
    ngx_uint_t                       id;
    u_char                          *copy;         /* max_size bytes of this
                                                      process; NULL: secret */
} ngx_etcd_value_map_conf_t;


typedef struct {
    ngx_etcd_pattern_t               pattern;
    ngx_str_t                        name;         /* of the first variable */
    ngx_uint_t                       limit;
    size_t                           max_size;     /* of a value in etcd */
    ngx_uint_t                       max_bits;     /* of an RSA key in it */
    ngx_uint_t                       split;        /* a variable has split= */
} ngx_etcd_value_pattern_t;


/* Returns the first pattern that the whole key matches; NULL: none. */
ngx_etcd_value_pattern_t *ngx_etcd_value_map_wants(
    ngx_etcd_value_map_conf_t *conf, ngx_str_t *key);

/* The variable that a key is for; if there is none, the first of the map. */
ngx_str_t *ngx_etcd_value_map_name(ngx_etcd_value_map_conf_t *conf,
    ngx_str_t *key);

/* Returns the node of a key, or NULL.  The caller holds the mutex. */
ngx_etcd_value_node_t *ngx_etcd_value_map_find(
    ngx_etcd_value_map_conf_t *conf, ngx_str_t *key);

/*
 * Calls the handler for a part of the nodes, under the mutex; *chain is 0 at
 * first.  NGX_OK: the end; NGX_AGAIN: call again; NGX_BUSY: the mutex was
 * held.  NGX_ERROR: returned by the handler, the chain is to be read again.
 */
typedef ngx_int_t (*ngx_etcd_value_map_each_pt)(void *data,
    ngx_etcd_value_node_t *node);

ngx_int_t ngx_etcd_value_map_each(ngx_etcd_value_map_conf_t *conf,
    ngx_uint_t *chain, ngx_etcd_value_map_each_pt handler, void *data);

typedef enum {
    NGX_ETCD_VALUE_MAP_TEXT = 0,
    NGX_ETCD_VALUE_MAP_TABLE,        /* see ngx_etcd_split.h; empty if the value
                                        has none */
    NGX_ETCD_VALUE_MAP_NOTHING       /* only its revision */
} ngx_etcd_value_map_part_e;


typedef struct {
    ngx_etcd_value_map_part_e        part;
    u_char                          *buf;          /* of max_size bytes */

    ngx_str_t                        value;
    uint64_t                         modified;     /* mod_revision; 0: none */
    uint64_t                         refused;      /* of the node, also if there
                                                      is no valid value */
    uint64_t                         source;       /* likewise */
    uint64_t                         version;      /* another number after each
                                                      change of the map */
} ngx_etcd_value_map_read_t;


/*
 * Reads the value of a key, given without the literal part.  Any process may
 * call this function.
 *
 *     NGX_OK        value and modified are set,
 *     NGX_DECLINED  there is no such key, or it has no valid value,
 *     NGX_AGAIN     the map cannot be read now.
 */
ngx_int_t ngx_etcd_value_map_get(ngx_etcd_value_map_conf_t *conf,
    ngx_str_t *key, ngx_etcd_value_map_read_t *read);


#endif /* _NGX_ETCD_VALUE_MAP_H_INCLUDED_ */
