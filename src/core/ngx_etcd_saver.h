
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Keeps the state file of a cluster ("state_path"): the agent saves, with
 * little work in the event loop and no waiting for the disk; the master reads
 * it when a zone is new.
 */


#ifndef _NGX_ETCD_SAVER_H_INCLUDED_
#define _NGX_ETCD_SAVER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_module.h>
#include <ngx_etcd_save.h>


#define NGX_ETCD_SAVER_INTERVAL  1000     /* ms: at most one file in */
#define NGX_ETCD_SAVER_REVISION  60000    /* when nothing but revisions grew */
#define NGX_ETCD_SAVER_RETRY     5000     /* after a failure */

/* a state takes no more than this many times the size of its zone */

#define NGX_ETCD_SAVER_LIMIT     8


/* what was saved last of one set */

typedef struct {
    ngx_atomic_uint_t         generation;
    ngx_uint_t                commits;
} ngx_etcd_saver_mark_t;


/* of one agent; lives as long as its worker */

typedef struct {
    ngx_etcd_conf_t          *conf;
    ngx_log_t                *log;
    ngx_etcd_save_t          *save;        /* under way, or NULL */
    ngx_etcd_saver_mark_t    *marks;       /* as the services */
    uint64_t                 *versions;    /* as the values */
    ngx_event_t               event;       /* the next piece */
    ngx_msec_t                started;     /* the last save */
    unsigned                  saved:1;     /* marks are valid */
    unsigned                  failed:1;    /* was logged */
} ngx_etcd_saver_t;


/* the directive, and what is left to do when its block is complete */
char *ngx_etcd_saver_path(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_etcd_saver_conf(ngx_conf_t *cf, ngx_etcd_conf_t *ecf);

/* NGX_ERROR: no memory */
ngx_int_t ngx_etcd_saver_init(ngx_etcd_saver_t *saver, ngx_etcd_conf_t *conf,
    ngx_cycle_t *cycle);

/* the owner of the zone, from time to time: saves what has changed */
void ngx_etcd_saver_tick(ngx_etcd_saver_t *saver);

/* the zone is somebody else's now */
void ngx_etcd_saver_cancel(ngx_etcd_saver_t *saver);

/* the owner exits: saves what has changed, and may wait for the disk */
void ngx_etcd_saver_finish(ngx_etcd_saver_t *saver);

/*
 * The master, when the zone and its sets are new.  A file that cannot be used
 * is reported, and changes nothing.
 */
void ngx_etcd_saver_restore(ngx_etcd_conf_t *conf, ngx_log_t *log);


#endif /* _NGX_ETCD_SAVER_H_INCLUDED_ */
