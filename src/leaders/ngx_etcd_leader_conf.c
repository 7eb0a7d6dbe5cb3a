
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_format_url.h>
#include <ngx_etcd_json.h>
#include <ngx_etcd_leader_conf.h>
#include <ngx_etcd_leader_keys.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_parameter.h>
#include <ngx_etcd_patroni.h>
#include <ngx_etcd_ssl_module.h>
#include <ngx_etcd_str.h>


ngx_int_t
ngx_etcd_leader_api_done(ngx_conf_t *cf, ngx_etcd_service_conf_t *service)
{
    ngx_etcd_ssl_t          *ssl;
    ngx_etcd_leader_conf_t  *leader;

    leader = service->leader;

    if (leader->api_verify == NGX_CONF_UNSET_UINT
        && leader->api_trusted.len == 0
        && leader->api_certificate.len == 0
        && leader->api_key.len == 0)
    {
        return NGX_OK;
    }

    ssl = ngx_etcd_ssl_module_create(cf);
    if (ssl == NULL) {
        return NGX_ERROR;
    }

    leader->api_ssl = ssl;

    ssl->verify = (leader->api_verify != 0);
    ssl->http1 = 1;

    if (ssl->verify && leader->api_trusted.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"etcd_leader\" has no "
                           "\"api_trusted_certificate=\" to verify APIs by");
        return NGX_ERROR;
    }

    if ((leader->api_certificate.len == 0) != (leader->api_key.len == 0)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"api_certificate=\" and "
                           "\"api_certificate_key=\" must be used together");
        return NGX_ERROR;
    }

    if (ngx_etcd_ssl_module_file(cf, &ssl->files[NGX_ETCD_SSL_TRUSTED],
                                 "api_trusted_certificate=",
                                 &leader->api_trusted)
        != NGX_OK
        || ngx_etcd_ssl_module_file(cf, &ssl->files[NGX_ETCD_SSL_CERTIFICATE],
                                    "api_certificate=",
                                    &leader->api_certificate)
           != NGX_OK
        || ngx_etcd_ssl_module_file(cf, &ssl->files[NGX_ETCD_SSL_KEY],
                                    "api_certificate_key=", &leader->api_key)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_etcd_ssl_module_load(cf, ssl);
}


#define NGX_ETCD_FOR_PATRONI  (1 << NGX_ETCD_LEADER_PATRONI)
#define NGX_ETCD_FOR_VALUES                                                   \
    ((1 << NGX_ETCD_LEADER_ELECTION)|(1 << NGX_ETCD_LEADER_KEY)               \
     |(1 << NGX_ETCD_LEADER_VITESS))

#define NGX_ETCD_IN_LEADER    offsetof(ngx_etcd_service_conf_t, leader)


static ngx_conf_enum_t  ngx_etcd_leader_formats[] = {
    { ngx_string("election"), NGX_ETCD_LEADER_ELECTION },
    { ngx_string("key"), NGX_ETCD_LEADER_KEY },
    { ngx_string("patroni"), NGX_ETCD_LEADER_PATRONI },
    { ngx_string("vitess"), NGX_ETCD_LEADER_VITESS },
    { ngx_null_string, 0 }
};

static ngx_conf_enum_t  ngx_etcd_leader_roles[] = {
    { ngx_string("leader"), NGX_ETCD_ROLE_LEADER },
    { ngx_string("replica"), NGX_ETCD_ROLE_REPLICA },
    { ngx_string("any"), NGX_ETCD_ROLE_ANY },
    { ngx_string("sync"), NGX_ETCD_ROLE_SYNC },
    { ngx_string("quorum"), NGX_ETCD_ROLE_QUORUM },
    { ngx_string("async"), NGX_ETCD_ROLE_ASYNC },
    { ngx_string("standby_leader"), NGX_ETCD_ROLE_STANDBY_LEADER },
    { ngx_null_string, 0 }
};

static ngx_conf_enum_t  ngx_etcd_leader_confirms[] = {
    { ngx_string("off"), 0 },
    { ngx_string("api"), 1 },
    { ngx_null_string, 0 }
};

static ngx_conf_enum_t  ngx_etcd_leader_urls[] = {
    { ngx_string("conn_url"), 0 },
    { ngx_string("proxy_url"), 1 },
    { ngx_null_string, 0 }
};

