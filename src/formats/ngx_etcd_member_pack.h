
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A member in shared memory: the payload of a set's entry.
 */


#ifndef _NGX_ETCD_MEMBER_PACK_H_INCLUDED_
#define _NGX_ETCD_MEMBER_PACK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member.h>


#define NGX_ETCD_MEMBER_PACK_MAX                                              \
    (24 + sizeof(ngx_sockaddr_t) + NGX_ETCD_MEMBER_NAME_LEN                   \
     + 1 + NGX_ETCD_MEMBER_MAX_ROUTE + 10 + NGX_ETCD_MEMBER_MAX_HOST)


/* An unpacked payload; points into the payload. */

typedef struct {
    ngx_etcd_member_attr_t   attr;
    u_char                  *sockaddr;     /* unaligned */
    socklen_t                socklen;
    ngx_str_t                name;
    ngx_str_t                route;        /* len 0: none */

    ngx_str_t                host;         /* len 0: registered by address */
    in_port_t                port;
    ngx_uint_t               whole;
    ngx_uint_t               refused;
    ngx_uint_t               beyond;
    ngx_uint_t               unresolved;   /* has no address; name is the
                                              reason */
} ngx_etcd_member_pack_t;


/*
 * Returns the length, at most NGX_ETCD_MEMBER_PACK_MAX.  Equal members give
 * equal bytes.
 */
size_t ngx_etcd_member_pack(u_char *payload, ngx_etcd_member_t *member);

void ngx_etcd_member_pack_read(ngx_etcd_member_pack_t *record, u_char *payload);


#endif /* _NGX_ETCD_MEMBER_PACK_H_INCLUDED_ */
