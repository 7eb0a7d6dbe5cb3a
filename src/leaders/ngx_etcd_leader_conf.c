
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_attribute.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_leader_api.h>
#include <ngx_etcd_leader_conf.h>
#include <ngx_etcd_leader_keys.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_parameter.h>
#include <ngx_etcd_patroni.h>
#include <ngx_etcd_patroni_url.h>
#include <ngx_etcd_str.h>


#define NGX_ETCD_FOR_ELECTION  (1 << NGX_ETCD_LEADER_ELECTION)
#define NGX_ETCD_FOR_KEY       (1 << NGX_ETCD_LEADER_KEY)
#define NGX_ETCD_FOR_PATRONI   (1 << NGX_ETCD_LEADER_PATRONI)
#define NGX_ETCD_FOR_VITESS    (1 << NGX_ETCD_LEADER_VITESS)

#define NGX_ETCD_FOR_VALUES                                                   \
    (NGX_ETCD_FOR_ELECTION|NGX_ETCD_FOR_KEY|NGX_ETCD_FOR_VITESS)
#define NGX_ETCD_FOR_ALL       (NGX_ETCD_FOR_VALUES|NGX_ETCD_FOR_PATRONI)

#define NGX_ETCD_REPEAT        0x100


/*
 * Sets a value, or the choice with that number.  NGX_ERROR: invalid;
 * NGX_ABORT: invalid, and logged.
 */

typedef ngx_int_t (*ngx_etcd_leader_param_pt)(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);

typedef struct {
    ngx_str_t                   name;       /* including "=" */
    ngx_uint_t                  formats;    /* bitmask of formats; REPEAT: may
                                               be repeated */
    ngx_str_t                  *choices;    /* or NULL: any value */
    ngx_etcd_leader_param_pt    set;        /* NULL: read earlier */
} ngx_etcd_leader_param_t;


static ngx_int_t ngx_etcd_leader_conf_on_change(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);
static ngx_int_t ngx_etcd_leader_conf_max_stale(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);
static ngx_int_t ngx_etcd_leader_conf_name(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);
static ngx_int_t ngx_etcd_leader_conf_members(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);
static ngx_int_t ngx_etcd_leader_conf_role(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);
static ngx_int_t ngx_etcd_leader_conf_max_lag(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);
static ngx_int_t ngx_etcd_leader_conf_replication(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);
static ngx_int_t ngx_etcd_leader_conf_confirm(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);
static ngx_int_t ngx_etcd_leader_conf_failsafe(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);
static ngx_int_t ngx_etcd_leader_conf_parameter(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);
static ngx_int_t ngx_etcd_leader_conf_url(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);
static ngx_int_t ngx_etcd_leader_conf_member(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice);


/* indexed by ngx_etcd_leader_format_e */

static ngx_str_t  ngx_etcd_leader_formats[] = {
    ngx_string("election"),
    ngx_string("key"),
    ngx_string("patroni"),
    ngx_string("vitess"),
    ngx_null_string
};

/* indexed by ngx_etcd_role_e */

static ngx_str_t  ngx_etcd_leader_roles[] = {
    ngx_string("leader"),
    ngx_string("replica"),
    ngx_string("any"),
    ngx_string("sync"),
    ngx_string("quorum"),
    ngx_string("async"),
    ngx_string("standby_leader"),
    ngx_null_string
};

static ngx_str_t  ngx_etcd_leader_confirms[] = {
    ngx_string("off"),
    ngx_string("api"),
    ngx_null_string
};

static ngx_str_t  ngx_etcd_leader_switch[] = {
    ngx_string("off"),
    ngx_string("on"),
    ngx_null_string
};

static ngx_str_t  ngx_etcd_leader_urls[] = {
    ngx_string("conn_url"),
    ngx_string("proxy_url"),
    ngx_null_string
};

static ngx_str_t  ngx_etcd_leader_changes[] = {
    ngx_string("keep"),
    ngx_string("close"),
    ngx_null_string
};


