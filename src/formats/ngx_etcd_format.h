
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The table of value formats.
 */


#ifndef _NGX_ETCD_FORMAT_H_INCLUDED_
#define _NGX_ETCD_FORMAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member.h>


/* Returns NULL if there is no such format. */
const ngx_etcd_format_t *ngx_etcd_format_find(ngx_str_t *name);

ngx_str_t *ngx_etcd_format_name(const ngx_etcd_format_t *format);

/* Returns all names for an error message: "auto, plain, key, ...". */
ngx_str_t *ngx_etcd_format_names(ngx_pool_t *pool);

/* Returns 1 if the format uses a key with that last segment. */
ngx_uint_t ngx_etcd_format_part(const ngx_etcd_format_t *format,
    ngx_str_t *name);


#endif /* _NGX_ETCD_FORMAT_H_INCLUDED_ */
