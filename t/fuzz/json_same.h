
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What our reader of JSON found, beside what jansson found.
 */


#ifndef _NGX_ETCD_JSON_SAME_H_INCLUDED_
#define _NGX_ETCD_JSON_SAME_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <jansson.h>
#include <ngx_etcd_json.h>


/* 1 if both are the same, and what looks into nodes finds all of it */
ngx_uint_t json_same(ngx_etcd_json_t *node, json_t *json);


#endif /* _NGX_ETCD_JSON_SAME_H_INCLUDED_ */
