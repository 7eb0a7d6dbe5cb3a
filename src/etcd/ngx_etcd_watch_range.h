
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The keys of a watch: all keys below a prefix, or one key.
 */


#ifndef _NGX_ETCD_WATCH_RANGE_H_INCLUDED_
#define _NGX_ETCD_WATCH_RANGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_proto.pb-c.h>


typedef struct {
    ngx_str_t                    prefix;       /* without the namespace; a key
                                                  if "exact" is set */
    ngx_uint_t                   exact;
    ngx_str_t                    key;          /* with the namespace */
    ngx_str_t                    range_end;
} ngx_etcd_watch_range_t;


/*
 * The prefix must not be empty; its bytes must stay.  Allocates from the pool.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_watch_range_init(ngx_etcd_watch_range_t *range,
    ngx_pool_t *pool, ngx_str_t *key_namespace, ngx_str_t *prefix,
    ngx_uint_t exact);

/* Returns 1 if the key, with the namespace, is in the range. */
ngx_uint_t ngx_etcd_watch_range_contains(ngx_etcd_watch_range_t *range,
    ProtobufCBinaryData *key);

/* Removes the namespace from a key of the range. */
void ngx_etcd_watch_range_strip(ngx_etcd_watch_range_t *range,
    ProtobufCBinaryData *key);


#endif /* _NGX_ETCD_WATCH_RANGE_H_INCLUDED_ */