static ngx_etcd_leader_param_t  ngx_etcd_leader_params[] = {

    { ngx_string("cluster="), NGX_ETCD_FOR_ALL, NULL, NULL },

    { ngx_string("format="), NGX_ETCD_FOR_ALL, NULL, NULL },

    { ngx_string("on_change="), NGX_ETCD_FOR_ALL,
      ngx_etcd_leader_changes, ngx_etcd_leader_conf_on_change },

    { ngx_string("max_stale="), NGX_ETCD_FOR_ALL,
      NULL, ngx_etcd_leader_conf_max_stale },

    { ngx_string("max_conns="), NGX_ETCD_FOR_ALL,
      NULL, ngx_etcd_leader_conf_member },

    { ngx_string("max_fails="), NGX_ETCD_FOR_ALL,
      NULL, ngx_etcd_leader_conf_member },

    { ngx_string("fail_timeout="), NGX_ETCD_FOR_ALL,
      NULL, ngx_etcd_leader_conf_member },

    { ngx_string("lease="), NGX_ETCD_FOR_ALL,
      NULL, ngx_etcd_leader_conf_parameter },

    { ngx_string("value_format="), NGX_ETCD_FOR_VALUES, NULL, NULL },

    { ngx_string("members="), NGX_ETCD_FOR_VALUES,
      NULL, ngx_etcd_leader_conf_members },

    { ngx_string("name="), NGX_ETCD_FOR_VALUES,
      NULL, ngx_etcd_leader_conf_name },

    { ngx_string("role="), NGX_ETCD_FOR_PATRONI,
      ngx_etcd_leader_roles, ngx_etcd_leader_conf_role },

    { ngx_string("max_lag="), NGX_ETCD_FOR_PATRONI,
      NULL, ngx_etcd_leader_conf_max_lag },

    { ngx_string("replication_state="), NGX_ETCD_FOR_PATRONI,
      NULL, ngx_etcd_leader_conf_replication },

    { ngx_string("confirm="), NGX_ETCD_FOR_PATRONI,
      ngx_etcd_leader_confirms, ngx_etcd_leader_conf_confirm },

    { ngx_string("failsafe="), NGX_ETCD_FOR_PATRONI,
      ngx_etcd_leader_switch, ngx_etcd_leader_conf_failsafe },

    { ngx_string("tag="), NGX_ETCD_FOR_PATRONI|NGX_ETCD_REPEAT,
      NULL, ngx_etcd_leader_conf_parameter },

    { ngx_string("url="), NGX_ETCD_FOR_PATRONI,
      ngx_etcd_leader_urls, ngx_etcd_leader_conf_url },

    { ngx_string("api_trusted_certificate="), NGX_ETCD_FOR_PATRONI,
      NULL, ngx_etcd_leader_api_trusted },

    { ngx_string("api_certificate="), NGX_ETCD_FOR_PATRONI,
      NULL, ngx_etcd_leader_api_certificate },

    { ngx_string("api_certificate_key="), NGX_ETCD_FOR_PATRONI,
      NULL, ngx_etcd_leader_api_key },

    { ngx_string("api_verify="), NGX_ETCD_FOR_PATRONI,
      ngx_etcd_leader_switch, ngx_etcd_leader_api_verify },

    { ngx_null_string, 0, NULL, NULL }
};


/* by ngx_etcd_leader_format_e */

static const ngx_etcd_leader_source_t  *ngx_etcd_leader_conf_sources[] = {
    &ngx_etcd_leader_election,
    &ngx_etcd_leader_key,
    &ngx_etcd_patroni_source,
    &ngx_etcd_leader_vitess,
};


/* Finds the last parameter of that name, which includes "=". */

