
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directives of "upstream" blocks, as http and stream share them.
 */


#ifndef _NGX_ETCD_UPSTREAM_H_INCLUDED_
#define _NGX_ETCD_UPSTREAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_module.h>
#include <ngx_etcd_balance.h>


/* one "upstream" block; zeroed: none of our directives was seen */

typedef struct {
    ngx_etcd_conf_t             *cluster;
    ngx_etcd_service_conf_t     *service;       /* NULL: neither etcd_members
                                                   nor etcd_leader */
    const ngx_etcd_method_t     *method;        /* NULL: the default */
    ngx_str_t                    key;           /* of it; variables and all */
    ngx_array_t                 *allow;         /* of ngx_cidr_t; NULL: all */
    ngx_uint_t                   allow_unix;
    ngx_uint_t                   initialized;   /* our balancer is the one */
    ngx_str_t                    directive;     /* etcd_members or etcd_leader,
                                                   or the first one, which is
                                                   without them */
    u_char                      *file;          /* its place */
    ngx_uint_t                   line;
} ngx_etcd_upstream_t;


/*
 * The directives.  What etcd_balance leaves to do is to compile the key, if
 * there is one.  The configuration of etcd_balance and etcd_allow has an
 * ngx_etcd_upstream_t at the command's offset.
 */

/* etcd_members, and etcd_leader */
char *ngx_etcd_upstream_members(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream,
    ngx_str_t *name, ngx_uint_t stream);
char *ngx_etcd_upstream_balance(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_etcd_upstream_allow(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* the format of values; a name of NULL: the default */
char *ngx_etcd_upstream_format(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *name);

/*
 * A block without a server is refused, by nginx and by its methods: until it
 * is for ngx_etcd_upstream_check() to say what is wrong, a server of this name
 * and address stands in, told by where the name is.  NULL: no memory.
 */
ngx_addr_t *ngx_etcd_upstream_placeholder(ngx_conf_t *cf);

extern ngx_str_t  ngx_etcd_upstream_placeholder_name;

#define ngx_etcd_upstream_is_placeholder(name)                                \
    ((name)->data == ngx_etcd_upstream_placeholder_name.data)

/* the parameters of a "server" of http or stream */

#define ngx_etcd_upstream_server_attr(attr, server)                           \
    ngx_memzero(attr, sizeof(ngx_etcd_member_attr_t));                        \
    (attr)->weight = ngx_min((server)->weight, NGX_ETCD_MEMBER_MAX_WEIGHT);   \
    (attr)->max_fails = ngx_min((server)->max_fails, 0xffffffff);             \
    (attr)->max_conns = ngx_min((server)->max_conns, 0xffffffff);             \
    (attr)->fail_timeout = ngx_min((server)->fail_timeout, 0x7fffffff);       \
    (attr)->down = (server)->down;                                            \
    (attr)->backup = (server)->backup

/* a static server: its addresses, n of them; logs errors */
ngx_int_t ngx_etcd_upstream_server(ngx_conf_t *cf,
    ngx_etcd_upstream_t *upstream, ngx_str_t *name, ngx_addr_t *addrs,
    ngx_uint_t n, ngx_etcd_member_attr_t *attr);

/* one that nginx would resolve itself, were it its balancer: says so */
void ngx_etcd_upstream_refuse_name(ngx_conf_t *cf,
    ngx_etcd_upstream_t *upstream, ngx_str_t *name);

/*
 * The cluster that the directive at hand names by "cluster=", from this
 * argument on; NULL: that is wrong, which was said, or no memory.
 */
ngx_etcd_conf_t *ngx_etcd_upstream_cluster(ngx_conf_t *cf, ngx_uint_t first);

/* the block is complete, and our balancer is the one that is asked */
void ngx_etcd_upstream_done(ngx_etcd_upstream_t *upstream);

/* after the configuration was read: refuses blocks that cannot work */
ngx_int_t ngx_etcd_upstream_check(ngx_etcd_main_conf_t *emcf, ngx_log_t *log);


#endif /* _NGX_ETCD_UPSTREAM_H_INCLUDED_ */
