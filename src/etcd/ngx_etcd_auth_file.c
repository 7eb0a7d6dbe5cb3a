
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_auth_file.h>
#include <ngx_etcd_password.h>


void
ngx_etcd_auth_file_read(ngx_etcd_auth_file_t *file,
    ngx_etcd_cluster_conf_t *conf, ngx_log_t *log)
{
    char        *fault, *name;
    ngx_err_t    err;
    ngx_str_t   *password;
    ngx_uint_t   level;

    name = ngx_etcd_cluster_password_name(conf);

    password = &file->password;
    fault = conf->token
            ? ngx_etcd_token_read(conf->password_file.data, password, &err)
            : ngx_etcd_password_read(conf->password_file.data, password, &err);

    if (fault == NULL) {
        file->readable = 1;
        file->unreadable = 0;
    }

    if (fault != NULL && err == NGX_EACCES) {

        /*
         * A file that only the master may read is not a fault, but one that
         * workers could read before is.
         */

        if (!file->unreadable) {
            level = file->readable ? NGX_LOG_ERR : NGX_LOG_INFO;

            ngx_log_error(level, log, err,
                          "etcd cluster \"%V\": \"%s\" \"%V\" is not readable "
                          "for workers (uid %d), a change of it needs a "
                          "reload", &conf->name, name, &conf->password_file,
                          (int) geteuid());
        }

        file->unreadable = 1;
        return;
    }

    if (fault != NULL && fault != file->fault) {
        ngx_log_error(NGX_LOG_ERR, log, err,
                      "etcd cluster \"%V\": \"%s\" \"%V\" %s, what was read "
                      "before is used", &conf->name, name,
                      &conf->password_file, fault);
    }

    file->fault = fault;
}


ngx_uint_t
ngx_etcd_auth_file_changed(ngx_etcd_auth_file_t *file,
    ngx_etcd_cluster_conf_t *conf)
{
    ngx_file_info_t  fi;

    if (file->looked == ngx_time()) {
        return 0;
    }

    file->looked = ngx_time();

    if (ngx_file_info(conf->password_file.data, &fi) == NGX_FILE_ERROR
        || (ngx_file_mtime(&fi) == file->mtime
            && ngx_file_uniq(&fi) == file->uniq
            && ngx_file_size(&fi) == file->size))
    {
        return 0;
    }

    file->mtime = ngx_file_mtime(&fi);
    file->uniq = ngx_file_uniq(&fi);
    file->size = ngx_file_size(&fi);

    return 1;
}
