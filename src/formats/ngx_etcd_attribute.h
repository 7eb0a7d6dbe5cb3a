
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The attributes of a member: weight, max_fails and others.
 */


#ifndef _NGX_ETCD_ATTRIBUTE_H_INCLUDED_
#define _NGX_ETCD_ATTRIBUTE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_decode.h>


#define NGX_ETCD_ATTR_MAX       2147483647     /* of counts */

/* seconds; fits in 32 bits as milliseconds */

#define NGX_ETCD_ATTR_MAX_TIME  2147483


/*
 * The fields of the module's own format, "json"; a writer may take a weight of
 * 0 for none.
 */

#define NGX_ETCD_ATTRIBUTE_FIELDS(weight)                                     \
    NGX_ETCD_FIELD("/weight", WEIGHT, weight),                                \
    NGX_ETCD_FIELD("/max_fails", MAX_FAILS, 0),                               \
    NGX_ETCD_FIELD("/max_conns", MAX_CONNS, 0),                               \
    NGX_ETCD_FIELD("/fail_timeout", FAIL_TIMEOUT, 0),                         \
    NGX_ETCD_FIELD("/slow_start", SLOW_START, 0),                             \
    NGX_ETCD_FIELD("/priority", PRIORITY, 0),                                 \
    NGX_ETCD_FIELD("/down", DOWN, 0),                                         \
    NGX_ETCD_FIELD("/backup", BACKUP, 0),                                     \
    NGX_ETCD_FIELD("/drain", DRAIN, 0),                                       \
    NGX_ETCD_FIELD("/route", ROUTE, 0),                                       \
    ngx_etcd_null_field

extern ngx_etcd_field_t  ngx_etcd_attribute_fields[];


/*
 * Sets the attributes that "fields" (NULL: none) define, with paths relative to
 * the node; an empty path ends the fields.  An attribute that cannot be used is
 * skipped (ngx_etcd_decode_skip()), here and below: it costs the attribute, not
 * the member.  Numbers and flags may be strings.  Returns how many names of the
 * node belong to no field.
 */
ngx_uint_t ngx_etcd_attribute_read(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, ngx_etcd_field_t *fields, json_t *node);

/* Set one attribute from a value or a text. */
void ngx_etcd_attribute_value(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    ngx_etcd_field_t *field, json_t *value);
void ngx_etcd_attribute_text(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    ngx_etcd_field_t *field, ngx_str_t *text);

/* Skips one attribute. */
void ngx_etcd_attribute_invalid(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, ngx_etcd_field_t *field, ngx_str_t *text,
    char *what);

/*
 * Reads a parameter of etcd_members with a default attribute (weight=,
 * max_fails=, fail_timeout=, max_conns=, slow_start=) into attr.
 * NGX_DECLINED: another parameter.  NGX_ERROR: the value is invalid.
 */
ngx_int_t ngx_etcd_attribute_parameter(ngx_str_t *parameter,
    ngx_etcd_member_attr_t *attr);

/* Returns the attribute of that name, or NGX_ETCD_ATTR_N. */
ngx_uint_t ngx_etcd_attribute_find(ngx_str_t *name);
ngx_uint_t ngx_etcd_attribute_is_flag(ngx_uint_t id);

/* Returns 1 for a text that may be the route of a member, also an empty one. */
ngx_uint_t ngx_etcd_attribute_is_route(ngx_str_t *text);


#endif /* _NGX_ETCD_ATTRIBUTE_H_INCLUDED_ */
