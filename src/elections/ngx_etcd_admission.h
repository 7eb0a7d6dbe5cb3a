
/*
 * Copyright (C) nginx-etcd contributors
 *
 * An admission: a request or session admitted by "etcd_require_leader", and
 * the term of this nginx at that time.  The request continues in that term or
 * fails.  Admissions are found in the cleanup list of the pool, because an
 * internal redirect clears the contexts of a request.
 */


#ifndef _NGX_ETCD_ADMISSION_H_INCLUDED_
#define _NGX_ETCD_ADMISSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_campaign.h>


typedef struct {
    void                  *owner;         /* the request or session: a pool may
                                             be shared by several */
    ngx_etcd_campaign_t   *campaign;
    int64_t                term;          /* from ngx_etcd_campaign_term() */
} ngx_etcd_admission_t;


/* Creates an admission; freed with the pool.  NULL: no memory. */
ngx_etcd_admission_t *ngx_etcd_admission_create(ngx_pool_t *pool, void *owner,
    ngx_etcd_campaign_t *campaign, int64_t term);

/* Returns the owner's admission by that election; NULL: there is none. */
ngx_etcd_admission_t *ngx_etcd_admission_find(ngx_pool_t *pool, void *owner,
    ngx_etcd_campaign_t *campaign);

/*
 * Returns 1 if this nginx leads in the term of the admission; otherwise logs
 * and returns 0.
 */
ngx_uint_t ngx_etcd_admission_valid(ngx_etcd_admission_t *admission,
    ngx_log_t *log);


#endif /* _NGX_ETCD_ADMISSION_H_INCLUDED_ */
