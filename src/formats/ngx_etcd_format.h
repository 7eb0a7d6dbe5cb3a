
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What the decoders of the value formats work with: private to the formats
 * and to the reading of addresses and attributes.
 */


#ifndef _NGX_ETCD_FORMAT_H_INCLUDED_
#define _NGX_ETCD_FORMAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_pointer.h>
#include <ngx_etcd_uri.h>


/* bytes; what is longer is refused before it is looked into */

#define NGX_ETCD_MEMBER_MAX_KEY    4096
#define NGX_ETCD_MEMBER_MAX_VALUE  NGX_ETCD_JSON_MAX_TEXT

/* members that one value may name */

#define NGX_ETCD_MEMBER_MAX_NODES  1024


typedef enum {
    NGX_ETCD_ATTR_WEIGHT = 0,
    NGX_ETCD_ATTR_MAX_FAILS,
    NGX_ETCD_ATTR_MAX_CONNS,
    NGX_ETCD_ATTR_FAIL_TIMEOUT,
    NGX_ETCD_ATTR_SLOW_START,
    NGX_ETCD_ATTR_PRIORITY,                        /* the lowest goes first */
    NGX_ETCD_ATTR_PRECEDENCE,                      /* the highest */
    NGX_ETCD_ATTR_DOWN,
    NGX_ETCD_ATTR_BACKUP,
    NGX_ETCD_ATTR_DRAIN,
    NGX_ETCD_ATTR_N
} ngx_etcd_attr_id_e;


/* where a format says an attribute, and how */

#define NGX_ETCD_FIELD_NOT    0x01     /* a flag that means the contrary */
#define NGX_ETCD_FIELD_ZERO   0x02     /* 0 says nothing, as it does in Go */
#define NGX_ETCD_FIELD_TEXT   0x04     /* it may be a string */
#define NGX_ETCD_FIELD_LOOSE  0x08     /* the application's: says nothing if it
                                          cannot be read */

typedef struct {
    ngx_str_t                       path;          /* JSON pointer, or a
                                                      parameter's name */
    ngx_etcd_attr_id_e              id;
    ngx_uint_t                      how;
    ngx_str_t                       equals;        /* a flag: set by just this
                                                      text or number */
} ngx_etcd_field_t;


/*
 * Where members stand in an object, as JSON pointers; without data: nowhere.
 * All but name and nodes begin at a node, which is the object itself if it
 * has no nodes.
 */

struct ngx_etcd_shape_s {
    ngx_str_t                       name;          /* of the service */
    ngx_str_t                       nodes;         /* array, or object whose
                                                      names are addresses where
                                                      its values are weights */

    /* the address: the first of these that is there */

    ngx_str_t                       endpoints;     /* array of URLs */
    ngx_str_t                       url;
    ngx_str_t                       address;
    ngx_str_t                       network;       /* of address: tcp, unix */
    ngx_str_t                       host;
    ngx_str_t                       port;
    ngx_uint_t                      from_key;      /* its last segment */

    ngx_str_t                       tags;
    ngx_etcd_field_t               *fields;        /* up to one without data */
    ngx_uint_t                      priority;      /* if no field says it */
};


/* one decoding: lives on the stack of ngx_etcd_member_decode() */

typedef struct {
    ngx_etcd_member_conf_t         *conf;
    const ngx_etcd_shape_t         *shape;         /* NULL: of no JSON */
    ngx_str_t                       key;
    ngx_str_t                       value;         /* without white space
                                                      around it */
    ngx_etcd_json_t                *object;        /* of the value, or NULL */
    ngx_etcd_json_reader_t          reader;        /* of the object */
    ngx_pool_t                     *pool;
    ngx_array_t                    *members;
    ngx_str_t                      *reason;
} ngx_etcd_decode_t;


typedef enum {
    NGX_ETCD_VALUE_IGNORED = 0,                    /* any bytes, any length */
    NGX_ETCD_VALUE_TEXT,
    NGX_ETCD_VALUE_JSON                            /* object is set */
} ngx_etcd_value_e;


/* parameters of "etcd_members" that have a meaning in a format */

#define NGX_ETCD_TAKES_TAG       0x01
#define NGX_ETCD_TAKES_SCHEME    0x02
#define NGX_ETCD_TAKES_POINTERS  0x04

/* several keys, "PATH/NAME", make an object of one member at PATH */

#define NGX_ETCD_TAKES_GROUPS    0x08


struct ngx_etcd_format_s {
    ngx_str_t                       name;
    ngx_etcd_value_e                value;

    /*
     * Adds members; results as of ngx_etcd_member_decode(), except that
     * NGX_OK without a member means NGX_DECLINED, and that what was added
     * before an error is taken back by the caller.
     */
    ngx_int_t                     (*decode)(ngx_etcd_decode_t *d);

    const ngx_etcd_shape_t         *shape;
    ngx_uint_t                      takes;
};


/* the decoders */

