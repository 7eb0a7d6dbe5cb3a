
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The variables of a pattern in http or stream: their indices, and the values
 * that they have in a request.
 */


#ifndef _NGX_ETCD_PATTERN_VALUES_H_INCLUDED_
#define _NGX_ETCD_PATTERN_VALUES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_members_conf.h>


/* The index of a variable of http or stream; NGX_ERROR: logged. */

typedef ngx_int_t (*ngx_etcd_pattern_index_pt)(ngx_conf_t *cf,
    ngx_str_t *name);

/* Evaluates the variable for a request or session; NULL: an error. */

typedef ngx_variable_value_t *(*ngx_etcd_pattern_value_pt)(void *request,
    ngx_uint_t index);


/* Finds the variables, at most NGX_ETCD_PATTERN_VARIABLES. */
ngx_int_t ngx_etcd_pattern_values_find(ngx_conf_t *cf,
    ngx_etcd_pattern_t *pattern, ngx_etcd_pattern_index_pt find,
    ngx_int_t *indices);

/* Reads the values; that of a variable which is not found is empty. */
ngx_int_t ngx_etcd_pattern_values_read(ngx_etcd_pattern_t *pattern,
    ngx_int_t *indices, ngx_etcd_pattern_value_pt get, void *request,
    ngx_str_t *values);

/*
 * The table of the upstream for this request.  NULL: there is no such set
 * (*rc is NGX_DECLINED), or an error (see ngx_etcd_table_cache_get()).
 */
ngx_etcd_table_t *ngx_etcd_pattern_values_table(
    ngx_etcd_service_conf_t *service, ngx_etcd_pattern_value_pt get,
    void *request, ngx_int_t *rc);


#endif /* _NGX_ETCD_PATTERN_VALUES_H_INCLUDED_ */
