
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A mirror without a network: its watch, its lists and its memory are those of
 * the test.
 */


#ifndef _UNIT_MIRROR_H_INCLUDED_
#define _UNIT_MIRROR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_mirror.h>
#include "test_alloc.h"


/* the mirror's requests to its watch */

typedef struct {
    ngx_etcd_cluster_t           cluster;
    ngx_etcd_cluster_conf_t      conf;
    ngx_etcd_watch_stream_t      stream;
    ngx_uint_t                   agains;       /* lists that it asked for */
    ngx_etcd_list_t             *list;
    ngx_uint_t                   repaired;     /* the cluster has changed */
} ngx_etcd_unit_world_t;


extern ngx_etcd_unit_world_t  ngx_etcd_unit_world;


char *ngx_etcd_unit_mirror(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_etcd_unit_mirror_model(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* everything as at the start */
void ngx_etcd_unit_world_reset(ngx_log_t *log);

/* text must stay */
void ngx_etcd_unit_kv(Etcd__KeyValue *kv, u_char *key, size_t len,
    int64_t created, int64_t modified, u_char *value, size_t value_len);


#endif /* _UNIT_MIRROR_H_INCLUDED_ */
