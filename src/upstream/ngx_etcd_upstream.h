
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directives of "upstream" blocks; common to http and stream.
 */


#ifndef _NGX_ETCD_UPSTREAM_H_INCLUDED_
#define _NGX_ETCD_UPSTREAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_balance.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_check_result.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_eject.h>
#include <ngx_etcd_members_conf.h>


/* An "upstream" block; all zero: no directive of this module was seen. */

typedef struct {
    ngx_etcd_conf_t             *cluster;       /* of the first line */
    ngx_etcd_service_conf_t     *service;       /* of the first line; NULL:
                                                   neither etcd_members nor
                                                   etcd_leader */
    const ngx_etcd_method_t     *method;        /* NULL: the default */
    ngx_str_t                    key;           /* of the method, not
                                                   compiled */
    ngx_array_t                 *allow;         /* ngx_cidr_t; NULL: all */
    ngx_uint_t                   allow_unix;
    ngx_etcd_check_conf_t       *check;         /* NULL: none */
    ngx_etcd_eject_conf_t       *eject;         /* NULL: none */
    ngx_etcd_guard_conf_t        guard;
    ngx_uint_t                   guarded;       /* by "etcd_guard" */
    ngx_etcd_prefer_t            prefer;
    ngx_uint_t                   initialized;   /* the module's balancer is
                                                   used */
    ngx_str_t                    directive;     /* etcd_members or etcd_leader,
                                                   otherwise the first
                                                   directive */
    ngx_etcd_refusal_log_t       refusals;      /* of this worker */
    u_char                      *file;          /* place of the directive */
    ngx_uint_t                   line;
} ngx_etcd_upstream_t;


/* 1 if a failure of a member leads to a check; or is counted, too */

#define ngx_etcd_upstream_hastens(upstream)                                   \
    ((upstream)->check != NULL && (upstream)->check->fast != 0)

#define ngx_etcd_upstream_observes(upstream)                                  \
    ((upstream)->eject != NULL || ngx_etcd_upstream_hastens(upstream))


/*
 * Handlers of the directives.  After etcd_balance the caller compiles the
 * key, if any.  For etcd_balance, etcd_allow, etcd_prefer and etcd_guard, conf
 * has an ngx_etcd_upstream_t at the command's offset.
 */

/* etcd_members and etcd_leader; find() knows the variables of a prefix */
char *ngx_etcd_upstream_members(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream,
    ngx_str_t *name, ngx_uint_t stream, ngx_etcd_pattern_index_pt find);
char *ngx_etcd_upstream_balance(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_etcd_upstream_allow(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_etcd_upstream_prefer(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_etcd_upstream_guard(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* etcd_eject, for http if cmd->post is NULL, else for stream */
char *ngx_etcd_upstream_eject(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* etcd_check; the name is that of the upstream */
char *ngx_etcd_upstream_checks(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream,
    ngx_str_t *name);

/*
 * nginx and its methods refuse a block without servers.  This placeholder
 * server is used until ngx_etcd_upstream_check() can report the error; the
 * placeholder is recognized by the address of its name.  NULL: no memory.
 */
ngx_addr_t *ngx_etcd_upstream_placeholder(ngx_conf_t *cf);

extern ngx_str_t  ngx_etcd_upstream_placeholder_name;

#define ngx_etcd_upstream_is_placeholder(name)                                \
    ((name)->data == ngx_etcd_upstream_placeholder_name.data)

/* a "server" of http or stream */

typedef struct {
    ngx_str_t                 *name;
    ngx_addr_t                *addrs;
    ngx_uint_t                 naddrs;
    ngx_etcd_member_attr_t     attr;
    ngx_str_t                 *route;         /* NULL or empty: none */
} ngx_etcd_upstream_server_t;


#define ngx_etcd_upstream_server_set(to, server)                              \
    ngx_memzero(to, sizeof(ngx_etcd_upstream_server_t));                      \
    (to)->name = &(server)->name;                                             \
    (to)->addrs = (server)->addrs;                                            \
    (to)->naddrs = (server)->naddrs;                                          \
    (to)->attr.weight = ngx_min((server)->weight,                             \
                                NGX_ETCD_MEMBER_MAX_WEIGHT);                  \
    (to)->attr.max_fails = ngx_min((server)->max_fails, 0xffffffff);          \
    (to)->attr.max_conns = ngx_min((server)->max_conns, 0xffffffff);          \
    (to)->attr.fail_timeout = ngx_min((server)->fail_timeout, 0x7fffffff);    \
    (to)->attr.down = (server)->down;                                         \
    (to)->attr.backup = (server)->backup

/* Adds a static server; logs errors. */
ngx_int_t ngx_etcd_upstream_server(ngx_conf_t *cf,
    ngx_etcd_upstream_t *upstream, ngx_etcd_upstream_server_t *server);

/* Logs that the "resolve" parameter of a server is not supported. */
void ngx_etcd_upstream_refuse_name(ngx_conf_t *cf,
    ngx_etcd_upstream_t *upstream, ngx_str_t *name);

/* Called when the block is complete and uses the module's balancer. */
void ngx_etcd_upstream_done(ngx_etcd_upstream_t *upstream);

/* Called after the configuration was read: refuses invalid blocks. */
ngx_int_t ngx_etcd_upstream_check(ngx_etcd_main_conf_t *emcf, ngx_log_t *log);


#endif /* _NGX_ETCD_UPSTREAM_H_INCLUDED_ */
