
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Maintains the state file of a cluster ("state_path"): the agent saves, with
 * little work in the event loop and without waiting for the disk; the master
 * reads the file when a zone is new.
 */


#ifndef _NGX_ETCD_STATE_FILE_H_INCLUDED_
#define _NGX_ETCD_STATE_FILE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_state_save.h>


#define NGX_ETCD_STATE_FILE_INTERVAL  1000    /* ms, minimum between saves */
#define NGX_ETCD_STATE_FILE_REVISION  60000   /* ms, if only revisions have
                                                 changed */
#define NGX_ETCD_STATE_FILE_RETRY     5000    /* ms, after a failure */

/* maximum size of a state file, as a multiple of the zone size */

#define NGX_ETCD_STATE_FILE_LIMIT  8


/* The state file of an agent; exists as long as the worker. */

typedef struct {
    ngx_etcd_conf_t            *conf;
    ngx_log_t                  *log;
    ngx_etcd_state_save_t      *save;      /* in progress, or NULL */
    ngx_etcd_state_save_mark_t *marks;     /* of the last save */
    ngx_atomic_uint_t          *changes;   /* of each value map, as saved */
    ngx_event_t                 event;     /* next step */
    ngx_msec_t                  started;   /* time of the last save */
    ngx_etcd_causes_t           causes;    /* of failures since the last save */
    unsigned                  saved:1;     /* marks are valid */
} ngx_etcd_state_file_t;


/* The directive's handler, and the check at the end of the block. */
char *ngx_etcd_state_file_path(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_etcd_state_file_conf(ngx_conf_t *cf, ngx_etcd_conf_t *ecf);

/*
 * Called when the configuration is complete: makes the directory, if there is
 * none.
 */
ngx_int_t ngx_etcd_state_file_create(ngx_etcd_conf_t *conf,
    ngx_cycle_t *cycle);

/* NGX_ERROR: no memory. */
ngx_int_t ngx_etcd_state_file_init(ngx_etcd_state_file_t *sf,
    ngx_etcd_conf_t *conf, ngx_cycle_t *cycle);

/* Called by the owner of the zone periodically: saves changes. */
void ngx_etcd_state_file_tick(ngx_etcd_state_file_t *sf);

/* Called when the zone has another owner. */
void ngx_etcd_state_file_cancel(ngx_etcd_state_file_t *sf);

/* Called when the owner exits: saves changes; may wait for the disk. */
void ngx_etcd_state_file_finish(ngx_etcd_state_file_t *sf);

/*
 * Called by the master for a new zone with new sets.  An unusable file is
 * logged and ignored.
 */
void ngx_etcd_state_file_restore(ngx_etcd_conf_t *conf, ngx_log_t *log);


#endif /* _NGX_ETCD_STATE_FILE_H_INCLUDED_ */
