
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Allocates protobuf-c messages from nginx pools.
 */


#ifndef _NGX_ETCD_MESSAGE_H_INCLUDED_
#define _NGX_ETCD_MESSAGE_H_INCLUDED_


#include <protobuf-c/protobuf-c.h>

#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Bytes of a message as a string of nginx, and the other way round.  The bytes
 * themselves are not copied.
 */

static ngx_inline ProtobufCBinaryData
ngx_etcd_bytes(ngx_str_t *str)
{
    ProtobufCBinaryData  bytes;

    bytes.data = str->data;
    bytes.len = str->len;

    return bytes;
}


static ngx_inline ngx_str_t
ngx_etcd_bytes_str(ProtobufCBinaryData *bytes)
{
    ngx_str_t  str;

    str.data = bytes->data;
    str.len = bytes->len;

    return str;
}


/*
 * Limits for unpacking one message, so that a peer cannot turn a message of
 * max_message_size into much memory or a long pause: memory beyond the bytes
 * of the message is at most GROWTH times its length, and at most WORK bytes;
 * the number of fields on all levels is at most PARTS.  A message that is
 * copied as a whole has at most WHOLE bytes, unless it is short enough to
 * arrive at once; one whose elements are not copied has at most REST bytes of
 * other fields.  So a message, together with one of its elements that is
 * unpacked, takes at most twice its length and 6 MB.
 */
#define NGX_ETCD_MESSAGE_GROWTH  64
#define NGX_ETCD_MESSAGE_WORK    (4 * 1024 * 1024)
#define NGX_ETCD_MESSAGE_PARTS   100000
#define NGX_ETCD_MESSAGE_WHOLE   (4 * 1024 * 1024)
#define NGX_ETCD_MESSAGE_REST    65536

/*
 * Unpacks len bytes into memory that is released with the pool.  Returns NULL
 * if the bytes are not such a message, if there is no memory, or if a limit
 * above is exceeded; only then *exceeded is set.
 */
ProtobufCMessage *ngx_etcd_message_unpack(
    const ProtobufCMessageDescriptor *descriptor, ngx_pool_t *pool,
    u_char *data, size_t len, ngx_uint_t *exceeded);

/*
 * Unpacks, as ngx_etcd_message_unpack() does, bytes that stay as long as the
 * pool: elements of a repeated bytes field of the message itself are not
 * copied, but point into the bytes.
 */
ProtobufCMessage *ngx_etcd_message_unpack_in_place(
    const ProtobufCMessageDescriptor *descriptor, ngx_pool_t *pool,
    u_char *data, size_t len, ngx_uint_t *exceeded);

/*
 * Returns the id of the cluster in the header of a message of etcd, or 0 if
 * there is none.
 */
uint64_t ngx_etcd_message_cluster_id(ProtobufCMessage *message);


/* bytes from realloc(), or "secret": from ngx_etcd_secret_malloc() */

typedef struct {
    u_char                      *data;
    size_t                       size;
    ngx_uint_t                   secret;
} ngx_etcd_message_owned_t;

/* The pool frees the bytes; if there is no memory, they are freed at once. */
ngx_int_t ngx_etcd_message_own(ngx_pool_t *pool,
    ngx_etcd_message_owned_t *owned);

/* Frees the bytes; "data" is an ngx_etcd_message_owned_t. */
void ngx_etcd_message_disown(void *data);

/* Returns the bytes of a pool with messages, free ones included. */
size_t ngx_etcd_message_memory(ngx_pool_t *pool);


#endif /* _NGX_ETCD_MESSAGE_H_INCLUDED_ */
