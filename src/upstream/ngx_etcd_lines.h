
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Several "etcd_members" of one upstream: the members of a line are used only
 * while no member of a former line can be used.  Each line is a service with a
 * set and a table of its own.
 */


#ifndef _NGX_ETCD_LINES_H_INCLUDED_
#define _NGX_ETCD_LINES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_service_conf.h>


/*
 * Returns NULL, or why the line cannot follow those of the upstream; first is
 * NULL: there is none yet.
 */
char *ngx_etcd_lines_refuse(ngx_etcd_service_conf_t *first,
    ngx_etcd_service_conf_t *line);

/* Adds a line to those of the upstream. */
ngx_int_t ngx_etcd_lines_add(ngx_conf_t *cf, ngx_etcd_service_conf_t *first,
    ngx_etcd_service_conf_t *line);

/* Called when the block is complete: has the tables know each other. */
void ngx_etcd_lines_link(ngx_etcd_service_conf_t *first);


#endif /* _NGX_ETCD_LINES_H_INCLUDED_ */
