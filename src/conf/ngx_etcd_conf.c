
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_learn.h>
#include <ngx_etcd_maintenance.h>
#include <ngx_etcd_secret.h>
#include <ngx_etcd_str.h>


static ngx_etcd_conf_t *
ngx_etcd_conf_find(ngx_etcd_main_conf_t *emcf, ngx_str_t *name)
{
    ngx_uint_t         i;
    ngx_etcd_conf_t  **ecf;

    ecf = emcf->clusters.elts;

    for (i = 0; i < emcf->clusters.nelts; i++) {
        if (ngx_etcd_str_equal(&ecf[i]->name, name)) {
            return ecf[i];
        }
    }

    return NULL;
}


ngx_etcd_conf_t *
ngx_etcd_conf_former(ngx_etcd_conf_t *ecf)
{
    ngx_etcd_conf_t       *former;
    ngx_etcd_main_conf_t  *emcf;

    if (ngx_cycle->conf_ctx == NULL) {
        return NULL;
    }

    emcf = ngx_etcd_conf_main(ngx_cycle);
    if (emcf == NULL) {
        return NULL;
    }

    former = ngx_etcd_conf_find(emcf, &ecf->name);

    return (former != NULL && former->zone.sh != NULL) ? former : NULL;
}


ngx_etcd_conf_t *
ngx_etcd_conf_get(ngx_conf_t *cf, ngx_str_t *name)
{
    ngx_str_t              wanted;
    ngx_etcd_conf_t       *ecf;
    ngx_etcd_main_conf_t  *emcf;

    emcf = ngx_etcd_conf_main(cf->cycle);

    ngx_str_set(&wanted, "default");

    if (name->len != 0) {
        wanted = *name;
    }

    ecf = ngx_etcd_conf_find(emcf, &wanted);

    if (ecf != NULL) {
        return ecf;
    }

    ecf = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_conf_t));
    if (ecf == NULL) {
        return NULL;
    }

    ecf->name = wanted;
    ecf->zone_size = NGX_CONF_UNSET_SIZE;
    ecf->lock_ttl = NGX_CONF_UNSET;
    ecf->lock_waiters = NGX_CONF_UNSET_UINT;
    ecf->db_check = NGX_CONF_UNSET_MSEC;
    ecf->write_check = NGX_CONF_UNSET_PTR;
    ecf->file = cf->conf_file->file.name.data;
    ecf->line = cf->conf_file->line;

    ecf->client.resolver_timeout = NGX_CONF_UNSET_MSEC;
    ecf->client.rebalance = NGX_CONF_UNSET_MSEC;
    ecf->client.auto_sync = NGX_CONF_UNSET_MSEC;
    ecf->client.connect_timeout = NGX_CONF_UNSET_MSEC;
    ecf->client.request_timeout = NGX_CONF_UNSET_MSEC;
    ecf->client.ping_interval = NGX_CONF_UNSET_MSEC;
    ecf->client.ping_timeout = NGX_CONF_UNSET_MSEC;
    ecf->client.audit_interval = NGX_CONF_UNSET_MSEC;
    ecf->client.max_message_size = NGX_CONF_UNSET_SIZE;

    /* of pointers, to types of files that include this one */

    if (ngx_array_init(&ecf->services, cf->pool, 4,
                       sizeof(void *))
        != NGX_OK
        || ngx_array_init(&ecf->catalogs, cf->pool, 1,
                          sizeof(void *))
           != NGX_OK
        || ngx_array_init(&ecf->campaigns, cf->pool, 1,
                          sizeof(void *))
           != NGX_OK
        || ngx_array_init(&ecf->locks, cf->pool, 1,
                          sizeof(void *))
           != NGX_OK
        || ngx_array_init(&ecf->value_maps, cf->pool, 1,
                          sizeof(void *))
           != NGX_OK)
    {
        return NULL;
    }

    return (ngx_etcd_conf_push(&emcf->clusters, ecf) == NGX_OK) ? ecf : NULL;
}


ngx_int_t
ngx_etcd_conf_push(ngx_array_t *array, void *pointer)
{
    void  **p;

    p = ngx_array_push(array);
    if (p == NULL) {
        return NGX_ERROR;
    }

    *p = pointer;

    return NGX_OK;
}


