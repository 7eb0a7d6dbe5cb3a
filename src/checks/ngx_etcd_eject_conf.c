
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_eject_conf.h>
#include <ngx_etcd_parameter.h>


/* of a window, of a time: nginx's notation */

#define NGX_ETCD_EJECT_WINDOW  10000
#define NGX_ETCD_EJECT_TIME    30
#define NGX_ETCD_EJECT_ANSWERS 20
#define NGX_ETCD_EJECT_SHARE   30


typedef struct {
    ngx_str_t       name;                           /* with the "=" */
    ngx_int_t     (*set)(ngx_etcd_eject_conf_t *conf, ngx_str_t *value);
} ngx_etcd_eject_parameter_t;


static ngx_int_t ngx_etcd_eject_conf_errors(ngx_etcd_eject_conf_t *conf,
    ngx_str_t *value);
static ngx_int_t ngx_etcd_eject_conf_status(ngx_etcd_eject_conf_t *conf,
    ngx_str_t *value);
static ngx_int_t ngx_etcd_eject_conf_window(ngx_etcd_eject_conf_t *conf,
    ngx_str_t *value);
static ngx_int_t ngx_etcd_eject_conf_min(ngx_etcd_eject_conf_t *conf,
    ngx_str_t *value);
static ngx_int_t ngx_etcd_eject_conf_time(ngx_etcd_eject_conf_t *conf,
    ngx_str_t *value);
static ngx_int_t ngx_etcd_eject_conf_max(ngx_etcd_eject_conf_t *conf,
    ngx_str_t *value);


static ngx_etcd_eject_parameter_t  ngx_etcd_eject_parameters[] = {
    { ngx_string("errors="), ngx_etcd_eject_conf_errors },
    { ngx_string("status="), ngx_etcd_eject_conf_status },
    { ngx_string("window="), ngx_etcd_eject_conf_window },
    { ngx_string("min="), ngx_etcd_eject_conf_min },
    { ngx_string("time="), ngx_etcd_eject_conf_time },
    { ngx_string("max="), ngx_etcd_eject_conf_max },
    { ngx_null_string, NULL }
};


static ngx_int_t
ngx_etcd_eject_conf_statuses(ngx_etcd_eject_conf_t *conf, u_char *p,
    size_t len)
{
    u_char     *dash;
    ngx_int_t   low, high;

    dash = ngx_strlchr(p, p + len, '-');

    if (dash != NULL) {
        low = ngx_atoi(p, dash - p);
        high = ngx_atoi(dash + 1, p + len - dash - 1);

    } else {
        low = ngx_atoi(p, len);
        high = low;
    }

    if (low < 100 || high < low || high >= NGX_ETCD_EJECT_STATUSES) {
        return NGX_ERROR;
    }

    for ( /* void */ ; low <= high; low++) {
        conf->statuses[low / 32] |= (uint32_t) 1 << low % 32;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_eject_conf_parameter(ngx_conf_t *cf, ngx_etcd_eject_conf_t *conf,
    ngx_str_t *value, ngx_uint_t stream, uint32_t *seen)
{
    ngx_str_t                    rest;
    ngx_uint_t                   i;
    ngx_etcd_eject_parameter_t  *parameter;

    parameter = ngx_etcd_eject_parameters;

    for (i = 0; parameter[i].name.len != 0; i++) {

        if (ngx_strncmp(value->data, parameter[i].name.data,
                        parameter[i].name.len)
            != 0)
        {
            continue;
        }

        if (*seen & 1 << i) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate parameter \"%V\"", value);
            return NGX_ERROR;
        }

        *seen |= 1 << i;

        if (stream && parameter[i].set == ngx_etcd_eject_conf_status) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid parameter "
                               "\"%V\": there is no status in stream", value);
            return NGX_ERROR;
        }

        rest.data = value->data + parameter[i].name.len;
        rest.len = value->len - parameter[i].name.len;

        if (parameter[i].set(conf, &rest) == NGX_OK) {
            return NGX_OK;
        }

        break;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid parameter \"%V\"%s",
                       value, parameter[i].set ? ": invalid value" : "");

    return NGX_ERROR;
}