static ngx_uint_t
ngx_etcd_leader_conf_text(ngx_conf_t *cf, char *name, ngx_str_t *text)
{
    size_t       len;
    ngx_str_t   *value;
    ngx_uint_t   i;

    len = ngx_strlen(name);
    value = cf->args->elts;

    for (i = cf->args->nelts - 1; i > 1; i--) {
        if (ngx_strncmp(value[i].data, name, len) == 0) {
            text->data = value[i].data + len;
            text->len = value[i].len - len;
            return 1;
        }
    }

    return 0;
}


static ngx_int_t
ngx_etcd_leader_conf_find(ngx_str_t *names, ngx_str_t *name)
{
    ngx_int_t  n;

    for (n = 0; names[n].len; n++) {
        if (ngx_etcd_str_equal(&names[n], name)) {
            return n;
        }
    }

    return NGX_ERROR;
}


/* Read first: the other parameters depend on the formats. */

static ngx_int_t
ngx_etcd_leader_conf_format(ngx_conf_t *cf, ngx_etcd_service_conf_t *service)
{
    ngx_int_t   n;
    ngx_str_t   name;
    ngx_uint_t  known;

    n = NGX_ETCD_LEADER_ELECTION;

    if (ngx_etcd_leader_conf_text(cf, "format=", &name)) {
        n = ngx_etcd_leader_conf_find(ngx_etcd_leader_formats, &name);

        if (n == NGX_ERROR) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "unknown format \"%V\" of a leader, there are: "
                               "election, key, patroni, vitess", &name);
            return NGX_ERROR;
        }
    }

    service->leader->format = n;
    known = ngx_etcd_leader_conf_text(cf, "value_format=", &name);

    if (n == NGX_ETCD_LEADER_PATRONI) {
        service->member.format = &ngx_etcd_patroni_format;
        return NGX_OK;
    }

    return (ngx_etcd_members_conf_format(cf, service, known ? &name : NULL)
            == NGX_CONF_OK)
           ? NGX_OK : NGX_ERROR;
}


static char *
ngx_etcd_leader_conf_invalid(ngx_conf_t *cf, ngx_str_t *value, char *what)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid parameter \"%V\"%s",
                       value, what);

    return NGX_CONF_ERROR;
}


/* A leader has the JSON pointers of "etcd_members", and no tags or schemes. */

static char *
ngx_etcd_leader_conf_pointer(ngx_conf_t *cf, ngx_etcd_service_conf_t *service,
    ngx_str_t *value, char *otherwise)
{
    char       *err;
    u_char     *p;
    ngx_int_t   rc;

    err = NULL;
    rc = NGX_DECLINED;

    p = (u_char *) ngx_strchr(value->data, '=');

    if (p != NULL && (p[1] == '/' || p[1] == '!')) {
        rc = ngx_etcd_parameter(&service->member, value, cf->pool, &err);
    }

    if (rc == NGX_OK) {
        return NGX_CONF_OK;
    }

    if (rc == NGX_DECLINED) {
        return ngx_etcd_leader_conf_invalid(cf, value, otherwise);
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid parameter \"%V\": %s",
                       value, err);

    return NGX_CONF_ERROR;
}


