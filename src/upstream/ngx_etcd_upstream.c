
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_upstream.h>
#include <ngx_etcd_check_directive.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_leader_conf.h>
#include <ngx_etcd_leader_keys.h>
#include <ngx_etcd_option.h>
#include <ngx_etcd_source.h>


ngx_str_t  ngx_etcd_upstream_placeholder_name = ngx_string("etcd_members");


static ngx_etcd_service_conf_t *
ngx_etcd_upstream_fixed(ngx_conf_t *cf, ngx_etcd_conf_t *conf, ngx_str_t *name)
{
    ngx_etcd_service_conf_t  *service;

    service = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_service_conf_t));
    if (service == NULL) {
        return NULL;
    }

    service->name = *name;
    service->line.upstream = *name;

    service->table = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_table_t));
    if (service->table == NULL) {
        return NULL;
    }

    return (ngx_etcd_conf_push(&conf->services, service) == NGX_OK) ? service
                                                                    : NULL;
}


static ngx_etcd_catalog_conf_t *
ngx_etcd_upstream_catalog(ngx_conf_t *cf, ngx_etcd_conf_t *conf,
    ngx_str_t *name)
{
    ngx_etcd_catalog_conf_t  *catalog;

    catalog = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_catalog_conf_t));
    if (catalog == NULL) {
        return NULL;
    }

    catalog->service.name = *name;
    catalog->service.line.upstream = *name;
    catalog->service.catalog = 1;
    catalog->limit = NGX_ETCD_CATALOG_LIMIT;
    catalog->idle = NGX_ETCD_CATALOG_IDLE;

    return (ngx_etcd_conf_push(&conf->catalogs, catalog) == NGX_OK) ? catalog
                                                                    : NULL;
}


/* Whether a namespace precedes the prefix is known later. */

static ngx_int_t
ngx_etcd_upstream_pattern(ngx_conf_t *cf, ngx_etcd_catalog_conf_t *catalog,
    ngx_str_t *text)
{
    char       *err;
    ngx_int_t   rc;

    rc = ngx_etcd_pattern_parse(&catalog->pattern, text, 1, cf->pool, &err);

    if (rc == NGX_DECLINED) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid prefix \"%V\": %s",
                           text, err);
    }

    return rc;
}


/* A prefix with variables makes a catalog. */

static ngx_etcd_service_conf_t *
ngx_etcd_upstream_service(ngx_conf_t *cf, ngx_etcd_conf_t *conf,
    ngx_str_t *name)
{
    ngx_str_t                *value;
    ngx_etcd_catalog_conf_t  *catalog;

    value = cf->args->elts;

    if (!ngx_etcd_pattern_has_variable(&value[1])) {
        return ngx_etcd_upstream_fixed(cf, conf, name);
    }

    catalog = ngx_etcd_upstream_catalog(cf, conf, name);

    return (catalog != NULL
            && ngx_etcd_upstream_pattern(cf, catalog, &value[1]) == NGX_OK)
           ? &catalog->service : NULL;
}


static void
ngx_etcd_upstream_place(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    upstream->directive = value[0];
    upstream->file = cf->conf_file->file.name.data;
    upstream->line = cf->conf_file->line;
}


/*
 * Remembers a block with a directive of this module, to be checked when the
 * configuration is complete.
 */

