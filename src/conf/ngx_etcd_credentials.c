
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_credentials.h>
#include <ngx_etcd_password.h>
#include <ngx_etcd_secret.h>


char *
ngx_etcd_credentials_user(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_etcd_conf_t *ecf = conf;

    ngx_str_t  *value;

    if (ecf->client.user.len != 0) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "is empty";
    }

    ecf->client.user = value[1];

    return NGX_CONF_OK;
}


char *
ngx_etcd_credentials_file(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_etcd_conf_t *ecf = conf;

    char       *fault;
    ngx_err_t   err;
    ngx_str_t  *value, *file, *password;

    file = &ecf->client.password_file;
    password = &ecf->client.password;

    if (file->len != 0) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "is empty";
    }

    *file = value[1];

    if (ngx_conf_full_name(cf->cycle, file, 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    password->data = ngx_etcd_secret_palloc(cf->pool,
                                            NGX_ETCD_PASSWORD_MAX + 1);
    if (password->data == NULL) {
        return NGX_CONF_ERROR;
    }

    fault = ngx_etcd_password_read(file->data, password, &err);

    if (fault != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, err,
                           "\"password_file\" \"%V\" %s", file, fault);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


ngx_int_t
ngx_etcd_credentials_done(ngx_conf_t *cf, ngx_etcd_conf_t *ecf)
{
    char                     *has, *lacks;
    ngx_etcd_cluster_conf_t  *client;

    client = &ecf->client;

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
