
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What the parts of the reader of JSON share: private to it.
 */


#ifndef _NGX_ETCD_JSON_SCAN_H_INCLUDED_
#define _NGX_ETCD_JSON_SCAN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json.h>


/*
 * Each reads at reader->p, which is before reader->last, and leaves it behind
 * what was read.  NGX_ERROR: the error is set.
 */

/* a string, at its first quote */
ngx_int_t ngx_etcd_json_string(ngx_etcd_json_reader_t *reader,
    ngx_str_t *text);

/* a number, true, false or null */
ngx_int_t ngx_etcd_json_word(ngx_etcd_json_reader_t *reader,
    ngx_etcd_json_t *node);

/* the names of an object whose nodes are all there differ, or NGX_ERROR */
ngx_int_t ngx_etcd_json_names(ngx_etcd_json_reader_t *reader,
    ngx_etcd_json_t *object);

/* sets the error, found at that place of the text; always NGX_ERROR */
ngx_int_t ngx_etcd_json_fail(ngx_etcd_json_reader_t *reader, u_char *place,
    char *what);


#endif /* _NGX_ETCD_JSON_SCAN_H_INCLUDED_ */
