
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A member, and how an upstream decodes its keys.
 */


#ifndef _NGX_ETCD_MEMBER_H_INCLUDED_
#define _NGX_ETCD_MEMBER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_ssl.h>


/*
 * Leaders as the configuration describes them: who writes the keys, which
 * keys are read, and which role a member must have.
 */

typedef enum {
    NGX_ETCD_LEADER_ELECTION = 0,    /* the lowest create_revision */
    NGX_ETCD_LEADER_KEY,             /* the value of one key, or the
                                        member that it names */
    NGX_ETCD_LEADER_PATRONI,
    NGX_ETCD_LEADER_VITESS           /* the value of the key with the lowest
                                        mod_revision, or the member that it
                                        names */
} ngx_etcd_leader_format_e;


typedef enum {
    NGX_ETCD_ROLE_LEADER = 0,
    NGX_ETCD_ROLE_REPLICA,           /* running, and a replica by its own
                                        role */
    NGX_ETCD_ROLE_ANY,               /* the leader, and replicas */
    NGX_ETCD_ROLE_SYNC,              /* a replica that is a synchronous
                                        standby */
    NGX_ETCD_ROLE_QUORUM,            /* a synchronous standby, quorum commit */
    NGX_ETCD_ROLE_ASYNC,             /* a replica that is neither */
    NGX_ETCD_ROLE_STANDBY_LEADER     /* the leader of a standby cluster */
} ngx_etcd_role_e;

/* Returns 1 if at most one member has the role. */
#define ngx_etcd_role_sole(role)                                              \
    ((role) == NGX_ETCD_ROLE_LEADER || (role) == NGX_ETCD_ROLE_STANDBY_LEADER)


#define NGX_ETCD_LEADER_ANY_LAG  ((uint64_t) -1)


/*
 * Made by configuration, constant afterwards.  A key that is not needed has no
 * data; one of a prefix with variables is relative, and may be empty
 * (ngx_etcd_leader_keys.h).
 */

typedef struct {
    ngx_etcd_leader_format_e   format;
    ngx_uint_t                 role;         /* ngx_etcd_role_e */
    ngx_str_t                  watched;      /* prefix of all keys below */
    ngx_str_t                  key;          /* of the leader; election,
                                                Vitess: prefix of candidates */
    ngx_str_t                  members;      /* prefix of the members' keys,
                                                one of which the leader's value
                                                names; none: the value is the
                                                member */
    ngx_str_t                  name;         /* JSON pointer to that name in
                                                the leader's value; empty: the
                                                value is the name */
    ngx_str_t                  failover;     /* key of an order to hand over;
                                                Patroni's alone */
    ngx_str_t                  sync;         /* Patroni's other keys */
    ngx_str_t                  config;
    ngx_str_t                  failsafe;
    uint64_t                   max_lag;      /* bytes, or ANY_LAG */
    ngx_str_t                  replication_state;
                                             /* of a replica; empty: any */
    ngx_uint_t                 confirm;      /* by the member's own API */
    ngx_str_t                  api_trusted;  /* files of api_ssl */
    ngx_str_t                  api_certificate;
    ngx_str_t                  api_key;
    ngx_uint_t                 api_verify;   /* UNSET: not said */
    ngx_etcd_ssl_t            *api_ssl;      /* of that API; NULL: no https */
    ngx_uint_t                 proxy;        /* the address is of proxy_url */
} ngx_etcd_leader_conf_t;


#define NGX_ETCD_MEMBER_MAX_WEIGHT    65535
#define NGX_ETCD_MEMBER_MAX_PRIORITY  65535

/* "unix:" and the longest path, or a bracketed IPv6 address with port */
#define NGX_ETCD_MEMBER_NAME_LEN    (sizeof("unix:") + 108)

#define NGX_ETCD_MEMBER_MAX_HOST    253

/* nginx's limit for "route=" of a server */
#define NGX_ETCD_MEMBER_MAX_ROUTE   32


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
    unsigned                        ordered:1;     /* drains for the operator's
                                                      key only, not by its own
                                                      value */
    unsigned                        near:1;        /* has the tag of
                                                      "etcd_prefer" */
} ngx_etcd_member_attr_t;


/* Names a member in sessions, instead of its address. */

typedef struct {
    size_t                          len;           /* 0: none */
    u_char                          data[NGX_ETCD_MEMBER_MAX_ROUTE];
} ngx_etcd_route_t;


