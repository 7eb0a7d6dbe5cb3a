
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


typedef enum {
    NGX_ETCD_ATTR_WEIGHT = 0,
    NGX_ETCD_ATTR_MAX_FAILS,
    NGX_ETCD_ATTR_MAX_CONNS,
    NGX_ETCD_ATTR_FAIL_TIMEOUT,
    NGX_ETCD_ATTR_SLOW_START,
    NGX_ETCD_ATTR_PRIORITY,                        /* lowest first */
    NGX_ETCD_ATTR_PRECEDENCE,                      /* highest first */
    NGX_ETCD_ATTR_DOWN,
    NGX_ETCD_ATTR_BACKUP,
    NGX_ETCD_ATTR_DRAIN,
    NGX_ETCD_ATTR_ROUTE,
    NGX_ETCD_ATTR_N
} ngx_etcd_attr_id_e;


/* the path of an attribute in a format, and how to read the attribute */

#define NGX_ETCD_FIELD_NOT       0x01  /* negated flag */
#define NGX_ETCD_FIELD_ZERO      0x02  /* 0 and less mean unset, as in Go */
#define NGX_ETCD_FIELD_NEGATIVE  0x04  /* less than 0 counts as 0 */

typedef struct {
    ngx_str_t                       path;          /* JSON pointer, or
                                                      parameter name */
    ngx_etcd_attr_id_e              id;
    ngx_uint_t                      how;
    ngx_str_t                       equals;        /* flag: set by this text or
                                                      number only */
} ngx_etcd_field_t;


/* the fields of the module's own format, "json" */
extern ngx_etcd_field_t  ngx_etcd_attribute_fields[];


/*
 * Sets the attributes that "fields" define, with paths relative to the node;
 * an empty path ends the fields.  An attribute that cannot be used is skipped
 * (ngx_etcd_decode_skip()), here and below: it costs the attribute, not the
 * member.  Numbers and flags may be strings.
 */
void ngx_etcd_attribute_read(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    ngx_etcd_field_t *fields, json_t *node);

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


#endif /* _NGX_ETCD_ATTRIBUTE_H_INCLUDED_ */