static char *
ngx_etcd_leader_conf_set(ngx_conf_t *cf, ngx_etcd_service_conf_t *service,
    ngx_etcd_leader_param_t *param, ngx_str_t *value)
{
    ngx_int_t  rc, choice;
    ngx_str_t  text;

    /* these setters expect the text with the name */

    text = *value;

    if (param->set != ngx_etcd_leader_conf_member
        && param->set != ngx_etcd_leader_conf_parameter)
    {
        text.data += param->name.len;
        text.len -= param->name.len;
    }

    choice = 0;
    rc = NGX_OK;

    if (param->choices != NULL) {
        choice = ngx_etcd_leader_conf_find(param->choices, &text);
    }

    if (choice != NGX_ERROR) {
        rc = param->set(cf, service, &text, choice);
    }

    if (choice == NGX_ERROR || rc == NGX_ERROR) {
        return ngx_etcd_leader_conf_invalid(cf, value, ": invalid value");
    }

    return (rc == NGX_OK) ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_etcd_leader_conf_param(ngx_conf_t *cf, ngx_etcd_service_conf_t *service,
    ngx_str_t *value, ngx_uint_t *seen)
{
    char                     *err;
    ngx_int_t                 rc;
    ngx_uint_t                bit;
    ngx_etcd_leader_param_t  *param;

    err = "invalid value";
    rc = ngx_etcd_members_conf_sets(service, value, &err);

    if (rc == NGX_OK) {
        return NGX_CONF_OK;
    }

    if (rc == NGX_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid parameter \"%V\": %s",
                           value, err);
        return NGX_CONF_ERROR;
    }

    for (param = ngx_etcd_leader_params; param->name.len; param++) {
        if (ngx_strncmp(value->data, param->name.data, param->name.len) == 0) {
            break;
        }
    }

    if (param->name.len == 0) {
        return ngx_etcd_leader_conf_pointer(cf, service, value, "");
    }

    bit = 1 << (param - ngx_etcd_leader_params);

    if ((*seen & bit) && !(param->formats & NGX_ETCD_REPEAT)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "duplicate parameter \"%V\"",
                           value);
        return NGX_CONF_ERROR;
    }

    *seen |= bit;

    if (!(param->formats & (1 << service->leader->format))) {
        return ngx_etcd_leader_conf_pointer(cf, service, value,
                                            ": it is for another format");
    }

    return (param->set != NULL)
           ? ngx_etcd_leader_conf_set(cf, service, param, value)
           : NGX_CONF_OK;
}


static ngx_int_t
ngx_etcd_leader_conf_check(ngx_conf_t *cf, ngx_etcd_service_conf_t *service)
{
    char  *err;

    if (service->leader->name.len != 0 && service->leader->members.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"name=\" requires \"members=\"");
        return NGX_ERROR;
    }

    if (service->member.layout != NULL) {
        err = ngx_etcd_parameter_complete(&service->member, &service->prefix);

        if (err != NULL) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"etcd_leader\" %s",
                               err);
            return NGX_ERROR;
        }
    }

    if (!service->rules.failsafe) {
        return NGX_OK;
    }

    if (service->leader->role != NGX_ETCD_ROLE_LEADER) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"failsafe=on\" requires \"role=leader\"");
        return NGX_ERROR;
    }

    if (service->rules.max_stale == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"failsafe=on\" cannot be used together with "
                           "\"max_stale=off\"");
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * A set with another selection contains other members, which must not be used
 * even briefly: the kind distinguishes such sets.
 */

static void
ngx_etcd_leader_conf_kind(ngx_etcd_service_conf_t *service)
{
    uint32_t                 hash;
    ngx_str_t               *format;
    ngx_etcd_leader_conf_t  *leader;

    leader = service->leader;
    format = ngx_etcd_format_name(service->member.format);

    ngx_crc32_init(hash);
    ngx_crc32_update(&hash, (u_char *) &leader->format,
                     sizeof(ngx_etcd_leader_format_e));
    ngx_crc32_update(&hash, (u_char *) &leader->role,
                     sizeof(ngx_etcd_role_e));
    ngx_crc32_update(&hash, leader->members.data, leader->members.len);
    ngx_crc32_update(&hash, leader->name.data, leader->name.len);
    ngx_crc32_update(&hash, (u_char *) &service->member.hash,
                     sizeof(service->member.hash));
    ngx_crc32_update(&hash, format->data, format->len);
    ngx_crc32_final(hash);

    service->kind = (hash != 0) ? hash : 1;
}


