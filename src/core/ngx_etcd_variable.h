
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The variables, as http and stream share them.
 */


#ifndef _NGX_ETCD_VARIABLE_H_INCLUDED_
#define _NGX_ETCD_VARIABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_admission.h>
#include <ngx_etcd_route.h>


/* the value of one; its memory is the pool's, or the peer's or route's */

typedef ngx_int_t (*ngx_etcd_member_variable_pt)(ngx_str_t *name,
    ngx_etcd_peer_t *peer, ngx_variable_value_t *v, ngx_pool_t *pool);

typedef struct {
    ngx_str_t                     name;
    ngx_etcd_member_variable_pt   get;      /* the peer may be NULL */
} ngx_etcd_member_variable_t;


typedef ngx_int_t (*ngx_etcd_variable_pt)(ngx_str_t *name,
    ngx_etcd_route_t *route, ngx_variable_value_t *v, ngx_pool_t *pool);

typedef struct {
    ngx_str_t              name;
    ngx_etcd_variable_pt   get;
} ngx_etcd_variable_t;


/* all of them; the last one has an empty name */
extern ngx_etcd_member_variable_t  ngx_etcd_member_variables[];
extern ngx_etcd_variable_t  ngx_etcd_variables[];

/* what the names of variables of an election begin with; likewise */
extern ngx_str_t  ngx_etcd_election_variables[];


/*
 * All variables of ours get their values here.  What etcd has may get into a
 * header of HTTP, where a control byte begins another header or ends it: with
 * such a byte the variable is not found, which each worker reports once for
 * each name.
 */
void ngx_etcd_variable_value(ngx_str_t *name, ngx_variable_value_t *v,
    u_char *data, size_t len);

/* the election of a variable, by its whole name; NULL: there is none */
ngx_etcd_campaign_t *ngx_etcd_variable_campaign(ngx_str_t *name);

/*
 * The value of that variable: at present, or in the term of an admission,
 * unless that is NULL.
 */
ngx_int_t ngx_etcd_variable_election(ngx_str_t *name,
    ngx_etcd_campaign_t *campaign, ngx_etcd_admission_t *admission,
    ngx_variable_value_t *v, ngx_pool_t *pool);

/*
 * A variable is used: if it is one of an election, that must be declared.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_variable_used(ngx_conf_t *cf, ngx_str_t *name);


#endif /* _NGX_ETCD_VARIABLE_H_INCLUDED_ */
