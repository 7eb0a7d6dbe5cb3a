
/*
 * Copyright (C) nginx-etcd contributors
 *
 * JSON pointers (RFC 6901), as text: "/metadata/weight", "/a~1b", "/nodes/0".
 */


#ifndef _NGX_ETCD_POINTER_H_INCLUDED_
#define _NGX_ETCD_POINTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json.h>


#define NGX_ETCD_POINTER_MAX  255         /* bytes */


/* NULL, or what is wrong with it */
char *ngx_etcd_pointer_check(ngx_str_t *pointer);

/*
 * What a valid pointer points to, borrowed, or NULL.  The empty one is the
 * value itself.
 */
ngx_etcd_json_t *ngx_etcd_pointer_get(ngx_etcd_json_t *value,
    const ngx_str_t *pointer);

/*
 * 1 if the first step of a pointer, which is not empty, is to that member of
 * an object; rest is a pointer from there on.
 */
ngx_uint_t ngx_etcd_pointer_begins(const ngx_str_t *pointer, u_char *name,
    size_t len, ngx_str_t *rest);

/* the pointer as a reason shows it: one step is the name of a field */
char *ngx_etcd_pointer_name(const ngx_str_t *pointer);


#endif /* _NGX_ETCD_POINTER_H_INCLUDED_ */