char *
ngx_etcd_leader_conf(ngx_conf_t *cf, ngx_etcd_service_conf_t *service)
{
    char                    *rv;
    ngx_str_t               *value;
    ngx_uint_t               i, seen;
    ngx_etcd_leader_conf_t  *leader;

    leader = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_leader_conf_t));
    if (leader == NULL) {
        return NGX_CONF_ERROR;
    }

    leader->max_lag = NGX_ETCD_LEADER_ANY_LAG;

    service->leader = leader;
    service->rules.leader = 1;
    service->rules.max_stale = NGX_ETCD_LEADER_MAX_STALE;
    service->member.defaults.max_fails = (uint32_t) NGX_CONF_UNSET_UINT;

    if (ngx_etcd_leader_conf_format(cf, service) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    service->source = &ngx_etcd_leader_conf_sources[leader->format]->source;

    value = cf->args->elts;
    rv = NGX_CONF_OK;
    seen = 0;

    for (i = 2; i < cf->args->nelts && rv == NGX_CONF_OK; i++) {
        rv = ngx_etcd_leader_conf_param(cf, service, &value[i], &seen);
    }

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    service->rules.sole = ngx_etcd_role_sole(leader->role);

    /* a sole leader has no alternative: do not mark it as failed */

    if (service->member.defaults.max_fails == (uint32_t) NGX_CONF_UNSET_UINT) {
        service->member.defaults.max_fails = service->rules.sole ? 0 : 1;
    }

    if (ngx_etcd_leader_conf_check(cf, service) != NGX_OK
        || ngx_etcd_leader_keys_set(cf, service) != NGX_OK
        || ngx_etcd_leader_api_done(cf, service) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_etcd_leader_conf_kind(service);

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_etcd_leader_conf_on_change(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice)
{
    service->rules.close = choice;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_leader_conf_max_stale(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice)
{
    ngx_int_t  ms;

    if (ngx_etcd_str_is(value, "off")) {
        service->rules.max_stale = 0;
        return NGX_OK;
    }

    ms = ngx_parse_time(value, 0);

    if (ms == NGX_ERROR || ms < NGX_ETCD_LEADER_MIN_STALE) {
        return NGX_ERROR;
    }

    service->rules.max_stale = ms;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_leader_conf_name(ngx_conf_t *cf, ngx_etcd_service_conf_t *service,
    ngx_str_t *value, ngx_int_t choice)
{
    service->leader->name = *value;

    return (value->len != 0 && ngx_etcd_json_pointer_check(value) == NULL)
           ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_etcd_leader_conf_members(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice)
{
    service->leader->members = *value;

    return (value->len != 0) ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_etcd_leader_conf_role(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice)
{
    service->leader->role = choice;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_leader_conf_max_lag(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice)
{
    off_t  size;

    size = ngx_parse_offset(value);
    if (size == NGX_ERROR) {
        return NGX_ERROR;
    }

    service->leader->max_lag = size;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_leader_conf_replication(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice)
{
    service->leader->replication_state = *value;

    return (value->len != 0) ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_etcd_leader_conf_confirm(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice)
{
    service->leader->confirm = choice;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_leader_conf_failsafe(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice)
{
    service->rules.failsafe = choice;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_leader_conf_parameter(ngx_conf_t *cf, ngx_etcd_service_conf_t *service,
    ngx_str_t *value, ngx_int_t choice)
{
    char  *err;

    return ngx_etcd_parameter(&service->member, value, cf->pool, &err);
}


static ngx_int_t
ngx_etcd_leader_conf_url(ngx_conf_t *cf, ngx_etcd_service_conf_t *service,
    ngx_str_t *value, ngx_int_t choice)
{
    service->leader->proxy = choice;

    if (choice) {
        service->member.format = &ngx_etcd_patroni_proxy_format;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_leader_conf_member(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value, ngx_int_t choice)
{
    char    *err;
    u_char  *p;

    p = (u_char *) ngx_strchr(value->data, '=');

    return (p[1] == '/')
           ? ngx_etcd_parameter(&service->member, value, cf->pool, &err)
           : ngx_etcd_attribute_parameter(value, &service->member.defaults);
}
