
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Decodes a key and its value to members, and says what is wrong with a
 * value.
 */


#ifndef _NGX_ETCD_DECODE_H_INCLUDED_
#define _NGX_ETCD_DECODE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_member.h>


/*
 * Bytes; longer keys and values are refused unread.  A key may be the URL of a
 * service with hundreds of methods, each comma of which is escaped.
 */

#define NGX_ETCD_DECODE_MAX_KEY    32768
#define NGX_ETCD_DECODE_MAX_VALUE  NGX_ETCD_JSON_MAX_TEXT

/* members per value */

#define NGX_ETCD_DECODE_MAX_NODES  1024


/* The reasons why a value, or a part of it, makes no members. */

typedef struct {
    ngx_str_t                       text;          /* of what is invalid */
    ngx_uint_t                      nodes;         /* number of invalid ones */
    ngx_etcd_unused_e               unused;        /* kind of what is valid,
                                                      but not used */
    ngx_str_t                       note;          /* why it is not */
} ngx_etcd_reason_t;


/* The state of decoding one value; on the stack of ngx_etcd_decode(). */

struct ngx_etcd_decode_s {
    ngx_etcd_member_conf_t         *conf;
    const ngx_etcd_json_layout_t   *layout;
    ngx_str_t                       key;
    ngx_str_t                       value;         /* trimmed */
    json_t                         *object;        /* the parsed value, or
                                                      NULL */
    ngx_etcd_json_t                 json;          /* owns the object */
    ngx_pool_t                     *pool;
    ngx_array_t                    *members;
    ngx_str_t                      *reason;
    json_t                         *port;          /* instead of the layout's,
                                                      or NULL */
    ngx_uint_t                      weight;        /* default */
    ngx_uint_t                      near;          /* the node has the tag of
                                                      "etcd_prefer" */
    ngx_str_t                       first;         /* reason of the first part
                                                      that was skipped */
    ngx_uint_t                      skipped;       /* parts */
    ngx_uint_t                      nodes;         /* of these, nodes */
    ngx_uint_t                      failed;        /* no memory */
    ngx_etcd_unused_e               unused;
    ngx_str_t                       note;
};


/*
 * Decodes one key (complete, without the namespace; any bytes) and its value
 * (any bytes, any length) and appends the members to an array of
 * ngx_etcd_member_t.
 *
 *     NGX_OK        at least one member was appended; unless reason->text is
 *                   empty, a part of the value was skipped, and the text tells
 *                   which; reason->unused: a field that does not exist,
 *     NGX_DECLINED  the key is not a member in this format, or not one that the
 *                   configuration selects: no error; reason->unused tells why,
 *                   reason->text as above,
 *     NGX_ERROR     invalid: nothing was appended.
 *
 * reason->text, allocated from the pool, names the field, the value (truncated,
 * escaped) and the values allowed.  Of several nodes each is valid or invalid
 * by itself: NGX_ERROR means that no node is valid.
 *
 * Never resolves names, never logs.
 */
ngx_int_t ngx_etcd_decode(ngx_etcd_member_conf_t *conf, ngx_str_t *key,
    ngx_str_t *value, ngx_pool_t *pool, ngx_array_t *members,
    ngx_etcd_reason_t *reason);

/*
 * Decodes, as ngx_etcd_decode() does, after ngx_etcd_decode_init(): the caller
 * has set the value, or, for formats whose values are objects, the object that
 * it has parsed or made.
 */
ngx_int_t ngx_etcd_decode_members(ngx_etcd_decode_t *d,
    ngx_etcd_reason_t *reason);

/*
 * Returns 1 if a key with that lease, 0 for none, is no member, since the
 * configuration requires a lease: its members are removed, and the reason says
 * so.
 */
ngx_uint_t ngx_etcd_decode_unleased(ngx_etcd_member_conf_t *conf,
    int64_t lease, ngx_array_t *members, ngx_etcd_reason_t *reason);

/*
 * For decoders.
 */

/* Begins to decode; for callers that have the parts of a member themselves. */
void ngx_etcd_decode_init(ngx_etcd_decode_t *d, ngx_etcd_member_conf_t *conf,
    ngx_str_t *key, ngx_pool_t *pool, ngx_array_t *members,
    ngx_str_t *reason);

/* Sets the default weight, unless the configuration has one; 0: 1. */
void ngx_etcd_decode_weight(ngx_etcd_decode_t *d, ngx_uint_t weight);

/* Parses the value, which must be an object.  NGX_ERROR: the reason is set. */
ngx_int_t ngx_etcd_decode_object(ngx_etcd_decode_t *d);

/*
 * Called after a function has set the reason: what the reason names is
 * skipped, and the rest of the value is valid.
 */
void ngx_etcd_decode_skip(ngx_etcd_decode_t *d);

/*
 * Notes why the key, or a part of its value, is not used though it is valid.
 * The first note counts.
 */
void ngx_etcd_decode_unused(ngx_etcd_decode_t *d, ngx_etcd_unused_e unused,
    ngx_str_t *text);

/*
 * The result of one of several nodes, the members of which begin at "first".
 * Returns 1 if the node is valid, whether it is selected or not; otherwise it
 * is skipped.
 */
ngx_uint_t ngx_etcd_decode_node(ngx_etcd_decode_t *d, ngx_int_t rc,
    ngx_uint_t first);

/*
 * Appends a member without an address, with the default attributes.  The
 * pointer is valid until the next member is added.  NULL: the reason is set.
 */
ngx_etcd_member_t *ngx_etcd_decode_add(ngx_etcd_decode_t *d);

/* Removes a byte order mark, and white space at both ends. */
void ngx_etcd_decode_trim(ngx_str_t *text);

/* Sets the reason, and makes the whole value fail.  Returns NGX_ERROR. */
ngx_int_t ngx_etcd_decode_no_memory(ngx_etcd_decode_t *d);

/*
 * Set the reason to 'FIELD "TEXT" WHAT', with the text truncated and escaped,
 * and return NGX_ERROR.  The text and what may be NULL.  A JSON value other
 * than a string is not quoted.
 */
ngx_int_t ngx_etcd_decode_invalid(ngx_etcd_decode_t *d, char *field,
    ngx_str_t *text, char *what);
ngx_int_t ngx_etcd_decode_invalid_json(ngx_etcd_decode_t *d, char *field,
    json_t *value, char *what);


#endif /* _NGX_ETCD_DECODE_H_INCLUDED_ */
