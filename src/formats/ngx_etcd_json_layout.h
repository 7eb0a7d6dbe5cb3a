
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