ngx_int_t ngx_etcd_format_plain(ngx_etcd_decode_t *d);
ngx_int_t ngx_etcd_format_key(ngx_etcd_decode_t *d);
ngx_int_t ngx_etcd_format_dubbo(ngx_etcd_decode_t *d);
ngx_int_t ngx_etcd_format_rpcx(ngx_etcd_decode_t *d);
ngx_int_t ngx_etcd_format_upsync(ngx_etcd_decode_t *d);

/* of every object that a shape tells about */
ngx_int_t ngx_etcd_format_shape(ngx_etcd_decode_t *d);

/* the fields of our own form */
extern ngx_etcd_field_t  ngx_etcd_fields[];

/* whether the network of an address is tcp (AF_INET), unix or AF_UNSPEC */
ngx_uint_t ngx_etcd_shape_network(ngx_etcd_json_t *network);

/*
 * 1 if all tags that a member needs are among its own or, where it does not
 * name one, the common ones.  Both are objects, or NULL.
 */
ngx_uint_t ngx_etcd_shape_tagged(ngx_etcd_member_conf_t *conf,
    ngx_etcd_json_t *own, ngx_etcd_json_t *common);

/* parses the value, which has to be an object */
ngx_int_t ngx_etcd_decode_object(ngx_etcd_decode_t *d);

/*
 * Finds the last segment of the key and decodes it into buf, which is of
 * NGX_ETCD_FORMAT_SEGMENT bytes: the longest address, every byte escaped as
 * "%2F".  Returns NULL, or what is wrong with the segment, which is left as it
 * is in the key then.
 */
#define NGX_ETCD_FORMAT_SEGMENT  (3 * NGX_ETCD_MEMBER_NAME_LEN)

char *ngx_etcd_format_segment(ngx_str_t *key, ngx_str_t *segment, u_char *buf);

/* the member's address is that segment */
ngx_int_t ngx_etcd_format_key_address(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member);

/*
 * Appends a member without an address and with the default attributes.  It
 * may move when the next one is added.  NULL: no memory, the reason is set.
 */
ngx_etcd_member_t *ngx_etcd_member_add(ngx_etcd_decode_t *d);

/*
 * Reads "1.2.3.4:80", "[::1]:80" or "unix:/path" into sockaddr and name.
 * Returns NULL, or what is wrong with it: of a host name, that it is one.
 */
char *ngx_etcd_address_parse(ngx_etcd_member_t *member, ngx_str_t *text);

/*
 * The same, and checks that the address may be a member; a host name is one
 * that is to be resolved.  The field names the place where the text was found.
 * NGX_ERROR: the reason is set.
 */
ngx_int_t ngx_etcd_member_address(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, char *field, ngx_str_t *text);

/*
 * Sets the address from the host and port that an object gives apart: an
 * IP address, its brackets optional, and a number, maybe as a string.
 */
ngx_int_t ngx_etcd_member_host_port(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, const ngx_etcd_shape_t *shape,
    ngx_etcd_json_t *host, ngx_etcd_json_t *port);

/*
 * The same for what a URL says: without a port it is that of the scheme.
 * NGX_DECLINED: it is of another scheme than is wanted.
 */
ngx_int_t ngx_etcd_member_url(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    char *field, ngx_etcd_uri_t *url);

/* of a host that is not resolved: the address of none, unlike all others */
void ngx_etcd_address_unresolved(ngx_etcd_member_t *member);

/* of a host, with its port */
void ngx_etcd_address_resolved(ngx_etcd_member_t *member,
    ngx_sockaddr_t *sockaddr, socklen_t socklen);

/* NULL, or why a member may not have it */
char *ngx_etcd_address_usable(ngx_etcd_member_conf_t *conf,
    struct sockaddr *sa);

/* sets every attribute that the fields find from node on */
ngx_int_t ngx_etcd_member_fields(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, ngx_etcd_field_t *fields,
    ngx_etcd_json_t *node);

/* sets the attribute that one value, or one text, says */
ngx_int_t ngx_etcd_member_field(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, ngx_etcd_field_t *field,
    ngx_etcd_json_t *value);
ngx_int_t ngx_etcd_member_field_text(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, ngx_etcd_field_t *field, ngx_str_t *text);

/* an attribute by its name; NGX_ETCD_ATTR_N if there is none */
ngx_uint_t ngx_etcd_attr_find(ngx_str_t *name);
ngx_uint_t ngx_etcd_attr_is_flag(ngx_uint_t id);

/* without the white space around it */
void ngx_etcd_value_trim(ngx_str_t *text);

/*
 * Set the reason 'FIELD "TEXT" WHAT', the text shortened and escaped, and
 * return NGX_ERROR.  The text or what may be NULL.  A value of JSON that is
 * no string is shown without quotes.
 */
ngx_int_t ngx_etcd_decode_invalid(ngx_etcd_decode_t *d, char *field,
    ngx_str_t *text, char *what);
ngx_int_t ngx_etcd_decode_invalid_json(ngx_etcd_decode_t *d, char *field,
    ngx_etcd_json_t *value, char *what);


#endif /* _NGX_ETCD_FORMAT_H_INCLUDED_ */
