
/*
 * Copyright (C) nginx-etcd contributors
 *
 * protobuf-c messages over nginx pools.
 */


#ifndef _NGX_ETCD_MESSAGE_H_INCLUDED_
#define _NGX_ETCD_MESSAGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <protobuf-c/protobuf-c.h>


/*
 * What a message may take besides the bytes that it brings: so many times its
 * length, and never more than that; and how many fields it may have, on all
 * levels.  A peer can make neither much memory nor a long pause of a message
 * of max_message_size.  A page of a list has up to eight fields for a key, and
 * NGX_ETCD_LIST_PAGE keys.
 */
#define NGX_ETCD_MESSAGE_GROWTH  64
#define NGX_ETCD_MESSAGE_WORK    (4 * 1024 * 1024)
#define NGX_ETCD_MESSAGE_PARTS   100000

/*
 * Unpacks len bytes into memory that goes with the pool: nothing is freed one
 * by one.  NULL when the bytes are no such message, when there is no memory,
 * or when it would take more than the limits above: *exceeded is set then.
 */
ProtobufCMessage *ngx_etcd_message_unpack(
    const ProtobufCMessageDescriptor *descriptor, ngx_pool_t *pool,
    u_char *data, size_t len, ngx_uint_t *exceeded);


#endif /* _NGX_ETCD_MESSAGE_H_INCLUDED_ */
