
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Values with weights, such as {"stable":95,"canary":5}, of which a hash picks
 * a name.  A value is read once, into a table; a table is searched.
 */


#ifndef _NGX_ETCD_SPLIT_H_INCLUDED_
#define _NGX_ETCD_SPLIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_SPLIT_WEIGHT  1000000       /* the greatest */
#define NGX_ETCD_SPLIT_SUM     4294967295    /* of all weights, the greatest */

/* the room that the table of a value of n bytes may need */
#define NGX_ETCD_SPLIT_ROOM(n)  (3 * (n) + 8)


/*
 * Writes the table of a value into buf, which has NGX_ETCD_SPLIT_ROOM() bytes
 * and need not be aligned.  NGX_DECLINED: the value is invalid, *err says why;
 * NGX_ERROR: no memory, *err says so.
 */
ngx_int_t ngx_etcd_split_read(ngx_str_t *value, u_char *buf, ngx_str_t *table,
    char **err);

/*
 * Returns the name in the table that the hash picks, so that of all hashes each
 * name has its share, in the order in which the names are written.
 */
ngx_str_t ngx_etcd_split_pick(ngx_str_t *table, uint32_t hash);


#endif /* _NGX_ETCD_SPLIT_H_INCLUDED_ */
