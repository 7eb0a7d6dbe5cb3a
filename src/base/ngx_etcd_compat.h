
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Differences between nginx versions.
 */


#ifndef _NGX_ETCD_COMPAT_H_INCLUDED_
#define _NGX_ETCD_COMPAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * 1.27.3: "server NAME resolve", which has a placeholder as its address; not
 * in freenginx
 */

#if (nginx_version >= 1027003 && !defined freenginx && NGX_HTTP_UPSTREAM_ZONE)
#define ngx_http_etcd_server_resolves(server)    ((server)->host.len != 0)
#else
#define ngx_http_etcd_server_resolves(server)    0
#endif

#if (nginx_version >= 1027003 && !defined freenginx && NGX_STREAM_UPSTREAM_ZONE)
#define ngx_stream_etcd_server_resolves(server)  ((server)->host.len != 0)
#else
#define ngx_stream_etcd_server_resolves(server)  0
#endif

/*
 * 1.29.6: "sticky".  The balancer is asked for the peer of a session by
 * pc->hint, and says in pc->sid which peer was picked.  "sticky" of Angie has
 * another interface.
 */

#if (NGX_HTTP_UPSTREAM_SID && !defined angie_version)
#define NGX_ETCD_HAVE_SID                        1
#define ngx_etcd_sid_hint(pc)                    (pc)->hint
#define ngx_etcd_sid_picked(pc, text)            (pc)->sid = text
#define ngx_http_etcd_server_route(server)       (&(server)->sid)
#else
#define NGX_ETCD_HAVE_SID                        0
#define ngx_etcd_sid_hint(pc)                    NULL
#define ngx_etcd_sid_picked(pc, text)
#define ngx_http_etcd_server_route(server)       NULL
#endif

/* 1.25.0: HTTP/3 */

#if (NGX_QUIC)
#define ngx_http_etcd_is_quic(c)                 ((c)->quic != NULL)
#else
#define ngx_http_etcd_is_quic(c)                 0
#endif

/*
 * Angie finds the request or session of a peer connection in pc->ctx, has to
 * be asked for notifications, and takes the data of every balancer for those
 * of its round robin: of an upstream with "zone" it reads the current peer,
 * and "sticky" reads the list of peers.
 *
 * So the data of balancers begin with NGX_ETCD_PEER_HEAD.  A balancer sets
 * the head; "none" is a peer of zeroes.  Whatever wraps a balancer copies the
 * head of the wrapped data, after each "get" as well.
 */

#ifdef angie_version

typedef struct {
    ngx_uint_t                                   generation;
    void                                        *peers;
    void                                        *current;
} ngx_etcd_peer_head_t;

#define NGX_ETCD_PEER_HEAD                       ngx_etcd_peer_head_t  head;

#define ngx_etcd_peer_head_set(data, list, none)                              \
    (data)->head.generation = (list)->generation ? *(list)->generation : 0;   \
    (data)->head.peers = list;                                                \
    (data)->head.current = none

#define ngx_etcd_peer_head_copy(wrapper, wrapped)                             \
    (wrapper)->head = *(ngx_etcd_peer_head_t *) (wrapped)

#define ngx_etcd_peer_owner(pc, owner)           (pc)->ctx = owner
#define ngx_etcd_peer_notify(pc, types)          (pc)->notify_mask |= types

#else

#define NGX_ETCD_PEER_HEAD
#define ngx_etcd_peer_head_set(data, list, none)  (void) (none)
#define ngx_etcd_peer_head_copy(wrapper, wrapped)
#define ngx_etcd_peer_owner(pc, owner)
#define ngx_etcd_peer_notify(pc, types)

#endif

/* 1.29.6: notification of the header; ngx_http.h comes before this file */

#ifdef NGX_HTTP_UPSTREAM_NOTIFY_HEADER
#define ngx_http_etcd_notify_header(type)                                     \
    ((type) == NGX_HTTP_UPSTREAM_NOTIFY_HEADER)
#else
#define ngx_http_etcd_notify_header(type)        0
#endif

/*
 * 1.31.0: notification of the first byte from the peer; ngx_stream.h comes
 * before this file
 */

#if (defined NGX_STREAM_UPSTREAM_NOTIFY_FIRST_BYTE && !defined angie_version)
#define NGX_STREAM_ETCD_HAVE_FIRST_BYTE          1
#define ngx_stream_etcd_notify_first_byte(type)                               \
    ((type) == NGX_STREAM_UPSTREAM_NOTIFY_FIRST_BYTE)
#else
#define NGX_STREAM_ETCD_HAVE_FIRST_BYTE          0
#define ngx_stream_etcd_notify_first_byte(type)  0
#endif

/* 1.29.6: "server ... drain", which is a value of "down" */

#if (NGX_HTTP_UPSTREAM_STICKY)
#define ngx_http_etcd_server_drains(server)                                   \
    (((server)->down & NGX_HTTP_UPSTREAM_DRAINING) != 0)
#else
#define ngx_http_etcd_server_drains(server)      0
#endif


#endif /* _NGX_ETCD_COMPAT_H_INCLUDED_ */