typedef struct {
    ngx_sockaddr_t                  sockaddr;
    socklen_t                       socklen;
    size_t                          name_len;
    u_char                          name[NGX_ETCD_MEMBER_NAME_LEN];
                                                   /*
                                                    * the text in nginx's logs:
                                                    * "127.0.0.1:80",
                                                    * "[::1]:80", "unix:/s"
                                                    */
    ngx_etcd_member_attr_t          attr;

    ngx_etcd_route_t                route;

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


typedef struct ngx_etcd_decode_s  ngx_etcd_decode_t;


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


#define NGX_ETCD_FIELD(path, attr, how)                                       \
    { ngx_string(path), NGX_ETCD_ATTR_##attr, how, ngx_null_string }

/* a flag that one word sets, and others leave as it is */

#define NGX_ETCD_FIELD_WORD(path, attr, word)                                 \
    { ngx_string(path), NGX_ETCD_ATTR_##attr, 0, ngx_string(word) }

#define ngx_etcd_null_field  { ngx_null_string, 0, 0, ngx_null_string }


/*
 * The paths of members in an object, as JSON pointers; a path without data is
 * unused.  All paths except name and nodes are relative to a node; without
 * nodes the object itself is the only node.
 */

typedef struct {
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
    ngx_str_t                       scheme;        /* of the object, whose port
                                                      nodes without one have */
    ngx_uint_t                      from_key;      /* address in the last
                                                      segment of the key */

    ngx_str_t                       tags;          /* "": each field of the
                                                      node */
    ngx_etcd_field_t               *fields;        /* ends with an empty path;
                                                      NULL: none */
    ngx_uint_t                      priority;      /* default, if no field sets
                                                      a priority */
    ngx_uint_t                      closed;        /* all fields are known:
                                                      another one is noted */
} ngx_etcd_json_layout_t;


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


typedef struct {
    ngx_str_t                       name;
    ngx_etcd_value_e                value;
    ngx_str_t                       other_key;     /* no member: a key with that
                                                      end */
    ngx_str_t                       other_value;   /* a value of none */

    /*
     * Appends members.  The results are those of ngx_etcd_decode(), with two
     * exceptions: NGX_OK without a member means NGX_DECLINED, and the caller
     * removes members that were appended before an error.
     */
    ngx_int_t                     (*decode)(ngx_etcd_decode_t *d);

    ngx_etcd_json_layout_t          layout;        /* of an object */
    ngx_uint_t                      takes;
    ngx_uint_t                      weight;        /* of a member without one;
                                                      0: 1 */
} ngx_etcd_format_t;


/* Why a valid key, or a part of its value, is not used. */

typedef enum {
    NGX_ETCD_UNUSED_NONE = 0,                      /* counts the keys that drain
                                                      members */
    NGX_ETCD_UNUSED_FIELD,                         /* a field is unknown */
    NGX_ETCD_UNUSED_TAG,                           /* "tag=" */
    NGX_ETCD_UNUSED_SCHEME,                        /* "scheme=" */
    NGX_ETCD_UNUSED_LEASE,                         /* "lease=required" */
    NGX_ETCD_UNUSED_OTHER                          /* not a member */
} ngx_etcd_unused_e;


/*
 * A tag that a member must have, or must not have; made by the configuration.
 */

typedef struct {
    ngx_str_t                       key;
    ngx_str_t                       value;
    ngx_str_t                       text;          /* why a member without a
                                                      match is not used */
    unsigned                        any:1;         /* any value but false */
    unsigned                        not:1;         /* must not have it */
} ngx_etcd_tag_t;


/*
 * How an upstream decodes its keys; made by the configuration, then constant.
 */

typedef struct {
    const ngx_etcd_format_t        *format;
    const ngx_etcd_json_layout_t   *layout;        /* of JSON pointers, or
                                                      NULL */
    ngx_etcd_member_attr_t          defaults;      /* default attributes;
                                                      weight 0: the format's */
    ngx_uint_t                      port;          /* of addresses without one;
                                                      0: invalid */
    ngx_str_t                       scheme;        /* len 0: any */
    ngx_str_t                       name;          /* service name, if the
                                                      prefix does not end with
                                                      "/" */
    ngx_array_t                    *tags;          /* ngx_etcd_tag_t, all
                                                      required; or NULL */
    ngx_etcd_tag_t                  prefer;        /* the tag of members that
                                                      are preferred; an empty
                                                      key: none */
    ngx_uint_t                      lease;         /* a key without a lease is
                                                      no member */
    uint32_t                        hash;          /* of the parameters */
    ngx_array_t                    *allow;         /* ngx_cidr_t, or NULL:
                                                      all */
    ngx_uint_t                      allow_unix;    /* "etcd_allow unix:" */
    ngx_resolver_t                 *resolver;      /* NULL: no host names */
    ngx_msec_t                      resolver_timeout;
} ngx_etcd_member_conf_t;


/*
 * A member in shared memory: the payload of a set's entry.
 */

#define NGX_ETCD_MEMBER_PACK_MAX                                              \
    (24 + sizeof(ngx_sockaddr_t) + NGX_ETCD_MEMBER_NAME_LEN                   \
     + 1 + NGX_ETCD_MEMBER_MAX_ROUTE + 10 + NGX_ETCD_MEMBER_MAX_HOST)


/* An unpacked payload; points into the payload. */

typedef struct {
    ngx_etcd_member_attr_t   attr;
    u_char                  *sockaddr;     /* unaligned */
    socklen_t                socklen;
    ngx_str_t                name;
    ngx_str_t                route;        /* len 0: none */

    ngx_str_t                host;         /* len 0: registered by address */
    in_port_t                port;
    ngx_uint_t               whole;
    ngx_uint_t               refused;
    ngx_uint_t               beyond;
    ngx_uint_t               unresolved;   /* has no address; name is the
                                              reason */
} ngx_etcd_member_pack_t;


/*
 * Returns the length, at most NGX_ETCD_MEMBER_PACK_MAX.  Equal members give
 * equal bytes.
 */
size_t ngx_etcd_member_pack(u_char *payload, ngx_etcd_member_t *member);

void ngx_etcd_member_pack_read(ngx_etcd_member_pack_t *record, u_char *payload);

/*
 * Makes a packed member drain for the operator's key, or not for it any longer.
 * Returns its length; 0: it stays as it is, since its own value drains it, or
 * nothing is new.
 */
size_t ngx_etcd_member_pack_drain(u_char *payload, ngx_uint_t drain);


#endif /* _NGX_ETCD_MEMBER_H_INCLUDED_ */
