
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_lock", as http and stream share it.
 */


#ifndef _NGX_ETCD_LOCK_CONF_H_INCLUDED_
#define _NGX_ETCD_LOCK_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_module.h>
#include <ngx_etcd_tally.h>


#define NGX_ETCD_LOCK_TTL          10         /* seconds */
#define NGX_ETCD_LOCK_WAITERS      16384      /* of a worker and cluster */
#define NGX_ETCD_LOCK_QUEUE        1024       /* of a worker and lock */
#define NGX_ETCD_LOCK_MAX_NAME     512

/* others walk the keys of those that hold a lock to find out if they do */

#define NGX_ETCD_LOCK_MAX_PERMITS  1000000

/* a token is the create revision and ten bits for the handoff */

#define NGX_ETCD_LOCK_TOKEN_BITS   10
#define NGX_ETCD_LOCK_MAX_HANDOFF  1023

#define NGX_ETCD_LOCK_MAX_LINGER   10000      /* ms */

#define NGX_ETCD_LOCK_STATUS       423
#define NGX_ETCD_LOCK_UNAVAILABLE  503


typedef enum {
    NGX_ETCD_LOCK_CLOSE = 0,
    NGX_ETCD_LOCK_CONTINUE
} ngx_etcd_lock_lost_e;


typedef enum {
    NGX_ETCD_LOCK_HOLD_UPSTREAM = 0,
    NGX_ETCD_LOCK_HOLD_CLIENT
} ngx_etcd_lock_hold_e;


/* what all directives of a name share */

typedef struct {
    ngx_str_t                  name;
    ngx_etcd_conf_t           *cluster;
    ngx_uint_t                 permits;
    ngx_uint_t                 handoff;
    ngx_msec_t                 linger;        /* ms; 0: not at all */
    ngx_uint_t                 keyed;         /* there are locks of its own
                                                 for every key */
    ngx_uint_t                 varied;        /* a key has variables */
    ngx_etcd_tally_t          *tally;
    ngx_uint_t                 held;          /* by this worker */
    ngx_uint_t                 waiting;
    u_char                    *file;          /* where it was named first */
    ngx_uint_t                 line;
} ngx_etcd_lock_name_t;


/* one directive */

typedef struct {
    ngx_etcd_lock_name_t      *name;
    ngx_str_t                  key;           /* as it is written */
    void                      *value;         /* of it, compiled; NULL: there
                                                 is none */
    ngx_msec_t                 wait;
    ngx_uint_t                 queue;
    unsigned                   pass:1;        /* an empty key: no lock */
} ngx_etcd_lock_conf_t;


/*
 * The directive's handler, less the place of its value: NGX_CONF_UNSET_PTR
 * until then, NULL when it is off, and an array of ngx_etcd_lock_conf_t in the
 * order in which they are taken.  compile() makes a value of a key.
 */
char *ngx_etcd_lock_conf(ngx_conf_t *cf, ngx_array_t **locks,
    void *(*compile)(ngx_conf_t *cf, ngx_str_t *key));

/* everything is read: NGX_ERROR, if names are in the way of each other */
ngx_int_t ngx_etcd_lock_conf_check(ngx_etcd_main_conf_t *emcf, ngx_log_t *log);

/* the master, when the zone is there; NGX_ERROR: it is too small */
ngx_int_t ngx_etcd_lock_conf_declare(ngx_etcd_conf_t *ecf);

/* directives of "etcd" */
char *ngx_etcd_lock_ttl(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


#endif /* _NGX_ETCD_LOCK_CONF_H_INCLUDED_ */
