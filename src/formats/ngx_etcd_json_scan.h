
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Private to the JSON parser.
 */


#ifndef _NGX_ETCD_JSON_SCAN_H_INCLUDED_
#define _NGX_ETCD_JSON_SCAN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json.h>


/*
 * Scanners: reader->p, which must be before reader->last, is moved past the
 * input read.  NGX_ERROR: the error is set.
 */

/* Reads a string from its opening quote. */
ngx_int_t ngx_etcd_json_string(ngx_etcd_json_reader_t *reader,
    ngx_str_t *text);

/* Reads a number, true, false or null. */
ngx_int_t ngx_etcd_json_word(ngx_etcd_json_reader_t *reader,
    ngx_etcd_json_t *node);

/* Checks that the names of a complete object are unique. */
ngx_int_t ngx_etcd_json_names(ngx_etcd_json_reader_t *reader,
    ngx_etcd_json_t *object);

/* Sets the error at that place in the text; returns NGX_ERROR. */
ngx_int_t ngx_etcd_json_fail(ngx_etcd_json_reader_t *reader, u_char *place,
    char *what);


#endif /* _NGX_ETCD_JSON_SCAN_H_INCLUDED_ */
