
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The places of a member's parts in a JSON object.
 */


#ifndef _NGX_ETCD_JSON_LAYOUT_H_INCLUDED_
#define _NGX_ETCD_JSON_LAYOUT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_attribute.h>
#include <ngx_etcd_decode.h>


/*
 * The paths of members in an object, as JSON pointers; a path without data is
 * unused.  All paths except name and nodes are relative to a node; without
 * nodes the object itself is the only node.
 */

struct ngx_etcd_json_layout_s {
    ngx_str_t                       name;          /* service name */
    ngx_str_t                       nodes;         /* array of nodes, or object
                                                      of address: weight */

    /* the address is the first of the following paths that exists */

    ngx_str_t                       endpoints;     /* array of URLs */
    ngx_str_t                       url;
    ngx_str_t                       address;
    ngx_str_t                       network;       /* of "address": tcp,
                                                      unix */
    ngx_str_t                       host;
    ngx_str_t                       port;
    ngx_str_t                       scheme;        /* of the object, whose port
                                                      nodes without one have */
    ngx_uint_t                      from_key;      /* address in the last
                                                      segment of the key */

    ngx_str_t                       tags;
    ngx_etcd_field_t               *fields;        /* ends with an empty
                                                      path */
    ngx_uint_t                      priority;      /* default, if no field sets
                                                      a priority */
    ngx_uint_t                      closed;        /* all fields are known:
                                                      another one is noted */
};


/* Decodes an object by d->layout; a decoder of a format. */
ngx_int_t ngx_etcd_json_layout_decode(ngx_etcd_decode_t *d);

/* Returns AF_INET for "tcp", AF_UNIX for "unix", otherwise AF_UNSPEC. */
ngx_uint_t ngx_etcd_json_layout_network(json_t *network);

/*
 * Returns the first tag of the configuration that excludes a member: one that
 * is required, and that the member does not have, or the other way round; or
 * NULL.  A tag is looked up in "own" and, if missing there, in "common".  Both
 * are objects, arrays of texts ("NAME", "NAME:VALUE", "NAME=VALUE"), or NULL.
 */
ngx_etcd_tag_t *ngx_etcd_json_layout_untagged(ngx_etcd_member_conf_t *conf,
    json_t *own, json_t *common);

/* Returns 1 if the value of a tag that a member has is the wanted one. */
ngx_uint_t ngx_etcd_json_layout_tag_is(ngx_etcd_tag_t *tag, ngx_str_t *value);


#endif /* _NGX_ETCD_JSON_LAYOUT_H_INCLUDED_ */