static char *
ngx_etcd_upstream_add(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream)
{
    ngx_etcd_main_conf_t  *emcf;

    if (upstream->file != NULL) {
        return NGX_CONF_OK;
    }

    ngx_etcd_upstream_place(cf, upstream);

    emcf = ngx_etcd_conf_main(cf->cycle);

    return (ngx_etcd_conf_push(&emcf->upstreams, upstream) == NGX_OK)
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/* The keys of a leader may be below another prefix than the configured one. */

static char *
ngx_etcd_upstream_leader(ngx_conf_t *cf, ngx_etcd_service_conf_t *service)
{
    char                     *rv;
    ngx_str_t                 watched;
    ngx_etcd_catalog_conf_t  *catalog;

    rv = ngx_etcd_leader_conf(cf, service);
    catalog = ngx_etcd_catalog_of(service);

    if (rv != NGX_CONF_OK || catalog == NULL) {
        return rv;
    }

    watched = service->leader->watched;

    if (ngx_etcd_leader_keys_cut(service->leader) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" and \"members=%V\" must be below a common "
                           "directory that has all variables",
                           &service->prefix, &service->leader->members);
        return NGX_CONF_ERROR;
    }

    return (ngx_etcd_upstream_pattern(cf, catalog, &watched) == NGX_OK)
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/* Keeps a service that was read, the first one or a further one. */

static char *
ngx_etcd_upstream_keep(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream,
    ngx_etcd_conf_t *cluster, ngx_etcd_service_conf_t *service)
{
    char  *why;

    why = ngx_etcd_lines_refuse(upstream->service, service);

    if (why != NULL) {
        return why;
    }

    if (upstream->service != NULL) {
        return (ngx_etcd_lines_add(cf, upstream->service, service) == NGX_OK)
               ? NGX_CONF_OK : NGX_CONF_ERROR;
    }

    upstream->cluster = cluster;
    upstream->service = service;

    ngx_etcd_upstream_place(cf, upstream);

    return NGX_CONF_OK;
}


char *
ngx_etcd_upstream_members(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream,
    ngx_str_t *name, ngx_uint_t stream, ngx_etcd_pattern_index_pt find)
{
    char                     *rv;
    ngx_str_t                *value;
    ngx_uint_t                leader;
    ngx_etcd_conf_t          *cluster;
    ngx_etcd_catalog_conf_t  *catalog;
    ngx_etcd_service_conf_t  *service;

    value = cf->args->elts;
    leader = (ngx_strcmp(value[0].data, "etcd_leader") == 0);

    if (upstream->service != NULL
        && (leader || upstream->service->leader != NULL))
    {
        return !leader ? "cannot be used together with \"etcd_leader\""
               : upstream->service->leader
                 ? "is duplicate: an upstream has one leader"
                 : "cannot be used together with \"etcd_members\"";
    }

    if (value[1].len == 0) {
        return "has an empty prefix";
    }

    cluster = ngx_etcd_option_cluster(cf, 2);
    if (cluster == NULL) {
        return NGX_CONF_ERROR;
    }

    service = ngx_etcd_upstream_service(cf, cluster, name);

    if (service == NULL
        || ngx_etcd_upstream_add(cf, upstream) != NGX_CONF_OK
        || (service->outcome = ngx_pcalloc(cf->pool,
                                           sizeof(ngx_etcd_outcome_t)))
           == NULL
        || ngx_array_init(&service->statics, cf->pool, 1,
                          sizeof(ngx_etcd_member_t))
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    service->prefix = value[1];
    service->zone = &cluster->zone;
    service->stream = stream;
    service->member.defaults.max_fails = 1;
    service->member.defaults.fail_timeout = 10;

    cluster->coordinates |= leader;

    rv = leader ? ngx_etcd_upstream_leader(cf, service)
                : ngx_etcd_members_conf(cf, service);

    if (rv == NGX_CONF_OK) {
        rv = ngx_etcd_upstream_keep(cf, upstream, cluster, service);
    }

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    catalog = ngx_etcd_catalog_of(service);

    return (catalog == NULL
            || ngx_etcd_pattern_values_find(cf, &catalog->pattern, find,
                                            catalog->variables)
               == NGX_OK)
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/* Reads the arguments of a method: a key, if needed, and a parameter. */

static ngx_int_t
ngx_etcd_upstream_method(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream)
{
    ngx_str_t   *value;
    ngx_uint_t   n;

    value = cf->args->elts;
    n = 2;

    if (upstream->method->needs & NGX_ETCD_NEEDS_KEY) {

        if (cf->args->nelts == n) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "balancing method \"%V\" needs a key",
                               &value[1]);
            return NGX_ERROR;
        }

        upstream->key = value[n++];
    }

    if (cf->args->nelts == n) {
        return NGX_OK;
    }

    upstream->method = ngx_etcd_balance_method(&value[1], &value[n]);

    if (upstream->method == NULL || cf->args->nelts > n + 1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid parameter \"%V\"",
                           &value[upstream->method ? n + 1 : n]);
        return NGX_ERROR;
    }

    return NGX_OK;
}


