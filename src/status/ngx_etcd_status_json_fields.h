
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Writes an object as JSON, by the table of its fields.
 */


#ifndef _NGX_ETCD_STATUS_JSON_FIELDS_H_INCLUDED_
#define _NGX_ETCD_STATUS_JSON_FIELDS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status_field.h>
#include <ngx_etcd_text_buffer.h>


void ngx_etcd_status_json_fields(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_status_field_t *fields, void *object);


#endif /* _NGX_ETCD_STATUS_JSON_FIELDS_H_INCLUDED_ */
