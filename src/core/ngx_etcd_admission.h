
/*
 * Copyright (C) nginx-etcd contributors
 *
 * An admission: a request or session that "etcd_require_leader" has let in, and
 * the term in which this nginx led then.  The request goes on in that term, or
 * not at all.  Admissions are found among the cleanups of the pool: what else
 * belongs to a request is cleared by an internal redirect.
 */


#ifndef _NGX_ETCD_ADMISSION_H_INCLUDED_
#define _NGX_ETCD_ADMISSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_campaign.h>


typedef struct {
    void                  *owner;         /* whose pool may be that of
                                             others, too */
    ngx_etcd_campaign_t   *campaign;
    int64_t                term;          /* as of ngx_etcd_campaign_term() */
} ngx_etcd_admission_t;


/* lives as long as the pool; NULL: no memory */
ngx_etcd_admission_t *ngx_etcd_admission_create(ngx_pool_t *pool, void *owner,
    ngx_etcd_campaign_t *campaign, int64_t term);

/* NULL: the owner was not let in by that election */
ngx_etcd_admission_t *ngx_etcd_admission_find(ngx_pool_t *pool, void *owner,
    ngx_etcd_campaign_t *campaign);

/* 1: this nginx leads in that term; 0: it does not, which the log says */
ngx_uint_t ngx_etcd_admission_valid(ngx_etcd_admission_t *admission,
    ngx_log_t *log);


#endif /* _NGX_ETCD_ADMISSION_H_INCLUDED_ */