char *
ngx_etcd_credentials_file(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_etcd_conf_t *ecf = conf;

    char        *fault;
    ngx_err_t    err;
    ngx_str_t   *value, *file, *password;
    ngx_uint_t   token;

    value = cf->args->elts;
    token = (value[0].data[0] == 't');

    file = &ecf->client.password_file;
    password = &ecf->client.password;

    if (file->len != 0) {
        return (token == ecf->client.token)
               ? "is duplicate"
               : token ? "cannot be used together with \"password_file\""
                       : "cannot be used together with \"token_file\"";
    }

    if (value[1].len == 0) {
        return "is empty";
    }

    *file = value[1];
    ecf->client.token = token;

    if (ngx_conf_full_name(cf->cycle, file, 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    password->data = ngx_etcd_secret_palloc(cf->pool, NGX_ETCD_TOKEN_MAX + 1);
    if (password->data == NULL) {
        return NGX_CONF_ERROR;
    }

    fault = token ? ngx_etcd_token_read(file->data, password, &err)
                  : ngx_etcd_password_read(file->data, password, &err);

    if (fault != NULL) {
        if (token) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, err,
                               "\"token_file\" \"%V\" %s", file, fault);
        } else {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, err,
                               "\"password_file\" \"%V\" %s", file, fault);
        }

        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* Only the owner may read the file, and the master has read it as root. */

void
ngx_etcd_credentials_check(ngx_etcd_conf_t *ecf, ngx_cycle_t *cycle)
{
    char             *name;
    ngx_str_t        *file, user;
    ngx_core_conf_t  *ccf;
    ngx_file_info_t   fi;

    name = ngx_etcd_cluster_password_name(&ecf->client);
    file = &ecf->client.password_file;
    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    if (file->len == 0
        || geteuid() != 0
        || !ccf->master
        || ccf->user == 0
        || ngx_file_info(file->data, &fi) == NGX_FILE_ERROR
        || fi.st_uid == ccf->user)
    {
        return;
    }

    user.data = (u_char *) ccf->username;
    user.len = ngx_strlen(user.data);

    ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                  "etcd cluster \"%V\": \"%s\" \"%V\" is not readable for "
                  "workers, whose user is \"%V\": a change of it needs a "
                  "reload", &ecf->name, name, ngx_etcd_shown(file),
                  ngx_etcd_shown(&user));
}


ngx_int_t
ngx_etcd_credentials_done(ngx_conf_t *cf, ngx_etcd_conf_t *ecf)
{
    char                     *has, *lacks;
    ngx_etcd_cluster_conf_t  *client;

    client = &ecf->client;

    if (client->token) {
        if (client->user.len == 0) {
            return NGX_OK;
        }

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "etcd cluster \"%V\" has \"user\" and "
                           "\"token_file\", whose token names the user",
                           &ecf->name);
        return NGX_ERROR;
    }

    if ((client->user.len == 0) == (client->password_file.len == 0)) {
        return NGX_OK;
    }

    has = client->user.len ? "user" : "password_file";
    lacks = client->user.len ? "password_file" : "user";

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "etcd cluster \"%V\" has \"%s\" and no \"%s\"",
                       &ecf->name, has, lacks);

    return NGX_ERROR;
}


/*
 * Returns 1 if the value is "srv:NAME".  A host may be called "srv", and a name
 * has more than digits: "srv:2379" is that host with its port.
 */

static ngx_uint_t
ngx_etcd_endpoint_srv(ngx_str_t *value, ngx_str_t *name)
{
    if (value->len < 4 || ngx_strncmp(value->data, "srv:", 4) != 0) {
        return 0;
    }

    name->data = value->data + 4;
    name->len = value->len - 4;

    return ngx_atoi(name->data, name->len) == NGX_ERROR;
}


static char *
ngx_etcd_endpoint_set_srv(ngx_etcd_conf_t *ecf, ngx_str_t *name)
{
    if (ecf->client.srv.len != 0) {
        return "there is another \"srv:\"";
    }

    if (name->len == 0) {
        return "no host";
    }

    if (name->len > NGX_ETCD_SRV_NAME) {
        return "it is too long";
    }

    if (!ngx_etcd_url_name(name)) {
        return "invalid host";
    }

    ecf->client.srv = *name;

    return NULL;
}


char *
ngx_etcd_endpoint_list(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_etcd_conf_t *ecf = conf;

    char                 *rv;
    ngx_str_t            *value, name;
    ngx_uint_t            i;
    ngx_array_t          *endpoints;
    ngx_etcd_endpoint_t  *endpoint;

    endpoints = &ecf->client.endpoints;

    if (endpoints->nelts != 0 || ecf->client.srv.len != 0) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts - 1 > NGX_ETCD_ZONE_MAX_ENDPOINTS) {
        return "has more than 16 URLs";
    }

    if (ngx_array_init(endpoints, cf->pool, cf->args->nelts - 1,
                       sizeof(ngx_etcd_endpoint_t))
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_etcd_endpoint_srv(&value[i], &name)) {
            rv = ngx_etcd_endpoint_set_srv(ecf, &name);

        } else {
            endpoint = ngx_array_push(endpoints);
            ngx_memzero(endpoint, sizeof(ngx_etcd_endpoint_t));

            endpoint->url = value[i];

            rv = ngx_etcd_endpoint_parse(cf->pool, endpoint);
        }

        if (rv != NULL) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid endpoint \"%V\": %s", &value[i], rv);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


