
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The "etcd_require_leader" directive; common to http and stream.
 */


#ifndef _NGX_ETCD_REQUIRE_LEADER_H_INCLUDED_
#define _NGX_ETCD_REQUIRE_LEADER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_etcd_campaign.h>


/*
 * An admission: a request or session admitted by "etcd_require_leader", and
 * the term of this nginx at that time.  The request continues in that term or
 * fails.  Admissions are found in the cleanup list of the pool, because an
 * internal redirect clears the contexts of a request.
 */

typedef struct {
    void                  *owner;         /* the request or session: a pool may
                                             be shared by several */
    ngx_pool_t            *pool;
    ngx_etcd_campaign_t   *campaign;
    int64_t                term;          /* from ngx_etcd_campaign_term() */
} ngx_etcd_admission_t;


/* Returns the owner's admission by that election; NULL: there is none. */
ngx_etcd_admission_t *ngx_etcd_admission_find(ngx_pool_t *pool, void *owner,
    ngx_etcd_campaign_t *campaign);

/*
 * Returns 1 if this nginx leads in the term of the admission; otherwise logs
 * and returns 0.
 */
ngx_uint_t ngx_etcd_admission_valid(ngx_etcd_admission_t *admission,
    ngx_log_t *log);


#define NGX_ETCD_REQUIRE_LEADER_STATUS  503


typedef struct {
    ngx_etcd_campaign_t   *campaign;      /* UNSET: inherited; NULL: none */
    ngx_uint_t             status;
} ngx_etcd_require_leader_t;


void ngx_etcd_require_leader_init(ngx_etcd_require_leader_t *require);
void ngx_etcd_require_leader_merge(ngx_etcd_require_leader_t *require,
    ngx_etcd_require_leader_t *prev);

/*
 * The directive's handler: ELECTION [status=], or off; stream has no status.
 */
char *ngx_etcd_require_leader_require(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * Admits the owner: NGX_OK, NGX_DECLINED (this nginx does not lead), or
 * NGX_ERROR.  If the owner already has an admission, only its term is
 * checked: NGX_DECLINED if the term has ended.
 */
ngx_int_t ngx_etcd_require_leader_enter(ngx_etcd_require_leader_t *require,
    ngx_etcd_admission_t *admission, ngx_pool_t *pool, void *owner,
    ngx_log_t *log);

/*
 * Wraps the functions and the data of a balancer: a try after the end of the
 * term fails, and refuse(), unless NULL, is called before.  NGX_ERROR: no
 * memory.
 */
ngx_int_t ngx_etcd_require_leader_wrap(ngx_etcd_admission_t *admission,
    ngx_peer_connection_t *pc, ngx_pool_t *pool, void (*refuse)(void *data),
    void *data);


/*
 * Variables of elections, whose names end with that of the election.
 */

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


#endif /* _NGX_ETCD_REQUIRE_LEADER_H_INCLUDED_ */
