
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Attendants: other work of the agent for a set.
 */


#ifndef _NGX_ETCD_ATTENDANT_H_INCLUDED_
#define _NGX_ETCD_ATTENDANT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_set.h>


#define NGX_ETCD_ATTENDANTS  4               /* of a service, at most */


typedef struct ngx_etcd_service_s  ngx_etcd_service_t;


/*
 * Work of the agent while it has the service of a set, as checks of its
 * members.  create() is called before the index is made, and returns NULL if
 * there is no memory; memory is of the pool.
 */

typedef struct {
    void                      *(*create)(ngx_etcd_service_t *service,
                                         void *conf, ngx_pool_t *pool);
    void                       (*destroy)(void *data);

    /* Changes are in the zone.  NULL: does not matter. */
    void                       (*published)(void *data);
    void                        *conf;
    uint32_t                     verdicts;      /* bits that it sets: without
                                                   it they are cleared */
} ngx_etcd_attendant_t;


/* of all zeroes: none */

typedef struct {
    ngx_etcd_attendant_t         list[NGX_ETCD_ATTENDANTS];
    ngx_uint_t                   n;
} ngx_etcd_attendants_t;


/* Called while the configuration is read: there is room for them all. */
void ngx_etcd_attendant_add(ngx_etcd_attendants_t *attendants,
    ngx_etcd_attendant_t *attendant);

/* Returns the bits of verdicts that attendants set. */
uint32_t ngx_etcd_attendant_verdicts(ngx_etcd_attendants_t *attendants);

/* Returns 1 if an attendant sets one of these bits of verdicts. */
ngx_uint_t ngx_etcd_attendant_judges(ngx_etcd_attendants_t *attendants,
    uint32_t bits);

/*
 * Of all attendants of a service: data[] has what their create() returns.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_attendant_create(ngx_etcd_attendants_t *attendants,
    ngx_etcd_service_t *service, ngx_pool_t *pool, void **data);
void ngx_etcd_attendant_destroy(ngx_etcd_attendants_t *attendants,
    void **data);
void ngx_etcd_attendant_published(ngx_etcd_attendants_t *attendants,
    void **data);


#endif /* _NGX_ETCD_ATTENDANT_H_INCLUDED_ */
