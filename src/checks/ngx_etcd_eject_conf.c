
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_eject_conf.h>
#include <ngx_etcd_option.h>


/* of a window, of a time: nginx's notation */

#define NGX_ETCD_EJECT_WINDOW  10000
#define NGX_ETCD_EJECT_TIME    30
#define NGX_ETCD_EJECT_ANSWERS 20
#define NGX_ETCD_EJECT_SHARE   30

#define NGX_ETCD_EJECT_HTTP    1    /* contexts: not for stream */


static ngx_int_t
ngx_etcd_eject_conf_statuses(ngx_etcd_eject_conf_t *conf, u_char *p,
    u_char *last)
{
    ngx_int_t  low, high;

    if (ngx_etcd_option_statuses(p, last, &low, &high) != NGX_OK) {
        return NGX_ERROR;
    }

    for ( /* void */ ; low <= high; low++) {
        conf->statuses[low / 32] |= (uint32_t) 1 << low % 32;
    }

    return NGX_OK;
}


/* Numbers and ranges, separated by commas. */

static char *
ngx_etcd_eject_conf_status(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    ngx_etcd_eject_conf_t *eject = conf;

    u_char  *p, *comma, *last;

    ngx_memzero(eject->statuses, sizeof(eject->statuses));

    last = value->data + value->len;

    for (p = value->data; p != NULL; p = comma ? comma + 1 : NULL) {
        comma = ngx_strlchr(p, last, ',');

        if (ngx_etcd_eject_conf_statuses(eject, p, comma ? comma : last)
            != NGX_OK)
        {
            return "invalid value";
        }
    }

    return NGX_CONF_OK;
}


static ngx_etcd_option_t  ngx_etcd_eject_options[] = {

    { .name = ngx_string("errors="), .type = NGX_ETCD_OPTION_SHARE,
      .offset = offsetof(ngx_etcd_eject_conf_t, errors),
      .min = 1, .max = 100 },

    { .name = ngx_string("status="), .contexts = NGX_ETCD_EJECT_HTTP,
      .set = ngx_etcd_eject_conf_status },

    { .name = ngx_string("window="), .type = NGX_ETCD_OPTION_TIME,
      .offset = offsetof(ngx_etcd_eject_conf_t, window),
      .min = NGX_ETCD_EJECT_MIN_WINDOW, .max = NGX_ETCD_EJECT_MAX_WINDOW },

    { .name = ngx_string("min="), .type = NGX_ETCD_OPTION_NUMBER,
      .offset = offsetof(ngx_etcd_eject_conf_t, min),
      .min = 1, .max = NGX_MAX_INT32_VALUE },

    { .name = ngx_string("time="), .type = NGX_ETCD_OPTION_SECONDS,
      .offset = offsetof(ngx_etcd_eject_conf_t, time),
      .min = 1, .max = NGX_ETCD_EJECT_MAX_TIME },

    { .name = ngx_string("max="), .type = NGX_ETCD_OPTION_SHARE,
      .offset = offsetof(ngx_etcd_eject_conf_t, max),
      .min = 1, .max = 100 },

    ngx_etcd_null_option
};


static char *
ngx_etcd_eject_conf_stream(ngx_etcd_option_t *option, void *conf)
{
    return (option->contexts == NGX_ETCD_EJECT_HTTP)
           ? "there is no status in stream" : NULL;
}


ngx_etcd_eject_conf_t *
ngx_etcd_eject_conf(ngx_conf_t *cf, ngx_uint_t stream)
{
    ngx_str_t              *value;
    ngx_etcd_eject_conf_t  *conf;

    static u_char  errors[] = "500-599";

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_eject_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    conf->window = NGX_ETCD_EJECT_WINDOW;
    conf->time = NGX_ETCD_EJECT_TIME;
    conf->min = NGX_ETCD_EJECT_ANSWERS;
    conf->max = NGX_ETCD_EJECT_SHARE;

    (void) ngx_etcd_eject_conf_statuses(conf, errors,
                                        errors + sizeof(errors) - 1);

    value = cf->args->elts;

    if (ngx_etcd_option_read(cf, 1, ngx_etcd_eject_options,
                             stream ? ngx_etcd_eject_conf_stream : NULL, conf)
        != NGX_OK)
    {
        return NULL;
    }

    if (conf->errors == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" needs the parameter \"errors=\"", &value[0]);
        return NULL;
    }

    return conf;
}


void
ngx_etcd_eject_conf_use(ngx_etcd_eject_conf_t *conf,
    ngx_etcd_service_conf_t *service)
{
    ngx_etcd_attendant_t  attendant;

    attendant.create = ngx_etcd_eject_create;
    attendant.destroy = ngx_etcd_eject_destroy;
    attendant.published = NULL;
    attendant.conf = conf;
    attendant.verdicts = NGX_ETCD_VERDICT_EJECTED;

    ngx_etcd_attendant_add(&service->attendants, &attendant);
}
