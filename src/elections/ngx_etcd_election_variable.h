
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Variables of elections, whose names end with that of the election.
 */


#ifndef _NGX_ETCD_ELECTION_VARIABLE_H_INCLUDED_
#define _NGX_ETCD_ELECTION_VARIABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_require_leader.h>


/* Sets the value of a variable, with memory of the pool. */

typedef ngx_int_t (*ngx_etcd_election_variable_pt)(ngx_str_t *name,
    ngx_etcd_campaign_t *campaign, ngx_etcd_admission_t *admission,
    ngx_variable_value_t *v, ngx_pool_t *pool);


typedef struct {
    ngx_str_t                       name;      /* a prefix */
    ngx_etcd_election_variable_pt   get;
} ngx_etcd_election_variable_t;


/* the last one has an empty name */
extern ngx_etcd_election_variable_t  ngx_etcd_election_variables[];


/* Returns the election of a variable, by its complete name; NULL: none. */
ngx_etcd_campaign_t *ngx_etcd_election_variable_campaign(ngx_str_t *name);

/*
 * Sets the value of such a variable: at present, or in the term of the
 * admission, unless that is NULL.
 */
ngx_int_t ngx_etcd_election_variable_value(ngx_str_t *name,
    ngx_etcd_campaign_t *campaign, ngx_etcd_admission_t *admission,
    ngx_variable_value_t *v, ngx_pool_t *pool);

/*
 * Called when all variables that are used are known, those of http or stream:
 * an election variable requires a declared election.  NGX_ERROR: no memory.
 * The name is the first field of a variable, in http and in stream.
 */
ngx_int_t ngx_etcd_election_variable_used(ngx_conf_t *cf,
    ngx_array_t *variables);


#endif /* _NGX_ETCD_ELECTION_VARIABLE_H_INCLUDED_ */
