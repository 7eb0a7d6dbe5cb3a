
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
#include <jansson.h>
#include <ngx_etcd_member.h>


/* bytes; what is longer is refused before it is looked into */

#define NGX_ETCD_MEMBER_MAX_KEY    4096
#define NGX_ETCD_MEMBER_MAX_VALUE  65536


/* one decoding: lives on the stack of ngx_etcd_member_decode() */

typedef struct {
    ngx_etcd_member_conf_t         *conf;
    ngx_str_t                       key;
    ngx_str_t                       value;         /* without white space
                                                      around it */
    json_t                         *object;        /* of the value, or NULL */
    ngx_pool_t                     *pool;
    ngx_array_t                    *members;
    ngx_str_t                      *reason;
} ngx_etcd_decode_t;


typedef enum {
    NGX_ETCD_VALUE_IGNORED = 0,                    /* any bytes, any length */
    NGX_ETCD_VALUE_TEXT,
    NGX_ETCD_VALUE_JSON                            /* object is set */
} ngx_etcd_value_e;


struct ngx_etcd_format_s {
    ngx_str_t                       name;
    ngx_etcd_value_e                value;

    /*
     * Adds members; results as of ngx_etcd_member_decode(), except that
     * NGX_OK without a member means NGX_DECLINED, and that what was added
     * before an error is taken back by the caller.
     */
    ngx_int_t                     (*decode)(ngx_etcd_decode_t *d);
};


/*
 * Appends a member without an address and with the default attributes.  It
 * may move when the next one is added.  NULL: no memory, the reason is set.
 */
ngx_etcd_member_t *ngx_etcd_member_add(ngx_etcd_decode_t *d);

/*
 * Reads "1.2.3.4:80", "[::1]:80" or "unix:/path" into sockaddr and name.
 * Returns NULL, or what is wrong with it.
 */
char *ngx_etcd_address_parse(ngx_etcd_member_t *member, ngx_str_t *text);

/*
 * The same, and checks that the address may be a member.  The field names
 * the place where the text was found.  NGX_ERROR: the reason is set.
 */
ngx_int_t ngx_etcd_member_address(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, char *field, ngx_str_t *text);

/*
 * Sets the address from the host and port that an object gives apart: an
 * IP address, its brackets optional, and a number, maybe as a string.
 */
ngx_int_t ngx_etcd_member_host_port(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, json_t *host, json_t *port);

/* sets every attribute that the object names; other fields are ignored */
ngx_int_t ngx_etcd_member_attributes(ngx_etcd_decode_t *d,
    ngx_etcd_member_t *member, json_t *object);

/*
 * Set the reason 'FIELD "TEXT" WHAT', the text shortened and escaped, and
 * return NGX_ERROR.  The text or what may be NULL.  A value of JSON that is
 * no string is shown without quotes.
 */
ngx_int_t ngx_etcd_decode_invalid(ngx_etcd_decode_t *d, char *field,
    ngx_str_t *text, char *what);
ngx_int_t ngx_etcd_decode_invalid_json(ngx_etcd_decode_t *d, char *field,
    json_t *value, char *what);


#endif /* _NGX_ETCD_FORMAT_H_INCLUDED_ */