ngx_etcd_eject_conf_t *
ngx_etcd_eject_conf(ngx_conf_t *cf, ngx_uint_t stream)
{
    uint32_t                seen;
    ngx_str_t              *value;
    ngx_uint_t              i;
    ngx_etcd_eject_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_eject_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    conf->window = NGX_ETCD_EJECT_WINDOW;
    conf->time = NGX_ETCD_EJECT_TIME;
    conf->min = NGX_ETCD_EJECT_ANSWERS;
    conf->max = NGX_ETCD_EJECT_SHARE;

    (void) ngx_etcd_eject_conf_statuses(conf, (u_char *) "500-599", 7);

    value = cf->args->elts;
    seen = 0;

    for (i = 1; i < cf->args->nelts; i++) {
        if (ngx_etcd_eject_conf_parameter(cf, conf, &value[i], stream, &seen)
            != NGX_OK)
        {
            return NULL;
        }
    }

    if (conf->errors == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" needs the parameter \"errors=\"", &value[0]);
        return NULL;
    }

    return conf;
}


static ngx_int_t
ngx_etcd_eject_conf_errors(ngx_etcd_eject_conf_t *conf, ngx_str_t *value)
{
    return ngx_etcd_parameter_percent(value, &conf->errors);
}


/* Numbers and ranges, separated by commas. */

static ngx_int_t
ngx_etcd_eject_conf_status(ngx_etcd_eject_conf_t *conf, ngx_str_t *value)
{
    u_char  *p, *comma, *last;

    ngx_memzero(conf->statuses, sizeof(conf->statuses));

    p = value->data;
    last = value->data + value->len;

    for ( ;; ) {
        comma = ngx_strlchr(p, last, ',');

        if (comma == NULL) {
            return ngx_etcd_eject_conf_statuses(conf, p, last - p);
        }

        if (ngx_etcd_eject_conf_statuses(conf, p, comma - p) != NGX_OK) {
            return NGX_ERROR;
        }

        p = comma + 1;
    }
}


static ngx_int_t
ngx_etcd_eject_conf_window(ngx_etcd_eject_conf_t *conf, ngx_str_t *value)
{
    ngx_int_t  n;

    n = ngx_parse_time(value, 0);

    if (n < NGX_ETCD_EJECT_MIN_WINDOW || n > NGX_ETCD_EJECT_MAX_WINDOW) {
        return NGX_ERROR;
    }

    conf->window = n;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_eject_conf_min(ngx_etcd_eject_conf_t *conf, ngx_str_t *value)
{
    ngx_int_t  n;

    n = ngx_atoi(value->data, value->len);

    if (n <= 0 || n > NGX_MAX_INT32_VALUE) {
        return NGX_ERROR;
    }

    conf->min = n;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_eject_conf_time(ngx_etcd_eject_conf_t *conf, ngx_str_t *value)
{
    ngx_int_t  n;

    n = ngx_parse_time(value, 1);

    if (n <= 0 || n > NGX_ETCD_EJECT_MAX_TIME) {
        return NGX_ERROR;
    }

    conf->time = n;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_eject_conf_max(ngx_etcd_eject_conf_t *conf, ngx_str_t *value)
{
    return ngx_etcd_parameter_percent(value, &conf->max);
}


static void *
ngx_etcd_eject_conf_create(ngx_etcd_service_t *service, void *conf,
    ngx_pool_t *pool)
{
    ngx_etcd_eject_t  *eject;

    eject = ngx_pcalloc(pool, sizeof(ngx_etcd_eject_t));
    if (eject == NULL) {
        return NULL;
    }

    eject->conf = conf;
    eject->service = service;
    eject->zone = service->conf->zone;
    eject->set = service->conf->set;
    eject->name = &service->conf->name;
    eject->log = service->log;

    ngx_etcd_eject_start(eject);

    return eject;
}


static void
ngx_etcd_eject_conf_destroy(void *data)
{
    ngx_etcd_eject_stop(data);
}


void
ngx_etcd_eject_conf_use(ngx_etcd_eject_conf_t *conf,
    ngx_etcd_service_conf_t *service)
{
    ngx_etcd_attendant_t  attendant;

    attendant.create = ngx_etcd_eject_conf_create;
    attendant.destroy = ngx_etcd_eject_conf_destroy;
    attendant.published = NULL;
    attendant.conf = conf;
    attendant.verdicts = NGX_ETCD_VERDICT_EJECTED;

    ngx_etcd_attendant_add(&service->attendants, &attendant);
}