char *
ngx_etcd_upstream_balance(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char *p = conf;

    ngx_str_t            *value, none;
    ngx_etcd_upstream_t  *upstream;

    upstream = (ngx_etcd_upstream_t *) (p + cmd->offset);

    if (upstream->method != NULL) {
        return "is duplicate";
    }

    value = cf->args->elts;

    ngx_str_null(&none);

    upstream->method = ngx_etcd_balance_method(&value[1], &none);

    if (upstream->method == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown balancing method \"%V\", there are: "
                           NGX_ETCD_METHOD_NAMES, &value[1]);
        return NGX_CONF_ERROR;
    }

    return (ngx_etcd_upstream_method(cf, upstream) == NGX_OK)
           ? ngx_etcd_upstream_add(cf, upstream) : NGX_CONF_ERROR;
}


char *
ngx_etcd_upstream_allow(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char *p = conf;

    ngx_int_t             rc;
    ngx_str_t            *value;
    ngx_uint_t            i;
    ngx_cidr_t           *cidr;
    ngx_etcd_upstream_t  *upstream;

    upstream = (ngx_etcd_upstream_t *) (p + cmd->offset);

    if (upstream->allow != NULL) {
        return "is duplicate";
    }

    value = cf->args->elts;

    upstream->allow = ngx_array_create(cf->pool, cf->args->nelts - 1,
                                       sizeof(ngx_cidr_t));

    if (upstream->allow == NULL
        || ngx_etcd_upstream_add(cf, upstream) != NGX_CONF_OK)
    {
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


char *
ngx_etcd_upstream_prefer(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char *p = conf;

    char                 *rv;
    ngx_etcd_upstream_t  *upstream;

    upstream = (ngx_etcd_upstream_t *) (p + cmd->offset);

    if (upstream->prefer.spill != 0) {
        return "is duplicate";
    }

    rv = ngx_etcd_prefer(cf, &upstream->prefer);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    return ngx_etcd_upstream_add(cf, upstream);
}


char *
ngx_etcd_upstream_guard(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char *p = conf;

    char                 *rv;
    ngx_etcd_upstream_t  *upstream;

    upstream = (ngx_etcd_upstream_t *) (p + cmd->offset);

    if (upstream->guarded) {
        return "is duplicate";
    }

    rv = ngx_etcd_members_conf_guard(cf, &upstream->guard);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    upstream->guarded = 1;

    return ngx_etcd_upstream_add(cf, upstream);
}


char *
ngx_etcd_upstream_eject(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char *p = conf;

    ngx_etcd_upstream_t  *upstream;

    upstream = (ngx_etcd_upstream_t *) (p + cmd->offset);

    if (upstream->eject != NULL) {
        return "is duplicate";
    }

    upstream->eject = ngx_etcd_eject_conf(cf, cmd->post != NULL);

    return (upstream->eject != NULL) ? ngx_etcd_upstream_add(cf, upstream)
                                    : NGX_CONF_ERROR;
}


char *
ngx_etcd_upstream_checks(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream,
    ngx_str_t *name)
{
    if (upstream->check != NULL) {
        return "is duplicate";
    }

    upstream->check = ngx_etcd_check_directive(cf, name);

    return (upstream->check != NULL) ? ngx_etcd_upstream_add(cf, upstream)
                                    : NGX_CONF_ERROR;
}


ngx_addr_t *
ngx_etcd_upstream_placeholder(ngx_conf_t *cf)
{
    ngx_addr_t  *addr;

    addr = ngx_palloc(cf->pool, sizeof(ngx_addr_t));

    if (addr == NULL
        || ngx_parse_addr(cf->pool, addr, (u_char *) "0.0.0.0", 7) != NGX_OK)
    {
        return NULL;
    }

    addr->name = ngx_etcd_upstream_placeholder_name;

    return addr;
}


static ngx_int_t
ngx_etcd_upstream_address(ngx_etcd_upstream_t *upstream, ngx_addr_t *addr,
    ngx_etcd_upstream_server_t *server)
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

    member->attr = server->attr;

    if (server->route != NULL) {
        member->route.len = ngx_min(server->route->len,
                                    NGX_ETCD_MEMBER_MAX_ROUTE);
        ngx_memcpy(member->route.data, server->route->data, member->route.len);
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_upstream_server(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream,
    ngx_etcd_upstream_server_t *server)
{
    ngx_str_t  *name;
    ngx_uint_t  i;

    if (upstream->service->leader != NULL) {
        name = server->name;

        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"etcd_leader\" in %s:%ui cannot be used together with "
                      "server \"%V\" in upstream \"%V\"",
                      upstream->file, upstream->line, name,
                      &upstream->service->name);
        return NGX_ERROR;
    }

    for (i = 0; i < server->naddrs; i++) {
        if (ngx_etcd_upstream_address(upstream, &server->addrs[i], server)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


void
ngx_etcd_upstream_refuse_name(ngx_conf_t *cf, ngx_etcd_upstream_t *upstream,
    ngx_str_t *name)
{
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "\"%V\" in %s:%ui does not support \"resolve\" of server "
                  "\"%V\" in upstream \"%V\"", &upstream->directive,
                  upstream->file, upstream->line, name,
                  &upstream->service->name);
}


static void
ngx_etcd_upstream_complete(ngx_etcd_upstream_t *upstream,
    ngx_etcd_service_conf_t *service)
{
    uint32_t                  hash;
    ngx_str_t                *format;
    ngx_etcd_member_conf_t   *member;

    service->rules.method = upstream->method;

    if (upstream->guarded) {
        service->guard = upstream->guard;

    } else if (service->leader == NULL) {
        service->guard.window = NGX_ETCD_GUARD_WINDOW;
        service->guard.hold = NGX_ETCD_GUARD_HOLD;
    }

    if (upstream->eject != NULL) {
        ngx_etcd_eject_conf_use(upstream->eject, service);
    }

    if (upstream->check != NULL) {
        ngx_etcd_check_attend(service, upstream->check);
    }

    member = &service->member;

    member->allow = upstream->allow;
    member->allow_unix = upstream->allow_unix;

    /*
     * The hash of the parameters: if it is unchanged after a reload, values
     * need not be decoded again.
     */

    format = ngx_etcd_format_name(member->format);

    ngx_crc32_init(hash);
    ngx_crc32_update(&hash, format->data, format->len);
    ngx_crc32_update(&hash, (u_char *) &member->defaults,
                     sizeof(ngx_etcd_member_attr_t));
    ngx_crc32_update(&hash, (u_char *) &member->hash, sizeof(uint32_t));
    ngx_crc32_update(&hash, (u_char *) &member->allow_unix,
                     sizeof(ngx_uint_t));

    if (member->allow != NULL) {
        ngx_crc32_update(&hash, (u_char *) "allow", 5);
        ngx_crc32_update(&hash, member->allow->elts,
                         member->allow->nelts * sizeof(ngx_cidr_t));
    }

    ngx_etcd_prefer_use(&upstream->prefer, service, &hash);

    ngx_crc32_final(hash);

    service->params = hash;
}


void
ngx_etcd_upstream_done(ngx_etcd_upstream_t *upstream)
{
    ngx_etcd_service_conf_t  *service;

    if (upstream->method == NULL) {
        upstream->method = ngx_etcd_balance_default;
    }

    for (service = upstream->service;
         service != NULL;
         service = service->line.next)
    {
        ngx_etcd_upstream_complete(upstream, service);
    }

    ngx_etcd_lines_link(upstream->service);

    upstream->initialized = 1;
}


/* All keys of etcd must not be watched by mistake. */

static ngx_int_t
ngx_etcd_upstream_rooted(ngx_etcd_upstream_t *upstream, ngx_log_t *log)
{
    ngx_str_t                *literal;
    ngx_etcd_catalog_conf_t  *catalog;

    catalog = ngx_etcd_catalog_of(upstream->service);

    if (catalog == NULL || upstream->cluster->client.key_namespace.len != 0) {
        return NGX_OK;
    }

    literal = &catalog->pattern.literal;

    if (literal->len != 0 && !(literal->len == 1 && literal->data[0] == '/')) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, log, 0,
                  "\"%V\" in %s:%ui: prefix \"%V\" needs a literal part "
                  "before its first variable, or a \"namespace\" in \"etcd\"",
                  &upstream->directive, upstream->file, upstream->line,
                  &catalog->pattern.text);

    return NGX_ERROR;
}


ngx_int_t
ngx_etcd_upstream_check(ngx_etcd_main_conf_t *emcf, ngx_log_t *log)
{
    char                 *why;
    ngx_uint_t            i;
    ngx_etcd_upstream_t  *upstream, **upstreams;

    upstreams = emcf->upstreams.elts;

    for (i = 0; i < emcf->upstreams.nelts; i++) {
        upstream = upstreams[i];

        if (upstream->service == NULL) {
            ngx_log_error(NGX_LOG_EMERG, log, 0,
                          "\"%V\" in %s:%ui is without \"etcd_members\" or "
                          "\"etcd_leader\" in its upstream",
                          &upstream->directive,
                          upstream->file, upstream->line);
            return NGX_ERROR;
        }

        if (upstream->check != NULL && upstream->service->leader != NULL) {
            ngx_log_error(NGX_LOG_EMERG, log, 0,
                          "\"etcd_check\" cannot be used together with "
                          "\"etcd_leader\" in %s:%ui: etcd says who leads",
                          upstream->file, upstream->line);
            return NGX_ERROR;
        }

        if (ngx_etcd_upstream_rooted(upstream, log) != NGX_OK) {
            return NGX_ERROR;
        }

        if (upstream->eject != NULL && upstream->service->leader != NULL) {
            ngx_log_error(NGX_LOG_EMERG, log, 0,
                          "\"etcd_eject\" cannot be used together with "
                          "\"etcd_leader\" in %s:%ui: a leader is not "
                          "chosen by its errors",
                          upstream->file, upstream->line);
            return NGX_ERROR;
        }

        if (upstream->guarded && upstream->service->leader != NULL) {
            ngx_log_error(NGX_LOG_EMERG, log, 0,
                          "\"etcd_guard\" cannot be used together with "
                          "\"etcd_leader\" in %s:%ui: a former leader is not "
                          "used", upstream->file, upstream->line);
            return NGX_ERROR;
        }

        why = ngx_etcd_prefer_check(&upstream->prefer, upstream->service);

        if (why != NULL) {
            ngx_log_error(NGX_LOG_EMERG, log, 0,
                          "\"etcd_prefer\" cannot be used together with "
                          "\"%V\" in %s:%ui: %s", &upstream->directive,
                          upstream->file, upstream->line, why);
            return NGX_ERROR;
        }

        if (!upstream->initialized) {
            ngx_log_error(NGX_LOG_EMERG, log, 0,
                          "\"%V\" in %s:%ui is replaced by another "
                          "balancing method in upstream \"%V\": use "
                          "\"etcd_balance\"", &upstream->directive,
                          upstream->file, upstream->line,
                          &upstream->service->name);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}
