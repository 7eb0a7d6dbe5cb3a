
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The objects of one kind as rows: each function returns the object of the
 * status's current row, which is valid until the next call; NULL: there are no
 * more rows.
 */


#ifndef _NGX_ETCD_STATUS_ROW_H_INCLUDED_
#define _NGX_ETCD_STATUS_ROW_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status.h>


void *ngx_etcd_status_row_nginx(ngx_etcd_status_t *status);
void *ngx_etcd_status_row_cluster(ngx_etcd_status_t *status);
void *ngx_etcd_status_row_endpoint(ngx_etcd_status_t *status);
void *ngx_etcd_status_row_upstream(ngx_etcd_status_t *status);
void *ngx_etcd_status_row_election(ngx_etcd_status_t *status);
void *ngx_etcd_status_row_lock(ngx_etcd_status_t *status);

/*
 * Skips variables that were shown.  A variable with another key in another
 * context has a number in its name: "$flag (2)".
 */
void *ngx_etcd_status_row_variable(ngx_etcd_status_t *status);

void *ngx_etcd_status_row_zone(ngx_etcd_status_t *status);


#endif /* _NGX_ETCD_STATUS_ROW_H_INCLUDED_ */
