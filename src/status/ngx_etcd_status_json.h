
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Private to the files that write the status as JSON.
 */


#ifndef _NGX_ETCD_STATUS_JSON_H_INCLUDED_
#define _NGX_ETCD_STATUS_JSON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <jansson.h>
#include <ngx_etcd_status.h>


/* Writes the text at the start of a part, once. */
void ngx_etcd_status_json_begin(ngx_etcd_status_t *status, const char *text);

/*
 * Writes a list item, preceded by a comma if needed.  Takes the ownership of
 * the item; NULL is a failure.
 */
void ngx_etcd_status_json_item(ngx_etcd_status_t *status, json_t *item);

/* Writes the name of a field, preceded by a comma if needed. */
void ngx_etcd_status_json_name(ngx_etcd_status_t *status, ngx_str_t *name);


/* Parts in ngx_etcd_status_setting.c and ngx_etcd_status_lock.c. */

ngx_int_t ngx_etcd_status_json_settings(ngx_etcd_status_t *status);
ngx_int_t ngx_etcd_status_json_locks(ngx_etcd_status_t *status);


#endif /* _NGX_ETCD_STATUS_JSON_H_INCLUDED_ */
