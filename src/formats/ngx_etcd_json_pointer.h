
/*
 * Copyright (C) nginx-etcd contributors
 *
 * JSON pointers (RFC 6901), as text: "/metadata/weight", "/a~1b", "/nodes/0".
 */


#ifndef _NGX_ETCD_JSON_POINTER_H_INCLUDED_
#define _NGX_ETCD_JSON_POINTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <jansson.h>


#define NGX_ETCD_JSON_POINTER_MAX  255    /* bytes */


/* Returns NULL, or what is wrong with the pointer. */
char *ngx_etcd_json_pointer_check(ngx_str_t *pointer);

/*
 * Returns the value that a valid pointer refers to, or NULL.  The empty
 * pointer refers to the value itself.  The value is borrowed.
 */
json_t *ngx_etcd_json_pointer_get(json_t *value, const ngx_str_t *pointer);

/*
 * Returns 1 if the first step of a non-empty pointer is that name; rest is
 * the remaining pointer.
 */
ngx_uint_t ngx_etcd_json_pointer_begins(const ngx_str_t *pointer, u_char *name,
    size_t len, ngx_str_t *rest);

/* Returns the pointer as shown in a reason: a single step as a field name. */
char *ngx_etcd_json_pointer_name(const ngx_str_t *pointer);


#endif /* _NGX_ETCD_JSON_POINTER_H_INCLUDED_ */
