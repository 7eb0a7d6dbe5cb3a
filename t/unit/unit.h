
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Functions that the directives of the unit test's module share.
 */


#ifndef _NGX_ETCD_UNIT_H_INCLUDED_
#define _NGX_ETCD_UNIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_decode.h>


char *ngx_etcd_unit_decode(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_etcd_unit_bench(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_etcd_unit_election_slot(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_etcd_unit_seqlock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* format and parameters; these begin with the argument of that number */
ngx_int_t ngx_etcd_unit_conf(ngx_conf_t *cf, ngx_etcd_member_conf_t *member,
    ngx_uint_t first);

/* the bytes that a word stands for, in memory of their own */
ngx_int_t ngx_etcd_unit_bytes(ngx_str_t *hex, ngx_str_t *bytes);


#endif /* _NGX_ETCD_UNIT_H_INCLUDED_ */
