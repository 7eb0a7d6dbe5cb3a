
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Value formats: what a key and its value say about members.
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


/* what is used of a member; nothing here points into etcd's message */

typedef struct {
    uint32_t                        weight;        /* 1 .. MAX_WEIGHT */
    uint32_t                        max_fails;     /* 0: never unavailable */
    uint32_t                        max_conns;     /* 0: no limit */
    uint32_t                        fail_timeout;  /* seconds */
    uint32_t                        slow_start;    /* ms; 0: none */
    uint32_t                        priority;      /* 0 .. MAX_PRIORITY: who
                                                      have the lowest go
                                                      first */

    unsigned                        down:1;        /* gets nothing */
    unsigned                        backup:1;      /* when no other is left */
    unsigned                        drain:1;       /* gets nothing new */
} ngx_etcd_member_attr_t;


typedef struct {
    ngx_sockaddr_t                  sockaddr;
    socklen_t                       socklen;
    size_t                          name_len;
    u_char                          name[NGX_ETCD_MEMBER_NAME_LEN];
                                                   /* canonical, as nginx logs
                                                      it: "127.0.0.1:80",
                                                      "[::1]:80", "unix:/s" */
    ngx_etcd_member_attr_t          attr;

    /*
     * Of a member whose address is a host name, in lower case.  Until it is
     * resolved, the address is one of no family, and the name is empty, or
     * why it could not be resolved.
     */
    ngx_str_t                       host;          /* len 0: it is none */
    in_port_t                       port;
    ngx_uint_t                      whole;         /* weight of all addresses;
                                                      attr has its share */
    ngx_uint_t                      refused;       /* addresses of the host
                                                      that may not be used */
    ngx_uint_t                      beyond;        /* and that are too many */
} ngx_etcd_member_t;


typedef struct ngx_etcd_format_s    ngx_etcd_format_t;
typedef struct ngx_etcd_shape_s     ngx_etcd_shape_t;


/* how one upstream reads its prefix: made by configuration, then constant */

typedef struct {
    const ngx_etcd_format_t        *format;
    const ngx_etcd_shape_t         *shape;         /* by pointers; or NULL */
    ngx_etcd_member_attr_t          defaults;      /* for what is not said */
    ngx_str_t                       scheme;        /* len 0: any */
    ngx_str_t                       name;          /* of the service, where the
                                                      prefix leaves it open */
    ngx_array_t                    *tags;          /* of ngx_keyval_t, all of
                                                      which a member needs; or
                                                      NULL */
    uint32_t                        hash;          /* of parameters that were
                                                      read */
    ngx_array_t                    *allow;         /* of ngx_cidr_t, or NULL:
                                                      all are allowed */
    ngx_uint_t                      allow_unix;    /* allow list says unix: */
    ngx_resolver_t                 *resolver;      /* NULL: host names are
                                                      invalid */
    ngx_msec_t                      resolver_timeout;
} ngx_etcd_member_conf_t;


/* NULL if there is no such format */
const ngx_etcd_format_t *ngx_etcd_format_find(ngx_str_t *name);

ngx_str_t *ngx_etcd_format_name(const ngx_etcd_format_t *format);

/* all names, for an error message: "auto, plain, key, ..." */
ngx_str_t *ngx_etcd_format_names(ngx_pool_t *pool);

/* 1 if several keys of the format make one member */
ngx_uint_t ngx_etcd_format_grouped(const ngx_etcd_format_t *format);

/* 1 if such a key's last segment is the name of anything that is used */
ngx_uint_t ngx_etcd_format_part(const ngx_etcd_format_t *format,
    ngx_str_t *name);

/*
 * Decodes one key (whole, namespace removed; any bytes) and its value (any
 * bytes, any length) and appends what it says to members, an array of
 * ngx_etcd_member_t.
 *
 *     NGX_OK        at least one member was appended,
 *     NGX_DECLINED  the key is none of ours in this format: no member, no
 *                   error,
 *     NGX_ERROR     it is invalid: nothing was appended, and *reason is a
 *                   text from the pool that names the field, shows the value
 *                   (shortened, control bytes escaped) and what is allowed.
 *
 * Never resolves names, never logs.
 */
ngx_int_t ngx_etcd_member_decode(ngx_etcd_member_conf_t *conf, ngx_str_t *key,
    ngx_str_t *value, ngx_pool_t *pool, ngx_array_t *members,
    ngx_str_t *reason);

/*
 * Reads one parameter of etcd_members that is a member default (weight=,
 * max_fails=, fail_timeout=, max_conns=, slow_start=) into attr.
 * NGX_DECLINED: it is none of these.  NGX_ERROR: its value is invalid.
 */
ngx_int_t ngx_etcd_member_parameter(ngx_str_t *parameter,
    ngx_etcd_member_attr_t *attr);

/*
 * Reads one parameter that says how the format is to be read: scheme=, tag=
 * and, for json, the pointers.  NGX_DECLINED: it is none of these.
 * NGX_ERROR: *err says what is wrong with it.  Defaults are read before.
 */
ngx_int_t ngx_etcd_format_parameter(ngx_etcd_member_conf_t *conf,
    ngx_str_t *parameter, ngx_pool_t *pool, char **err);

/* all are read: NULL, or what is wrong with them together */
char *ngx_etcd_format_complete(ngx_etcd_member_conf_t *conf,
    ngx_str_t *prefix);


#endif /* _NGX_ETCD_MEMBER_H_INCLUDED_ */
