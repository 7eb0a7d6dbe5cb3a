
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Private to the decoders of the value formats and to the parsing of
 * addresses and attributes.
 */


#ifndef _NGX_ETCD_FORMAT_H_INCLUDED_
#define _NGX_ETCD_FORMAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_json_pointer.h>
#include <ngx_etcd_uri.h>


/* bytes; longer keys and values are refused unread */

#define NGX_ETCD_MEMBER_MAX_KEY    4096
#define NGX_ETCD_MEMBER_MAX_VALUE  NGX_ETCD_JSON_MAX_TEXT

/* members per value */

#define NGX_ETCD_MEMBER_MAX_NODES  1024


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
    NGX_ETCD_ATTR_N
} ngx_etcd_attr_id_e;


/* the path of an attribute in a format, and how to read the attribute */

#define NGX_ETCD_FIELD_NOT    0x01     /* negated flag */
#define NGX_ETCD_FIELD_ZERO   0x02     /* 0 means unset, as in Go */
#define NGX_ETCD_FIELD_TEXT   0x04     /* may be a string */
#define NGX_ETCD_FIELD_LOOSE  0x08     /* ignored if invalid: application
                                          data */

typedef struct {
    ngx_str_t                       path;          /* JSON pointer, or
                                                      parameter name */
    ngx_etcd_attr_id_e              id;
    ngx_uint_t                      how;
    ngx_str_t                       equals;        /* flag: set by this text or
                                                      number only */
} ngx_etcd_field_t;


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
    ngx_uint_t                      from_key;      /* address in the last
                                                      segment of the key */

    ngx_str_t                       tags;
    ngx_etcd_field_t               *fields;        /* ends with an empty
                                                      path */
    ngx_uint_t                      priority;      /* default, if no field sets
                                                      a priority */
};


/*
 * The state of decoding one value; on the stack of ngx_etcd_member_decode().
 */

typedef struct {
    ngx_etcd_member_conf_t         *conf;
    const ngx_etcd_json_layout_t   *layout;        /* NULL: not JSON */
    ngx_str_t                       key;
    ngx_str_t                       value;         /* trimmed */
    json_t                         *object;        /* the parsed value, or
                                                      NULL */
    ngx_etcd_json_t                 json;          /* owns the object */
    ngx_pool_t                     *pool;
    ngx_array_t                    *members;
    ngx_str_t                      *reason;
} ngx_etcd_decode_t;


typedef enum {
    NGX_ETCD_VALUE_IGNORED = 0,                    /* any bytes, any length */
    NGX_ETCD_VALUE_TEXT,
    NGX_ETCD_VALUE_JSON                            /* object is set */
} ngx_etcd_value_e;


/* the "etcd_members" parameters that a format supports */

#define NGX_ETCD_TAKES_TAG       0x01
#define NGX_ETCD_TAKES_SCHEME    0x02
#define NGX_ETCD_TAKES_POINTERS  0x04

/* several keys, "PATH/NAME", form one object of a member at PATH */

#define NGX_ETCD_TAKES_GROUPS    0x08


struct ngx_etcd_format_s {
    ngx_str_t                       name;
    ngx_etcd_value_e                value;

    /*
     * Appends members.  The results are those of ngx_etcd_member_decode(),
     * with two exceptions: NGX_OK without a member means NGX_DECLINED, and
     * the caller removes members that were appended before an error.
     */
    ngx_int_t                     (*decode)(ngx_etcd_decode_t *d);

    const ngx_etcd_json_layout_t   *layout;
    ngx_uint_t                      takes;
};


/* Decoders of formats that are not described by a layout alone. */

ngx_int_t ngx_etcd_format_plain(ngx_etcd_decode_t *d);
ngx_int_t ngx_etcd_format_key(ngx_etcd_decode_t *d);
ngx_int_t ngx_etcd_format_dubbo(ngx_etcd_decode_t *d);
ngx_int_t ngx_etcd_format_rpcx(ngx_etcd_decode_t *d);
ngx_int_t ngx_etcd_format_upsync(ngx_etcd_decode_t *d);

/* Decodes an object by d->layout. */
ngx_int_t ngx_etcd_json_layout_decode(ngx_etcd_decode_t *d);

/* the fields of the module's own format, "json" */
extern ngx_etcd_field_t  ngx_etcd_fields[];

/* Returns AF_INET for "tcp", AF_UNIX for "unix", otherwise AF_UNSPEC. */
ngx_uint_t ngx_etcd_json_layout_network(json_t *network);