char *
ngx_etcd_endpoint_resolver(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_etcd_conf_t *ecf = conf;

    ngx_str_t  *value;

    if (ecf->client.resolver != NULL) {
        return "is duplicate";
    }

    value = cf->args->elts;

    ecf->client.resolver = ngx_resolver_create(cf, &value[1],
                                               cf->args->nelts - 1);

    return (ecf->client.resolver != NULL) ? NGX_CONF_OK : NGX_CONF_ERROR;
}


ngx_int_t
ngx_etcd_endpoint_done(ngx_conf_t *cf, ngx_etcd_conf_t *ecf)
{
    char                     *err;
    ngx_uint_t                i;
    ngx_etcd_endpoint_t      *endpoint;
    ngx_etcd_cluster_conf_t  *client;

    client = &ecf->client;
    endpoint = client->endpoints.elts;

    if (client->srv.len != 0 && client->resolver == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "etcd cluster \"%V\" has \"srv:%V\" among its "
                           "\"endpoints\" and no \"resolver\"",
                           &ecf->name, &client->srv);
        return NGX_ERROR;
    }

    if (client->endpoints.nelts == 0 && client->srv.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "etcd cluster \"%V\" has no \"endpoints\"",
                           &ecf->name);
        return NGX_ERROR;
    }

    for (i = 0; i < client->endpoints.nelts; i++) {

        if (endpoint[i].addr.sockaddr != NULL || client->resolver != NULL) {
            continue;
        }

        err = ngx_etcd_endpoint_resolve(cf->pool, &endpoint[i]);

        if (err != NULL) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "%s: etcd cluster \"%V\" has the host name "
                               "\"%V\" among its \"endpoints\" and no "
                               "\"resolver\"",
                               err, &ecf->name, &endpoint[i].host);
            return NGX_ERROR;
        }
    }

    ngx_conf_init_msec_value(client->resolver_timeout, 5000);
    ngx_conf_init_msec_value(client->rebalance, 120000);
    ngx_conf_init_msec_value(client->auto_sync, 0);

    return NGX_OK;
}


static void
ngx_etcd_server_faults_warn(ngx_etcd_conf_t *conf, ngx_str_t *url,
    uint64_t version, char *fault, char *what, uint64_t mended)
{
    u_char  has[NGX_ETCD_SERVER_VERSION_LEN + 1];
    u_char  needs[NGX_ETCD_SERVER_VERSION_LEN + 1];

    *ngx_etcd_server_version_text(has, version) = '\0';
    *ngx_etcd_server_version_text(needs, mended) = '\0';

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "etcd cluster \"%V\": endpoint %V runs etcd %s, in which %s: "
                  "for %s upgrade it to %s or later",
                  &conf->name, ngx_etcd_shown(url), has, fault, what,
                  needs);
}


static void
ngx_etcd_server_faults_known(void *data, ngx_str_t *url, uint64_t version)
{
    ngx_etcd_conf_t *conf = data;

    char        *fault;
    uint64_t     mended;
    ngx_uint_t   secrets;

    /* there are private keys, or rights in etcd matter */

    secrets = (conf->secrets || ngx_etcd_cluster_authenticates(&conf->client));

    if (version == 0) {
        if ((conf->coordinates || secrets)
            && ngx_etcd_server_versions_first(&conf->zone,
                                              NGX_ETCD_SERVER_VERSIONS_UNTOLD))
        {
            ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                          "etcd cluster \"%V\": endpoint %V does not tell its "
                          "version, which is not checked",
                          &conf->name, ngx_etcd_shown(url));
        }

        return;
    }

    ngx_etcd_server_versions_set(&conf->zone, url, version);

    fault = ngx_etcd_server_version_fault(version, 0, &mended);

    if (fault != NULL
        && conf->coordinates
        && ngx_etcd_server_versions_first(&conf->zone,
                                          NGX_ETCD_SERVER_VERSIONS_FAULT))
    {
        ngx_etcd_server_faults_warn(conf, url, version, fault,
                                    "leaders, elections and locks", mended);
    }

    fault = ngx_etcd_server_version_fault(version, 1, &mended);

    if (fault != NULL
        && secrets
        && ngx_etcd_server_versions_first(&conf->zone,
                                          NGX_ETCD_SERVER_VERSIONS_ADVISORY))
    {
        ngx_etcd_server_faults_warn(conf, url, version, fault,
                                    "\"user\" and \"type=pem\"", mended);
    }
}


ngx_int_t
ngx_etcd_server_faults_ask(ngx_etcd_cluster_t *cluster, ngx_etcd_conf_t *conf)
{
    return ngx_etcd_server_version_ask(cluster, ngx_etcd_server_faults_known,
                                       conf);
}
