
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Value formats: decode a key and its value to members.
 */


#ifndef _NGX_ETCD_MEMBER_H_INCLUDED_
#define _NGX_ETCD_MEMBER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_MEMBER_MAX_WEIGHT    65535
#define NGX_ETCD_MEMBER_MAX_PRIORITY  65535

/* "unix:" and the longest path, or a bracketed IPv6 address with port */
#define NGX_ETCD_MEMBER_NAME_LEN    (sizeof("unix:") + 108)

#define NGX_ETCD_MEMBER_MAX_HOST    253


/* The attributes of a member; copied, not pointing into a message of etcd. */

typedef struct {
    uint32_t                        weight;        /* 1 .. MAX_WEIGHT */
    uint32_t                        max_fails;     /* 0: failures are
                                                      ignored */
    uint32_t                        max_conns;     /* 0: no limit */
    uint32_t                        fail_timeout;  /* seconds */
    uint32_t                        slow_start;    /* ms; 0: none */
    uint32_t                        priority;      /* 0 .. MAX_PRIORITY, lowest
                                                      first */

    unsigned                        down:1;        /* never used */
    unsigned                        backup:1;      /* if no other is left */
    unsigned                        drain:1;       /* no new sessions */
} ngx_etcd_member_attr_t;


typedef struct {
    ngx_sockaddr_t                  sockaddr;
    socklen_t                       socklen;
    size_t                          name_len;
    u_char                          name[NGX_ETCD_MEMBER_NAME_LEN];
                                                   /*
                                                    * as nginx logs it:
                                                    * "127.0.0.1:80",
                                                    * "[::1]:80", "unix:/s"
                                                    */
    ngx_etcd_member_attr_t          attr;

    /*
     * For a member registered by host name (lower case).  Until the name is
     * resolved, the address has no family, and "name" is empty or the reason
     * of the failure.
     */
    ngx_str_t                       host;          /* len 0: none */
    in_port_t                       port;
    ngx_uint_t                      whole;         /* weight for all addresses;
                                                      attr.weight is a share */
    ngx_uint_t                      refused;       /* refused addresses of the
                                                      host */
    ngx_uint_t                      beyond;        /* addresses above the
                                                      limit */
} ngx_etcd_member_t;


typedef struct ngx_etcd_format_s       ngx_etcd_format_t;
typedef struct ngx_etcd_json_layout_s  ngx_etcd_json_layout_t;


/*
 * How an upstream decodes its keys; made by the configuration, then constant.
 */

typedef struct {
    const ngx_etcd_format_t        *format;
    const ngx_etcd_json_layout_t   *layout;        /* of JSON pointers, or
                                                      NULL */
    ngx_etcd_member_attr_t          defaults;      /* default attributes */
    ngx_str_t                       scheme;        /* len 0: any */
    ngx_str_t                       name;          /* service name, if the
                                                      prefix does not end with
                                                      "/" */
    ngx_array_t                    *tags;          /* ngx_keyval_t, all
                                                      required; or NULL */
    uint32_t                        hash;          /* of the parameters */
    ngx_array_t                    *allow;         /* ngx_cidr_t, or NULL:
                                                      all */
    ngx_uint_t                      allow_unix;    /* "etcd_allow unix:" */
    ngx_resolver_t                 *resolver;      /* NULL: no host names */
    ngx_msec_t                      resolver_timeout;
} ngx_etcd_member_conf_t;


/* Returns NULL if there is no such format. */
const ngx_etcd_format_t *ngx_etcd_format_find(ngx_str_t *name);

ngx_str_t *ngx_etcd_format_name(const ngx_etcd_format_t *format);

/* Returns all names for an error message: "auto, plain, key, ...". */
ngx_str_t *ngx_etcd_format_names(ngx_pool_t *pool);

/* Returns 1 if several keys form one member in the format. */
ngx_uint_t ngx_etcd_format_grouped(const ngx_etcd_format_t *format);

/* Returns 1 if the format uses a key with that last segment. */
ngx_uint_t ngx_etcd_format_part(const ngx_etcd_format_t *format,
    ngx_str_t *name);

/*
 * Decodes one key (complete, without the namespace; any bytes) and its value
 * (any bytes, any length) and appends the members to an array of
 * ngx_etcd_member_t.
 *
 *     NGX_OK        at least one member was appended,
 *     NGX_DECLINED  the key is not a member in this format: no error,
 *     NGX_ERROR     invalid: nothing was appended, and *reason, allocated
 *                   from the pool, names the field, the value (truncated,
 *                   escaped) and the values allowed.
 *
 * Never resolves names, never logs.
 */
ngx_int_t ngx_etcd_member_decode(ngx_etcd_member_conf_t *conf, ngx_str_t *key,
    ngx_str_t *value, ngx_pool_t *pool, ngx_array_t *members,
    ngx_str_t *reason);

/*
 * Reads a parameter of etcd_members with a default attribute (weight=,
 * max_fails=, fail_timeout=, max_conns=, slow_start=) into attr.
 * NGX_DECLINED: another parameter.  NGX_ERROR: the value is invalid.
 */
ngx_int_t ngx_etcd_member_parameter(ngx_str_t *parameter,
    ngx_etcd_member_attr_t *attr);

/*
 * Reads a parameter of the format: scheme=, tag= and, for json, the pointers.
 * Defaults must be read before.  NGX_DECLINED: another parameter.  NGX_ERROR:
 * *err is set.
 */
ngx_int_t ngx_etcd_format_parameter(ngx_etcd_member_conf_t *conf,
    ngx_str_t *parameter, ngx_pool_t *pool, char **err);

/* Checks the parameters after all were read: NULL, or what is wrong. */
char *ngx_etcd_format_complete(ngx_etcd_member_conf_t *conf,
    ngx_str_t *prefix);


#endif /* _NGX_ETCD_MEMBER_H_INCLUDED_ */
