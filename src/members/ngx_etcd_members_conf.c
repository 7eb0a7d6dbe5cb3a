
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_catalog_conf.h>
#include <ngx_etcd_attribute.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_parameter.h>
#include <ngx_etcd_source.h>


/* parameters of "etcd_guard" that were seen, in the order of their names */

#define NGX_ETCD_MEMBERS_CONF_KEEP      0x01
#define NGX_ETCD_MEMBERS_CONF_WINDOW    0x02
#define NGX_ETCD_MEMBERS_CONF_HOLD      0x04
#define NGX_ETCD_MEMBERS_CONF_DRY_RUN   0x08


static ngx_int_t
ngx_etcd_members_conf_close(ngx_etcd_service_conf_t *service, ngx_str_t *value)
{
    ngx_str_t   s;
    ngx_msec_t  time;

    if (ngx_strncmp(value->data, "close_after=", 12) != 0) {
        return NGX_DECLINED;
    }

    s.data = value->data + 12;
    s.len = value->len - 12;

    time = ngx_parse_time(&s, 0);

    if (time == (ngx_msec_t) NGX_ERROR || time == 0) {
        return NGX_ERROR;
    }

    service->rules.close = 1;
    service->rules.closing.after = time;

    return NGX_OK;
}


static char *
ngx_etcd_members_conf_parameter(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value)
{
    char       *err;
    ngx_int_t   rc;

    if (ngx_strncmp(value->data, "cluster=", 8) == 0
        || ngx_strncmp(value->data, "format=", 7) == 0)
    {
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(value->data, "on_empty=drop") == 0) {
        service->keep = 0;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(value->data, "on_empty=keep") == 0) {
        service->keep = 1;
        return NGX_CONF_OK;
    }

    err = "invalid value";
    rc = ngx_etcd_members_conf_close(service, value);

    if (rc == NGX_DECLINED) {
        rc = ngx_etcd_members_conf_sets(service, value, &err);
    }

    if (rc == NGX_DECLINED) {
        rc = ngx_etcd_parameter(&service->member, value, cf->pool, &err);
    }

    if (rc == NGX_DECLINED) {
        rc = ngx_etcd_attribute_parameter(value, &service->member.defaults);
    }

    if (rc == NGX_OK) {
        return NGX_CONF_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid parameter \"%V\"%s%s",
                       value, rc == NGX_DECLINED ? "" : ": ",
                       rc == NGX_DECLINED ? "" : err);

    return NGX_CONF_ERROR;
}


char *
ngx_etcd_members_conf(ngx_conf_t *cf, ngx_etcd_service_conf_t *service)
{
    char                     *rv;
    ngx_str_t                *value, name;
    ngx_uint_t                i;
    ngx_etcd_catalog_conf_t  *catalog;

    value = cf->args->elts;

    rv = ngx_etcd_members_conf_format(cf, service, NULL);

    /* read the format first: other parameters depend on it */

    for (i = 2; i < cf->args->nelts && rv == NGX_CONF_OK; i++) {

        if (ngx_strncmp(value[i].data, "format=", 7) == 0) {
            name.data = value[i].data + 7;
            name.len = value[i].len - 7;

            rv = ngx_etcd_members_conf_format(cf, service, &name);
        }
    }

    for (i = 2; i < cf->args->nelts && rv == NGX_CONF_OK; i++) {
        rv = ngx_etcd_members_conf_parameter(cf, service, &value[i]);
    }

    if (rv == NGX_CONF_OK) {
        service->source = ngx_etcd_source_members(service);

        /* a set has the members of one service: no name is compared */

        catalog = ngx_etcd_catalog_of(service);

        rv = ngx_etcd_parameter_complete(&service->member,
                                         catalog ? &catalog->pattern.literal
                                                 : &service->prefix);
    }

    return rv;
}


ngx_int_t
ngx_etcd_members_conf_sets(ngx_etcd_service_conf_t *service, ngx_str_t *value,
    char **err)
{
    ngx_str_t                 s;
    ngx_int_t                 n;
    ngx_uint_t                limit;
    ngx_etcd_catalog_conf_t  *catalog;

    limit = (ngx_strncmp(value->data, "limit=", 6) == 0);

    if (!limit && ngx_strncmp(value->data, "idle=", 5) != 0) {
        return NGX_DECLINED;
    }

    catalog = ngx_etcd_catalog_of(service);

    if (catalog == NULL) {
        *err = "the prefix has no variable";
        return NGX_ERROR;
    }

    if (limit) {
        n = ngx_atoi(value->data + 6, value->len - 6);

        if (n <= 0 || n > NGX_ETCD_CATALOG_MAX_LIMIT) {
            return NGX_ERROR;
        }

        catalog->limit = n;

        return NGX_OK;
    }

    s.data = value->data + 5;
    s.len = value->len - 5;

    catalog->idle = ngx_parse_time(&s, 0);

    return (catalog->idle == (ngx_msec_t) NGX_ERROR || catalog->idle == 0)
           ? NGX_ERROR : NGX_OK;
}