static ngx_conf_enum_t  ngx_etcd_leader_changes[] = {
    { ngx_string("keep"), 0 },
    { ngx_string("close"), 1 },
    { ngx_null_string, 0 }
};


static char *
ngx_etcd_leader_conf_max_stale(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    ngx_etcd_service_conf_t *service = conf;

    ngx_int_t  ms;

    if (ngx_etcd_str_is(value, "off")) {
        service->rules.max_stale = 0;
        return NGX_CONF_OK;
    }

    ms = ngx_parse_time(value, 0);

    service->rules.max_stale = ms;

    return (ms < NGX_ETCD_LEADER_MIN_STALE) ? "invalid value" : NGX_CONF_OK;
}


static char *
ngx_etcd_leader_conf_name(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    ngx_etcd_service_conf_t *service = conf;

    service->leader->name = *value;

    return (value->len != 0 && ngx_etcd_json_pointer_check(value) == NULL)
           ? NGX_CONF_OK : "invalid value";
}


static ngx_etcd_option_t  ngx_etcd_leader_options[] = {

    NGX_ETCD_MEMBERS_OPTIONS,

    { .name = ngx_string("format="), .type = NGX_ETCD_OPTION_READ },

    { .name = ngx_string("on_change="), .type = NGX_ETCD_OPTION_ENUM,
      .offset = offsetof(ngx_etcd_service_conf_t, rules.close),
      .names = ngx_etcd_leader_changes },

    { .name = ngx_string("max_stale="),
      .set = ngx_etcd_leader_conf_max_stale },

    { .name = ngx_string("value_format="), .type = NGX_ETCD_OPTION_READ,
      .contexts = NGX_ETCD_FOR_VALUES },

    { .name = ngx_string("members="), .type = NGX_ETCD_OPTION_STRING,
      .conf = NGX_ETCD_IN_LEADER,
      .offset = offsetof(ngx_etcd_leader_conf_t, members), .min = 1,
      .contexts = NGX_ETCD_FOR_VALUES },

    { .name = ngx_string("name="), .contexts = NGX_ETCD_FOR_VALUES,
      .set = ngx_etcd_leader_conf_name },

    { .name = ngx_string("role="), .type = NGX_ETCD_OPTION_ENUM,
      .conf = NGX_ETCD_IN_LEADER,
      .offset = offsetof(ngx_etcd_leader_conf_t, role),
      .contexts = NGX_ETCD_FOR_PATRONI, .names = ngx_etcd_leader_roles },

    { .name = ngx_string("max_lag="), .type = NGX_ETCD_OPTION_SIZE,
      .conf = NGX_ETCD_IN_LEADER,
      .offset = offsetof(ngx_etcd_leader_conf_t, max_lag),
      .contexts = NGX_ETCD_FOR_PATRONI },

    { .name = ngx_string("replication_state="),
      .type = NGX_ETCD_OPTION_STRING, .conf = NGX_ETCD_IN_LEADER,
      .offset = offsetof(ngx_etcd_leader_conf_t, replication_state), .min = 1,
      .contexts = NGX_ETCD_FOR_PATRONI },

    { .name = ngx_string("confirm="), .type = NGX_ETCD_OPTION_ENUM,
      .conf = NGX_ETCD_IN_LEADER,
      .offset = offsetof(ngx_etcd_leader_conf_t, confirm),
      .contexts = NGX_ETCD_FOR_PATRONI, .names = ngx_etcd_leader_confirms },

    { .name = ngx_string("failsafe="), .type = NGX_ETCD_OPTION_ENUM,
      .offset = offsetof(ngx_etcd_service_conf_t, rules.failsafe),
      .contexts = NGX_ETCD_FOR_PATRONI, .names = ngx_etcd_option_switch },

    { .name = ngx_string("tag="), .repeat = 1,
      .contexts = NGX_ETCD_FOR_PATRONI, .set = ngx_etcd_members_conf_value },

    { .name = ngx_string("url="), .type = NGX_ETCD_OPTION_ENUM, .pointer = 1,
      .conf = NGX_ETCD_IN_LEADER,
      .offset = offsetof(ngx_etcd_leader_conf_t, proxy),
      .contexts = NGX_ETCD_FOR_PATRONI, .names = ngx_etcd_leader_urls },

    { .name = ngx_string("api_trusted_certificate="),
      .type = NGX_ETCD_OPTION_STRING, .conf = NGX_ETCD_IN_LEADER,
      .offset = offsetof(ngx_etcd_leader_conf_t, api_trusted), .min = 1,
      .contexts = NGX_ETCD_FOR_PATRONI },

    { .name = ngx_string("api_certificate="),
      .type = NGX_ETCD_OPTION_STRING, .conf = NGX_ETCD_IN_LEADER,
      .offset = offsetof(ngx_etcd_leader_conf_t, api_certificate), .min = 1,
      .contexts = NGX_ETCD_FOR_PATRONI },

    { .name = ngx_string("api_certificate_key="),
      .type = NGX_ETCD_OPTION_STRING, .conf = NGX_ETCD_IN_LEADER,
      .offset = offsetof(ngx_etcd_leader_conf_t, api_key), .min = 1,
      .contexts = NGX_ETCD_FOR_PATRONI },

    { .name = ngx_string("api_verify="), .type = NGX_ETCD_OPTION_ENUM,
      .conf = NGX_ETCD_IN_LEADER,
      .offset = offsetof(ngx_etcd_leader_conf_t, api_verify),
      .contexts = NGX_ETCD_FOR_PATRONI, .names = ngx_etcd_option_switch },

    /* a leader has no tags or schemes */

    { .name = ngx_null_string, .set = ngx_etcd_members_conf_pointer }
};


