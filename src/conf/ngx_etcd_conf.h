
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The "etcd" blocks of the main context, and their interface for the http and
 * stream modules.
 */


#ifndef _NGX_ETCD_CONF_H_INCLUDED_
#define _NGX_ETCD_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cluster.h>
#include <ngx_etcd_zone.h>


/* the context of "etcd" blocks, whose directives belong to core modules */

#define NGX_ETCD_CONF  0x08000000


/* An "etcd" block; exists as long as the cycle. */

typedef struct {
    ngx_str_t                  name;
    ngx_etcd_cluster_conf_t    client;
    ngx_etcd_ssl_t             ssl;
    ngx_etcd_ssl_option_t      ssl_seen;      /* place of the first directive
                                                 of TLS, if there is one */
    size_t                     zone_size;
    ngx_etcd_zone_t            zone;
    ngx_array_t                services;      /* ngx_etcd_service_conf_t * */
    ngx_array_t                catalogs;      /* ngx_etcd_catalog_conf_t * */
    ngx_array_t                campaigns;     /* ngx_etcd_campaign_t * */
    ngx_array_t                value_maps;    /* ngx_etcd_value_map_conf_t * */
    ngx_array_t                locks;         /* ngx_etcd_lock_name_t * */
    time_t                     lock_ttl;
    ngx_uint_t                 lock_waiters;
    ngx_msec_t                 db_check;      /* 0: never */
    ngx_array_t               *write_check;   /* ngx_str_t; NULL: none */
    ngx_uint_t                 workers;       /* worker_processes */
    void                      *worker_locks; /* of this worker; NULL: no lock
                                                 was requested */
    ngx_path_t                *state_path;    /* NULL: no state file */
    ngx_str_t                  state_file;    /* path, zero-terminated */
    ngx_uint_t                 defined;       /* not only referenced */
    ngx_uint_t                 coordinates;   /* has leaders, elections or
                                                 locks, which must not be
                                                 wrong.  A registration harms
                                                 nobody when it stays too long,
                                                 nor does a stale member */
    ngx_uint_t                 secrets;       /* a value is a private key */
    u_char                    *file;          /* place of first reference */
    ngx_uint_t                 line;
} ngx_etcd_conf_t;


typedef struct {
    ngx_array_t                clusters;      /* ngx_etcd_conf_t * */
    ngx_array_t                upstreams;     /* ngx_etcd_upstream_t * */
    ngx_array_t                waits;         /* ngx_etcd_wait_t * */
    ngx_array_t                elections;     /* ngx_etcd_campaign_t * of all
                                                 clusters */
    ngx_array_t                set_variables; /* ngx_etcd_set_variable_t * of
                                                 all clusters */
    ngx_fd_t                   wakeup;
    ngx_uint_t                 queues;        /* 1: requests may wait for
                                                 connections */
    ngx_fd_t                   queue_wakeup;
} ngx_etcd_main_conf_t;


/* ngx_etcd_module.c; here, since nginx finds a configuration by its module */
extern ngx_module_t  ngx_etcd_module;

#define ngx_etcd_conf_main(cycle)                                             \
    ((ngx_etcd_main_conf_t *) ngx_get_conf((cycle)->conf_ctx, ngx_etcd_module))


/*
 * Returns the cluster of that name, which may be defined later in the file;
 * an empty name means "default".  A cluster that is never defined fails the
 * configuration, reported with the place of its first reference.  NULL: no
 * memory.
 */
ngx_etcd_conf_t *ngx_etcd_conf_get(ngx_conf_t *cf, ngx_str_t *name);

/*
 * Returns the cluster of the same name in the configuration in use, whose zone
 * exists; NULL: there is none.
 */
ngx_etcd_conf_t *ngx_etcd_conf_former(ngx_etcd_conf_t *ecf);

/* Adds a pointer to an array of pointers.  NGX_ERROR: no memory. */
ngx_int_t ngx_etcd_conf_push(ngx_array_t *array, void *pointer);


/*
 * The identity of nginx in etcd: the directives "user" and "password_file", or
 * "token_file", of "etcd" blocks.
 */

/* Handler of both files; conf is an ngx_etcd_conf_t. */
char *ngx_etcd_credentials_file(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* Called when "user" of nginx is known: warns if workers cannot read it. */
void ngx_etcd_credentials_check(ngx_etcd_conf_t *ecf, ngx_cycle_t *cycle);

/* Called at the end of the block: checks the directives together. */
ngx_int_t ngx_etcd_credentials_done(ngx_conf_t *cf, ngx_etcd_conf_t *ecf);


/*
 * The "endpoints" and "resolver" directives of an "etcd" block and their
 * parameters.
 */

/* Handlers of the directives; conf is an ngx_etcd_conf_t. */
char *ngx_etcd_endpoint_list(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_etcd_endpoint_resolver(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * Called at the end of the block: checks the directives together and sets
 * defaults.
 */
ngx_int_t ngx_etcd_endpoint_done(ngx_conf_t *cf, ngx_etcd_conf_t *conf);


/*
 * Has a client of a cluster ask its endpoints for their version: the zone
 * remembers it for the status, and a version with faults that concern leaders,
 * elections and locks is logged, once, if the configuration has any; so is an
 * endpoint that refuses to tell its version.  NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_server_faults_ask(ngx_etcd_cluster_t *cluster,
    ngx_etcd_conf_t *conf);


#endif /* _NGX_ETCD_CONF_H_INCLUDED_ */
