
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Bytes of a message as a string of nginx, and the other way round.  The bytes
 * themselves are not copied.
 */


#ifndef _NGX_ETCD_BYTES_H_INCLUDED_
#define _NGX_ETCD_BYTES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <protobuf-c/protobuf-c.h>


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


#endif /* _NGX_ETCD_BYTES_H_INCLUDED_ */
