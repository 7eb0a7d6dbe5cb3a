
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_election_variable.h>
#include <ngx_etcd_variable.h>


/*
 * After the end of its term, a former leader is shown by the value with which
 * it campaigns.
 */

static ngx_int_t
ngx_etcd_election_variable_leader(ngx_str_t *name,
    ngx_etcd_campaign_t *campaign, ngx_etcd_admission_t *admission,
    ngx_variable_value_t *v, ngx_pool_t *pool)
{
    u_char                         *p;
    ngx_int_t                       rc;
    ngx_uint_t                      own;
    ngx_etcd_election_slot_view_t   view;

    rc = ngx_etcd_campaign_leader(campaign, &view, &own);

    if (admission != NULL
        && (rc != NGX_OK || view.created != admission->term))
    {
        ngx_etcd_variable_value(name, v, campaign->value.data,
                                campaign->value.len);
        return NGX_OK;
    }

    if (rc != NGX_OK) {
        return NGX_OK;
    }

    p = ngx_pnalloc(pool, ngx_max(view.value_len, 1));
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(p, view.value, view.value_len);
    ngx_etcd_variable_value(name, v, p, view.value_len);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_election_variable_is_leader(ngx_str_t *name,
    ngx_etcd_campaign_t *campaign, ngx_etcd_admission_t *admission,
    ngx_variable_value_t *v, ngx_pool_t *pool)
{
    if (admission != NULL || ngx_etcd_campaign_term(campaign, NULL) != 0) {
        ngx_etcd_variable_value(name, v, (u_char *) "1", 1);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_election_variable_term(ngx_str_t *name, ngx_etcd_campaign_t *campaign,
    ngx_etcd_admission_t *admission, ngx_variable_value_t *v,
    ngx_pool_t *pool)
{
    ngx_uint_t                     own;
    ngx_etcd_election_slot_view_t  view;

    if (admission != NULL) {
        return ngx_etcd_variable_number(name, v, admission->term, pool);
    }

    if (ngx_etcd_campaign_leader(campaign, &view, &own) != NGX_OK) {
        return NGX_OK;
    }

    return ngx_etcd_variable_number(name, v, view.created, pool);
}


ngx_etcd_election_variable_t  ngx_etcd_election_variables[] = {

    { ngx_string("etcd_leader_"), ngx_etcd_election_variable_leader },

    { ngx_string("etcd_is_leader_"), ngx_etcd_election_variable_is_leader },

    { ngx_string("etcd_election_revision_"),
      ngx_etcd_election_variable_term },

    { ngx_null_string, NULL }
};


static ngx_etcd_election_variable_t *
ngx_etcd_election_variable_find(ngx_str_t *name, ngx_str_t *election)
{
    ngx_str_t                     *prefix;
    ngx_etcd_election_variable_t  *variable;

    for (variable = ngx_etcd_election_variables;
         variable->name.len != 0;
         variable++)
    {
        prefix = &variable->name;

        if (name->len > prefix->len
            && ngx_strncasecmp(name->data, prefix->data, prefix->len) == 0)
        {
            election->data = name->data + prefix->len;
            election->len = name->len - prefix->len;

            return variable;
        }
    }

    return NULL;
}


ngx_etcd_campaign_t *
ngx_etcd_election_variable_campaign(ngx_str_t *name)
{
    ngx_str_t  election;

    return (ngx_etcd_election_variable_find(name, &election) != NULL)
           ? ngx_etcd_campaign_find(ngx_etcd_conf_main(ngx_cycle), &election)
           : NULL;
}


ngx_int_t
ngx_etcd_election_variable_value(ngx_str_t *name, ngx_etcd_campaign_t *campaign,
    ngx_etcd_admission_t *admission, ngx_variable_value_t *v,
    ngx_pool_t *pool)
{
    ngx_str_t                      election;
    ngx_etcd_election_variable_t  *variable;

    v->not_found = 1;

    variable = ngx_etcd_election_variable_find(name, &election);

    return variable->get(name, campaign, admission, v, pool);
}


ngx_int_t
ngx_etcd_election_variable_used(ngx_conf_t *cf, ngx_array_t *variables)
{
    u_char      *p;
    ngx_str_t   *name, election;
    ngx_uint_t   i;

    p = variables->elts;

    for (i = 0; i < variables->nelts; i++) {
        name = (ngx_str_t *) (p + i * variables->size);

        if (ngx_etcd_election_variable_find(name, &election) != NULL
            && ngx_etcd_campaign_get(cf, &election) == NULL)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}
