
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Allocates protobuf-c messages from nginx pools.
 */


#ifndef _NGX_ETCD_MESSAGE_H_INCLUDED_
#define _NGX_ETCD_MESSAGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <protobuf-c/protobuf-c.h>


/*
 * Limits for unpacking one message, so that a peer cannot turn a message of
 * max_message_size into much memory or a long pause: memory beyond the bytes
 * of the message is at most GROWTH times its length, and at most WORK bytes;
 * the number of fields on all levels is at most PARTS.  A page of a list has
 * NGX_ETCD_LIST_PAGE keys with up to eight fields each.
 */
#define NGX_ETCD_MESSAGE_GROWTH  64
#define NGX_ETCD_MESSAGE_WORK    (4 * 1024 * 1024)
#define NGX_ETCD_MESSAGE_PARTS   100000

/*
 * Unpacks len bytes into memory that is released with the pool.  Returns NULL
 * if the bytes are not such a message, if there is no memory, or if a limit
 * above is exceeded; only then *exceeded is set.
 */
ProtobufCMessage *ngx_etcd_message_unpack(
    const ProtobufCMessageDescriptor *descriptor, ngx_pool_t *pool,
    u_char *data, size_t len, ngx_uint_t *exceeded);

/*
 * The same, for size bytes from malloc() of which len are the message: they are
 * taken over in any case, and freed with the pool.  Elements of a repeated
 * bytes field of the message itself are not copied, but point into them.
 */
ProtobufCMessage *ngx_etcd_message_unpack_owned(
    const ProtobufCMessageDescriptor *descriptor, ngx_pool_t *pool,
    u_char *data, size_t len, size_t size, ngx_uint_t *exceeded);

/* Returns the bytes of a pool with messages, free ones included. */
size_t ngx_etcd_message_memory(ngx_pool_t *pool);


#endif /* _NGX_ETCD_MESSAGE_H_INCLUDED_ */
