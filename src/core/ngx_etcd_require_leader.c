
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_require_leader.h>


static char *ngx_etcd_require_leader_set_status(ngx_conf_t *cf,
    ngx_etcd_require_leader_t *require, ngx_str_t *value);


void
ngx_etcd_require_leader_init(ngx_etcd_require_leader_t *require)
{
    require->campaign = NGX_CONF_UNSET_PTR;
    require->status = NGX_ETCD_REQUIRE_LEADER_STATUS;
}


void
ngx_etcd_require_leader_merge(ngx_etcd_require_leader_t *require,
    ngx_etcd_require_leader_t *prev)
{
    if (require->campaign != NGX_CONF_UNSET_PTR) {
        return;
    }

    *require = *prev;

    if (require->campaign == NGX_CONF_UNSET_PTR) {
        require->campaign = NULL;
    }
}


char *
ngx_etcd_require_leader_require(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char  *p = conf;

    ngx_str_t                  *value;
    ngx_etcd_require_leader_t  *require;

    require = (ngx_etcd_require_leader_t *) (p + cmd->offset);

    if (require->campaign != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0 && cf->args->nelts == 2) {
        require->campaign = NULL;
        return NGX_CONF_OK;
    }

    require->campaign = ngx_etcd_campaign_get(cf, &value[1]);
    if (require->campaign == NULL) {
        return NGX_CONF_ERROR;
    }

    return (cf->args->nelts == 3)
           ? ngx_etcd_require_leader_set_status(cf, require, &value[2])
           : NGX_CONF_OK;
}


static char *
ngx_etcd_require_leader_set_status(ngx_conf_t *cf,
    ngx_etcd_require_leader_t *require, ngx_str_t *value)
{
    ngx_int_t  status;

    if (ngx_strncmp(value->data, "status=", 7) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid parameter \"%V\"",
                           value);
        return NGX_CONF_ERROR;
    }

    status = ngx_atoi(value->data + 7, value->len - 7);

    if (status < 400 || status > 599) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" must be between 400 and 599", value);
        return NGX_CONF_ERROR;
    }

    require->status = status;

    return NGX_CONF_OK;
}


ngx_int_t
ngx_etcd_require_leader_enter(ngx_etcd_require_leader_t *require,
    ngx_etcd_admission_t *admission, ngx_pool_t *pool, void *owner,
    ngx_log_t *log)
{
    int64_t  term;

    if (admission != NULL) {
        return ngx_etcd_admission_valid(admission, log) ? NGX_OK
                                                        : NGX_DECLINED;
    }

    term = ngx_etcd_campaign_term(require->campaign);

    if (term == 0) {
        ngx_log_error(NGX_LOG_INFO, log, 0,
                      "etcd cluster \"%V\": %V: this nginx does not lead",
                      &require->campaign->cluster->name,
                      &require->campaign->label);
        return NGX_DECLINED;
    }

    return ngx_etcd_admission_create(pool, owner, require->campaign, term)
           ? NGX_OK : NGX_ERROR;
}
