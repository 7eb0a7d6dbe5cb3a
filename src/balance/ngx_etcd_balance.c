
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_balance.h>
#include <ngx_etcd_ewma.h>
#include <ngx_etcd_hash.h>
#include <ngx_etcd_least_conn.h>
#include <ngx_etcd_random.h>
#include <ngx_etcd_round_robin.h>
#include <ngx_etcd_str.h>


/* NGX_ETCD_METHOD_NAMES lists them too */

static const ngx_etcd_method_t  *ngx_etcd_balance_methods[] = {
    &ngx_etcd_round_robin_method,
    &ngx_etcd_least_conn_method,
    &ngx_etcd_random_method,
    &ngx_etcd_hash_method,
    &ngx_etcd_hash_consistent_method,
    &ngx_etcd_ewma_method,
    NULL
};

const ngx_etcd_method_t  *ngx_etcd_balance_default =
    &ngx_etcd_round_robin_method;


const ngx_etcd_method_t *
ngx_etcd_balance_method(ngx_str_t *name, ngx_str_t *parameter)
{
    ngx_uint_t                i;
    const ngx_etcd_method_t  *method;

    for (i = 0; ngx_etcd_balance_methods[i] != NULL; i++) {
        method = ngx_etcd_balance_methods[i];

        if (ngx_etcd_str_equal(&method->name, name)
            && ngx_etcd_str_equal(&method->parameter, parameter))
        {
            return method;
        }
    }

    return NULL;
}
