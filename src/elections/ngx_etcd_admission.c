
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_admission.h>


static void
ngx_etcd_admission_cleanup(void *data)
{
    /* the handler itself is the mark by which admissions are found */
}


ngx_etcd_admission_t *
ngx_etcd_admission_create(ngx_pool_t *pool, void *owner,
    ngx_etcd_campaign_t *campaign, int64_t term)
{
    ngx_pool_cleanup_t    *cln;
    ngx_etcd_admission_t  *admission;

    cln = ngx_pool_cleanup_add(pool, sizeof(ngx_etcd_admission_t));
    if (cln == NULL) {
        return NULL;
    }

    cln->handler = ngx_etcd_admission_cleanup;

    admission = cln->data;

    admission->owner = owner;
    admission->campaign = campaign;
    admission->term = term;

    return admission;
}


ngx_etcd_admission_t *
ngx_etcd_admission_find(ngx_pool_t *pool, void *owner,
    ngx_etcd_campaign_t *campaign)
{
    ngx_pool_cleanup_t    *cln;
    ngx_etcd_admission_t  *admission;

    for (cln = pool->cleanup; cln != NULL; cln = cln->next) {

        if (cln->handler != ngx_etcd_admission_cleanup) {
            continue;
        }

        admission = cln->data;

        if (admission->owner == owner && admission->campaign == campaign) {
            return admission;
        }
    }

    return NULL;
}


ngx_uint_t
ngx_etcd_admission_valid(ngx_etcd_admission_t *admission, ngx_log_t *log)
{
    if (ngx_etcd_campaign_term(admission->campaign, NULL) == admission->term) {
        return 1;
    }

    ngx_log_error(NGX_LOG_INFO, log, 0,
                  "etcd cluster \"%V\": %V: the term of revision %L has ended",
                  &admission->campaign->cluster->name,
                  &admission->campaign->label, admission->term);

    return 0;
}