/*
 * Returns 1 if the member has all tags that the configuration requires.  A
 * tag is looked up in "own" and, if missing there, in "common".  Both are
 * objects or NULL.
 */
ngx_uint_t ngx_etcd_json_layout_tagged(ngx_etcd_member_conf_t *conf,
    json_t *own, json_t *common);

/* Parses the value, which must be an object.  NGX_ERROR: the reason is set. */
ngx_int_t ngx_etcd_decode_object(ngx_etcd_decode_t *d);

/*
 * Finds the last segment of the key and decodes it into buf, of
 * NGX_ETCD_FORMAT_SEGMENT bytes: the longest address with every byte escaped
 * as "%2F".  Returns NULL, or what is wrong; the segment points into the key
 * then.
 */
#define NGX_ETCD_FORMAT_SEGMENT  (3 * NGX_ETCD_MEMBER_NAME_LEN)

char *ngx_etcd_format_segment(ngx_str_t *key, ngx_str_t *segment, u_char *buf);

/*
 * Sets the address of the member from the last segment of the key.
 * NGX_ERROR: the reason is set.
 */
ngx_int_t ngx_etcd_format_key_address(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member);

/*
 * Appends a member without an address, with the default attributes.  The
 * pointer is valid until the next member is added.  NULL: no memory, the
 * reason is set.
 */
ngx_etcd_member_t *ngx_etcd_member_add(ngx_etcd_decode_t *d);

/*
 * Parses "1.2.3.4:80", "[::1]:80" or "unix:/path" into sockaddr and name.
 * Returns NULL, or what is wrong; a host name is such an error.
 */
char *ngx_etcd_address_parse(ngx_etcd_member_t *member, ngx_str_t *text);

/*
 * Parses an address and checks that it is allowed; a host name is accepted if
 * host names are resolved.  "field" names the source of the text.  NGX_ERROR:
 * the reason is set.
 */
ngx_int_t ngx_etcd_member_address(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, char *field, ngx_str_t *text);

/*
 * Sets the address from separate values for host and port: an IP address with
 * optional brackets, and a number or a string of digits.
 */
ngx_int_t ngx_etcd_member_host_port(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, const ngx_etcd_json_layout_t *layout,
    json_t *host, json_t *port);

/*
 * Sets the address from a URL; the default port is that of the scheme.
 * NGX_DECLINED: the scheme is not the one wanted.
 */
ngx_int_t ngx_etcd_member_url(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    char *field, ngx_etcd_uri_t *url);

/* Sets a placeholder address that is unique for host and port. */
void ngx_etcd_address_unresolved(ngx_etcd_member_t *member);

/* Sets the resolved address, with the port of the member. */
void ngx_etcd_address_resolved(ngx_etcd_member_t *member,
    ngx_sockaddr_t *sockaddr, socklen_t socklen);

/* Returns NULL, or why a member may not have the address. */
char *ngx_etcd_address_usable(ngx_etcd_member_conf_t *conf,
    struct sockaddr *sa);

/*
 * Sets the attributes that "fields" define, with paths relative to the node.
 * NGX_ERROR: the reason is set.
 */
ngx_int_t ngx_etcd_member_fields(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, ngx_etcd_field_t *fields,
    json_t *node);

/* Set one attribute from a value or a text.  NGX_ERROR: the reason is set. */
ngx_int_t ngx_etcd_member_field(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, ngx_etcd_field_t *field,
    json_t *value);
ngx_int_t ngx_etcd_member_field_text(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, ngx_etcd_field_t *field, ngx_str_t *text);

/* Returns the attribute of that name, or NGX_ETCD_ATTR_N. */
ngx_uint_t ngx_etcd_attr_find(ngx_str_t *name);
ngx_uint_t ngx_etcd_attr_is_flag(ngx_uint_t id);

/* Removes white space at both ends. */
void ngx_etcd_value_trim(ngx_str_t *text);

/*
 * Set the reason to 'FIELD "TEXT" WHAT', with the text truncated and escaped,
 * and return NGX_ERROR.  The text and what may be NULL.  A JSON value other
 * than a string is not quoted.
 */
ngx_int_t ngx_etcd_decode_invalid(ngx_etcd_decode_t *d, char *field,
    ngx_str_t *text, char *what);
ngx_int_t ngx_etcd_decode_invalid_json(ngx_etcd_decode_t *d, char *field,
    json_t *value, char *what);


#endif /* _NGX_ETCD_FORMAT_H_INCLUDED_ */
