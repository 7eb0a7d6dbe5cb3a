
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
 * Unpacks len bytes into memory of the pool: nothing is freed one by one, the
 * pool's end is the message's end.  NULL when the bytes are no such message,
 * or when it would take more than NGX_ETCD_MESSAGE_GROWTH times its length
 * (a peer must not turn a capped message into unbounded memory).
 */
#define NGX_ETCD_MESSAGE_GROWTH  64

ProtobufCMessage *ngx_etcd_message_unpack(
    const ProtobufCMessageDescriptor *descriptor, ngx_pool_t *pool,
    u_char *data, size_t len);


#endif /* _NGX_ETCD_MESSAGE_H_INCLUDED_ */