/* by ngx_etcd_leader_format_e */

static const ngx_etcd_leader_source_t  *ngx_etcd_leader_conf_sources[] = {
    &ngx_etcd_leader_election,
    &ngx_etcd_leader_key,
    &ngx_etcd_patroni_source,
    &ngx_etcd_leader_vitess,
};


static char *
ngx_etcd_leader_conf_allowed(ngx_etcd_option_t *option, void *conf)
{
    ngx_etcd_service_conf_t *service = conf;

    ngx_uint_t  formats;

    formats = option->contexts & (NGX_ETCD_FOR_VALUES|NGX_ETCD_FOR_PATRONI);

    if (formats != 0 && !(formats & (1 << service->leader->format))) {
        return "it is for another format";
    }

    return ngx_etcd_members_conf_allowed(option, conf);
}


/* Read first: the other parameters depend on the formats. */

static ngx_int_t
ngx_etcd_leader_conf_format(ngx_conf_t *cf, ngx_etcd_service_conf_t *service)
{
    ngx_int_t  n;
    ngx_str_t  name;

    ngx_str_set(&name, "election");

    (void) ngx_etcd_option_text(cf, 2, "format=", &name);

    n = ngx_etcd_option_enum(ngx_etcd_leader_formats, &name);

    if (n == NGX_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown format \"%V\" of a leader, there are: "
                           "election, key, patroni, vitess", &name);
        return NGX_ERROR;
    }

    service->leader->format = n;

    if (n == NGX_ETCD_LEADER_PATRONI) {
        service->member.format = &ngx_etcd_patroni_format;
        return NGX_OK;
    }

    return ngx_etcd_members_conf_format(cf, service, "value_format=");
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
                     sizeof(leader->role));
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
    ngx_etcd_leader_conf_t  *leader;

    leader = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_leader_conf_t));
    if (leader == NULL) {
        return NGX_CONF_ERROR;
    }

    leader->max_lag = NGX_ETCD_LEADER_ANY_LAG;
    leader->api_verify = NGX_CONF_UNSET_UINT;

    service->leader = leader;
    service->rules.leader = 1;
    service->rules.max_stale = NGX_ETCD_LEADER_MAX_STALE;
    service->member.defaults.max_fails = (uint32_t) NGX_CONF_UNSET_UINT;

    if (ngx_etcd_leader_conf_format(cf, service) != NGX_OK
        || ngx_etcd_option_read(cf, 2, ngx_etcd_leader_options,
                                ngx_etcd_leader_conf_allowed, service)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (leader->proxy) {
        service->member.format = &ngx_etcd_patroni_proxy_format;
    }

    service->source = &ngx_etcd_leader_conf_sources[leader->format]->source;
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