void
ngx_etcd_members_conf_guarded(ngx_etcd_guard_conf_t *guard)
{
    ngx_memzero(guard, sizeof(ngx_etcd_guard_conf_t));

    guard->window = NGX_ETCD_GUARD_WINDOW;
    guard->hold = NGX_ETCD_GUARD_HOLD;
}


static char *
ngx_etcd_members_conf_guard_keep(ngx_etcd_guard_conf_t *guard,
    ngx_str_t *value)
{
    switch (ngx_etcd_parameter_percent(value, &guard->keep)) {

    case NGX_OK:
        return NULL;

    case NGX_DECLINED:
        return "it is not \"keep=PERCENT%\"";

    default: /* NGX_ERROR */
        return "it must be from 1% to 100%";
    }
}


static char *
ngx_etcd_members_conf_guard_time(ngx_msec_t *time, ngx_str_t *value)
{
    ngx_int_t  n;

    n = ngx_parse_time(value, 0);

    if (n < 1000 || n > NGX_ETCD_GUARD_LONGEST) {
        return "it must be a time from 1s to 7d";
    }

    *time = n;

    return NULL;
}


/* Returns NULL, or what is wrong. */

static char *
ngx_etcd_members_conf_guard_parameter(ngx_etcd_guard_conf_t *guard,
    ngx_str_t *value, ngx_uint_t *seen)
{
    u_char      *equals;
    ngx_str_t    rest;
    ngx_uint_t   i;

    static ngx_str_t  names[] = {
        ngx_string("keep="),
        ngx_string("window="),
        ngx_string("hold="),
        ngx_string("dry_run"),
        ngx_null_string
    };

    equals = ngx_strlchr(value->data, value->data + value->len, '=');

    rest.data = equals ? equals + 1 : value->data + value->len;
    rest.len = value->data + value->len - rest.data;

    for (i = 0; names[i].len != 0; i++) {
        if (value->len - rest.len == names[i].len
            && ngx_strncmp(value->data, names[i].data, names[i].len) == 0)
        {
            break;
        }
    }

    if (*seen & 1 << i) {
        return "it is duplicate";
    }

    *seen |= 1 << i;

    switch (1 << i) {

    case NGX_ETCD_MEMBERS_CONF_KEEP:
        return ngx_etcd_members_conf_guard_keep(guard, &rest);

    case NGX_ETCD_MEMBERS_CONF_WINDOW:
        return ngx_etcd_members_conf_guard_time(&guard->window, &rest);

    case NGX_ETCD_MEMBERS_CONF_HOLD:
        return ngx_etcd_members_conf_guard_time(&guard->hold, &rest);

    case NGX_ETCD_MEMBERS_CONF_DRY_RUN:
        guard->dry = 1;
        return NULL;

    default:
        return "there are \"keep=\", \"window=\", \"hold=\", and "
               "\"dry_run\"";
    }
}


char *
ngx_etcd_members_conf_guard(ngx_conf_t *cf, ngx_etcd_guard_conf_t *guard)
{
    char        *err;
    ngx_str_t   *value;
    ngx_uint_t   i, seen;

    value = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        ngx_memzero(guard, sizeof(ngx_etcd_guard_conf_t));
        return NGX_CONF_OK;
    }

    ngx_etcd_members_conf_guarded(guard);

    seen = 0;

    for (i = 1; i < cf->args->nelts; i++) {
        err = ngx_etcd_members_conf_guard_parameter(guard, &value[i], &seen);

        if (err != NULL) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\": %s", &value[i], err);
            return NGX_CONF_ERROR;
        }
    }

    if (guard->keep == 0 && (seen & (NGX_ETCD_MEMBERS_CONF_WINDOW
                                     |NGX_ETCD_MEMBERS_CONF_DRY_RUN)))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"window=\" and \"dry_run\" of \"%V\" need the "
                           "parameter \"keep=\"", &value[0]);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_etcd_members_conf_format(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *name)
{
    ngx_str_t   none, *names;

    ngx_str_set(&none, "auto");

    if (name == NULL) {
        name = &none;
    }

    service->member.format = ngx_etcd_format_find(name);

    if (service->member.format != NULL) {
        return NGX_CONF_OK;
    }

    names = ngx_etcd_format_names(cf->pool);
    if (names == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "unknown format \"%V\", there are: %V", name, names);

    return NGX_CONF_ERROR;
}
