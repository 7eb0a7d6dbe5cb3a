
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The "etcd_lock" directive; common to http and stream.
 */


#ifndef _NGX_ETCD_LOCK_CONF_H_INCLUDED_
#define _NGX_ETCD_LOCK_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_lock_table.h>


#define NGX_ETCD_LOCK_TTL          10         /* seconds */
#define NGX_ETCD_LOCK_WAITERS      16384      /* per worker and cluster */
#define NGX_ETCD_LOCK_QUEUE        1024       /* per worker and lock */
#define NGX_ETCD_LOCK_MAX_NAME     512

/* clients iterate over the keys of the holders to find their position */

#define NGX_ETCD_LOCK_MAX_PERMITS  1000000

/*
 * A token is the create_revision, with ten bits for the requests of one key if
 * a key may serve several.
 */

#define NGX_ETCD_LOCK_TOKEN_BITS   10
#define NGX_ETCD_LOCK_MAX_REUSE    1024       /* requests of one key */
#define NGX_ETCD_LOCK_MAX_KEEP     10000      /* ms */

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


/* The properties of a lock name, common to all directives with that name. */

typedef struct {
    ngx_str_t                  name;
    ngx_etcd_conf_t           *cluster;
    ngx_uint_t                 permits;
    ngx_uint_t                 reuse;         /* requests that a key serves
                                                 while others wait */
    ngx_msec_t                 keep;          /* ms that a key is kept while
                                                 nobody wants it */
    ngx_uint_t                 keyed;         /* a directive has a KEY: one
                                                 lock per key */
    ngx_uint_t                 shared;        /* a directive has "shared=" */
    ngx_uint_t                 varied;        /* a KEY contains variables */
    ngx_etcd_lock_stats_t     *stats;
    ngx_etcd_refusal_log_t     refusals;
    ngx_uint_t                 held;          /* in this worker */
    ngx_uint_t                 waiting;
    u_char                    *file;          /* place of first use */
    ngx_uint_t                 line;
} ngx_etcd_lock_name_t;


/* One "etcd_lock" directive. */

typedef struct {
    ngx_etcd_lock_name_t      *name;
    ngx_str_t                  key;           /* KEY as configured */
    void                      *value;         /* compiled KEY; NULL: no KEY */
    ngx_str_t                  sharing;       /* "shared=" as configured */
    void                      *shared;        /* compiled; NULL: exclusive */
    ngx_msec_t                 wait;
    ngx_uint_t                 queue;
    ngx_uint_t                 pass;          /* empty KEY: no lock */
} ngx_etcd_lock_conf_t;


/*
 * The handler of the directive without access to its grants: *locks is
 * NGX_CONF_UNSET_PTR at first, NULL for "off", otherwise an array of
 * ngx_etcd_lock_conf_t in the order of locking.  compile() compiles a KEY, and
 * the value of "shared=".
 */
char *ngx_etcd_lock_conf(ngx_conf_t *cf, ngx_array_t **locks,
    void *(*compile)(ngx_conf_t *cf, ngx_str_t *key));

/* Called after the configuration was read.  NGX_ERROR: names conflict. */
ngx_int_t ngx_etcd_lock_conf_check(ngx_etcd_main_conf_t *emcf, ngx_log_t *log);

/*
 * Called by the master when the zone exists.  NGX_ERROR: the zone is too
 * small.
 */
ngx_int_t ngx_etcd_lock_conf_declare(ngx_etcd_conf_t *ecf);


#endif /* _NGX_ETCD_LOCK_CONF_H_INCLUDED_ */
