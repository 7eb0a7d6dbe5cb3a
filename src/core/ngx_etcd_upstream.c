
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_upstream.h>


static char *ngx_etcd_upstream_parameter(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *value);
static char *ngx_etcd_upstream_format(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, ngx_str_t *name);


char *
ngx_etcd_upstream_members(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream,
    ngx_str_t *name, ngx_uint_t stream)
{
    char                     *rv;
    ngx_str_t                *value, cluster;
    ngx_uint_t                i;
    ngx_etcd_service_conf_t  *service;

    if (upstream->service != NULL) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "has an empty prefix";
    }

    ngx_str_null(&cluster);

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_strncmp(value[i].data, "cluster=", 8) != 0) {
            continue;
        }

        if (value[i].len == 8) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"", &value[i]);
            return NGX_CONF_ERROR;
        }

        if (cluster.len != 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate parameter \"%V\"", &value[i]);
            return NGX_CONF_ERROR;
        }

        cluster.data = value[i].data + 8;
        cluster.len = value[i].len - 8;
    }

    upstream->cluster = ngx_etcd_conf_get(cf, &cluster);
    if (upstream->cluster == NULL) {
        return NGX_CONF_ERROR;
    }

    service = ngx_etcd_conf_add_service(cf, upstream->cluster, name);

    if (service == NULL
        || ngx_array_init(&service->statics, cf->pool, 1,
                          sizeof(ngx_etcd_member_t))
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    service->prefix = value[1];
    service->stream = stream;
    service->member.defaults.weight = 1;
    service->member.defaults.max_fails = 1;
    service->member.defaults.fail_timeout = 10;

    upstream->service = service;
    upstream->file = cf->conf_file->file.name.data;
    upstream->line = cf->conf_file->line;

    rv = ngx_etcd_upstream_format(cf, service, NULL);

    for (i = 2; i < cf->args->nelts && rv == NGX_CONF_OK; i++) {
        rv = ngx_etcd_upstream_parameter(cf, service, &value[i]);
    }

    return rv;
}


static char *
ngx_etcd_upstream_parameter(ngx_conf_t *cf, ngx_etcd_service_conf_t *service,
    ngx_str_t *value)
{
    ngx_int_t  rc;
    ngx_str_t  name;

    if (ngx_strncmp(value->data, "cluster=", 8) == 0) {
        return NGX_CONF_OK;
    }

    if (ngx_strncmp(value->data, "format=", 7) == 0) {
        name.data = value->data + 7;
        name.len = value->len - 7;

        return ngx_etcd_upstream_format(cf, service, &name);
    }

    if (ngx_strcmp(value->data, "on_empty=drop") == 0) {
        service->keep = 0;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(value->data, "on_empty=keep") == 0) {
        service->keep = 1;
        return NGX_CONF_OK;
    }

    rc = NGX_DECLINED;

    if (ngx_strncmp(value->data, "slow_start=", 11) != 0) {
        rc = ngx_etcd_member_parameter(value, &service->member.defaults);
    }

    if (rc == NGX_OK) {
        return NGX_CONF_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid parameter \"%V\"%s",
                       value, rc == NGX_DECLINED ? "" : ": invalid value");

    return NGX_CONF_ERROR;
}


/* a name of NULL: the default */

static char *
ngx_etcd_upstream_format(ngx_conf_t *cf, ngx_etcd_service_conf_t *service,
    ngx_str_t *name)
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


char *
ngx_etcd_upstream_balance(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream)
{
    ngx_str_t  *value;

    if (upstream->method != NULL) {
        return "is duplicate";
    }

    value = cf->args->elts;

    upstream->method = ngx_etcd_method_find(&value[1]);

    if (upstream->method == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown balancing method \"%V\", there are: "
                           NGX_ETCD_METHOD_NAMES, &value[1]);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_etcd_upstream_allow(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream)
{
    ngx_int_t    rc;
    ngx_str_t   *value;
    ngx_uint_t   i;
    ngx_cidr_t  *cidr;

    if (upstream->allow != NULL) {
        return "is duplicate";
    }

    value = cf->args->elts;

    upstream->allow = ngx_array_create(cf->pool, cf->args->nelts - 1,
                                       sizeof(ngx_cidr_t));
    if (upstream->allow == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_strcmp(value[i].data, "unix:") == 0) {
            upstream->allow_unix = 1;
            continue;
        }

        cidr = ngx_array_push(upstream->allow);
        if (cidr == NULL) {
            return NGX_CONF_ERROR;
        }

        ngx_memzero(cidr, sizeof(ngx_cidr_t));

        rc = ngx_ptocidr(&value[i], cidr);

        if (rc == NGX_ERROR) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid network \"%V\"", &value[i]);
            return NGX_CONF_ERROR;
        }

        if (rc == NGX_DONE) {
            ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                               "low address bits of %V are meaningless",
                               &value[i]);
        }
    }

    return NGX_CONF_OK;
}


ngx_int_t
ngx_etcd_upstream_server(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream,
    ngx_addr_t *addr, ngx_etcd_member_attr_t *attr)
{
    ngx_etcd_member_t  *member;

    if (addr->name.len > NGX_ETCD_MEMBER_NAME_LEN
        || addr->socklen > (socklen_t) sizeof(ngx_sockaddr_t))
    {
        return NGX_ERROR;
    }

    member = ngx_array_push(&upstream->service->statics);
    if (member == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(member, sizeof(ngx_etcd_member_t));

    ngx_memcpy(&member->sockaddr, addr->sockaddr, addr->socklen);
    member->socklen = addr->socklen;

    ngx_memcpy(member->name, addr->name.data, addr->name.len);
    member->name_len = addr->name.len;

    member->attr = *attr;

    return NGX_OK;
}


void
ngx_etcd_upstream_done(ngx_etcd_upstream_t *upstream)
{
    uint32_t                  hash;
    ngx_str_t                *format;
    ngx_etcd_member_conf_t   *member;

    if (upstream->method == NULL) {
        upstream->method = ngx_etcd_method_default;
    }

    member = &upstream->service->member;

    member->allow = upstream->allow;
    member->allow_unix = upstream->allow_unix;

    /* equal hashes: a reload need not read the values again */

    format = ngx_etcd_format_name(member->format);

    ngx_crc32_init(hash);
    ngx_crc32_update(&hash, format->data, format->len);
    ngx_crc32_update(&hash, (u_char *) &member->defaults,
                     sizeof(ngx_etcd_member_attr_t));
    ngx_crc32_update(&hash, (u_char *) &member->allow_unix,
                     sizeof(ngx_uint_t));

    if (member->allow != NULL) {
        ngx_crc32_update(&hash, (u_char *) "allow", 5);
        ngx_crc32_update(&hash, member->allow->elts,
                         member->allow->nelts * sizeof(ngx_cidr_t));
    }

    ngx_crc32_final(hash);

    upstream->service->params = hash;
}
