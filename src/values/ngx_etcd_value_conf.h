
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The configuration of value maps, and what a value may be.  Patterns with the
 * same literal part and type share a map, and those that match the same keys
 * are one.  A key without variables is a pattern, too: it is the literal part,
 * and has a map of its own.
 */


#ifndef _NGX_ETCD_VALUE_CONF_H_INCLUDED_
#define _NGX_ETCD_VALUE_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_value_map.h>


/*
 * Adds a pattern to the maps of a cluster, an array of
 * ngx_etcd_value_map_conf_t *, and returns its map.  NULL: no memory.
 */
ngx_etcd_value_map_conf_t *ngx_etcd_value_conf_add(ngx_array_t *maps,
    ngx_str_t *name, ngx_etcd_value_pattern_t *pattern, ngx_uint_t type,
    ngx_pool_t *pool);

/*
 * Takes off what is no part of a value: a byte order mark at its beginning, and
 * the line feed, or CR and line feed, at its end.
 */
void ngx_etcd_value_trim(ngx_str_t *value);

/* A valid flag, or an empty text, is "1", "0" or empty for nginx's "if". */
void ngx_etcd_value_flag(ngx_str_t *value);

/*
 * Returns NULL if a variable may have the value, of at most "max" bytes and of
 * the type, otherwise the reason why not, which is written into the buffer.
 */
#define NGX_ETCD_VALUE_REASON  128

ngx_str_t *ngx_etcd_value_refuse(ngx_str_t *value, size_t max, ngx_uint_t type,
    u_char *buf, ngx_str_t *reason);

/*
 * Returns a number that is another one if the value, or a limit that it is
 * checked by, is another one.  That of an invalid value, which is no secret,
 * says in its upper half what is wrong: ngx_etcd_value_reason() writes it into
 * the buffer of NGX_ETCD_VALUE_REASON bytes.
 */
uint64_t ngx_etcd_value_conf_source(ngx_etcd_value_map_conf_t *conf,
    ngx_str_t *key, ngx_str_t *value);
void ngx_etcd_value_reason(uint64_t source, size_t max, u_char *buf,
    ngx_str_t *reason);

/*
 * Writes the table of a value if a variable of the key has split=, see
 * ngx_etcd_split.h; otherwise the table is empty, and is so if the value has
 * none.  Returns NULL, or why it has none.
 */
char *ngx_etcd_value_conf_table(ngx_etcd_value_map_conf_t *conf,
    ngx_str_t *key, ngx_str_t *value, u_char *buf, ngx_str_t *table);

/*
 * Returns NULL if the key of a map may have the value, otherwise the reason
 * why not, which is written into the buffer of NGX_ETCD_VALUE_REASON bytes.
 * Replaces the value of a secret map by its blocks: see ngx_etcd_pem.h for the
 * room that it has, and for "scratch", which is used for nothing else.
 */
ngx_str_t *ngx_etcd_value_conf_refuse(ngx_etcd_value_map_conf_t *conf,
    ngx_str_t *key, ngx_str_t *value, u_char *scratch, u_char *buf,
    ngx_str_t *reason);

/*
 * Returns 1 while a value is read for the first time: a variable of a prefix
 * may have a default in its place.
 */
ngx_uint_t ngx_etcd_value_conf_reading(ngx_etcd_conf_t *conf);


#endif /* _NGX_ETCD_VALUE_CONF_H_INCLUDED_ */
