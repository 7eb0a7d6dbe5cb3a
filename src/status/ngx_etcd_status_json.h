
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What the files that write the status as JSON share.
 */


#ifndef _NGX_ETCD_STATUS_JSON_H_INCLUDED_
#define _NGX_ETCD_STATUS_JSON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <jansson.h>
#include <ngx_etcd_status.h>


/* of a part: the text that it begins with */
void ngx_etcd_status_json_begin(ngx_etcd_status_t *status, const char *text);

/* one of a list, with the comma before it; taken over, NULL is a failure */
void ngx_etcd_status_json_item(ngx_etcd_status_t *status, json_t *item);

/* of an object's field */
void ngx_etcd_status_json_name(ngx_etcd_status_t *status, ngx_str_t *name);


/* ngx_etcd_status_setting.c and ngx_etcd_status_lock.c: parts */

ngx_int_t ngx_etcd_status_json_settings(ngx_etcd_status_t *status);
ngx_int_t ngx_etcd_status_json_locks(ngx_etcd_status_t *status);


#endif /* _NGX_ETCD_STATUS_JSON_H_INCLUDED_ */
