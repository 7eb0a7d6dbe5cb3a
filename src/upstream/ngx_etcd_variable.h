
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Variables; common to http and stream.
 */


#ifndef _NGX_ETCD_VARIABLE_H_INCLUDED_
#define _NGX_ETCD_VARIABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_peer_data.h>


/* Sets the value of a variable, with memory of the pool, peer or peer data. */

typedef ngx_int_t (*ngx_etcd_variable_member_pt)(ngx_str_t *name,
    ngx_etcd_peer_t *peer, ngx_variable_value_t *v, ngx_pool_t *pool);

typedef ngx_int_t (*ngx_etcd_variable_request_pt)(ngx_str_t *name,
    ngx_etcd_peer_data_t *pd, ngx_variable_value_t *v, ngx_pool_t *pool);

typedef ngx_int_t (*ngx_etcd_variable_wait_pt)(ngx_str_t *name,
    ngx_msec_t waited, ngx_variable_value_t *v, ngx_pool_t *pool);

/* Each variable has one of the functions. */

typedef struct {
    ngx_str_t                       name;
    ngx_etcd_variable_member_pt     member;    /* the peer may be NULL */
    ngx_etcd_variable_request_pt    request;
    ngx_etcd_variable_wait_pt       wait;      /* in ms */
} ngx_etcd_variable_t;


/* the last one has an empty name */
extern ngx_etcd_variable_t  ngx_etcd_variables[];


/*
 * Sets the value of any variable of this module.  A value from etcd may be
 * used in an HTTP header, where a control byte could inject or end a header:
 * a value with a control byte makes the variable "not found", which each
 * worker logs once for each name.
 */
void ngx_etcd_variable_value(ngx_str_t *name, ngx_variable_value_t *v,
    u_char *data, size_t len);

/* Sets a number as the value, in memory of the pool.  NGX_ERROR: no memory. */
ngx_int_t ngx_etcd_variable_number(ngx_str_t *name, ngx_variable_value_t *v,
    uint64_t number, ngx_pool_t *pool);

/*
 * Returns the first variable of a pattern that does not exist, or NULL: "keys"
 * has all names (ngx_hash_key_t), "prefixes" the variables of http or stream
 * that are known by a prefix.
 */
ngx_str_t *ngx_etcd_variable_unknown(ngx_etcd_pattern_t *pattern,
    ngx_array_t *keys, ngx_array_t *prefixes);

/*
 * Called when all variables are known: logs the first variable of a prefix of
 * http or stream that does not exist.
 */
ngx_int_t ngx_etcd_variable_prefixes(ngx_conf_t *cf, ngx_uint_t stream,
    ngx_array_t *keys, ngx_array_t *prefixes);

/*
 * Sets a certificate or private key in PEM, which has line feeds, for nothing
 * but "ssl_certificate" and "ssl_certificate_key".
 */
void ngx_etcd_variable_pem(ngx_variable_value_t *v, ngx_str_t *pem);


#endif /* _NGX_ETCD_VARIABLE_H_INCLUDED_ */
