
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_default_file.h>
#include <ngx_etcd_pem.h>
#include <ngx_etcd_secret.h>
#include <ngx_etcd_value_conf.h>


/* Returns what is wrong with the file, or NULL. */

static char *
ngx_etcd_default_file_content(ngx_fd_t fd, ngx_uint_t max_bits,
    ngx_str_t *content, ngx_pool_t *pool)
{
    off_t            size;
    u_char          *scratch;
    ngx_file_info_t  fi;

    if (ngx_fd_info(fd, &fi) == NGX_FILE_ERROR || !ngx_is_file(&fi)) {
        return "it is not a regular file";
    }

    size = ngx_file_size(&fi);

    if (size > NGX_ETCD_VALUE_MAP_MAX_SIZE) {
        return "it is larger than 64k";
    }

    content->data = ngx_etcd_secret_palloc(pool, NGX_ETCD_PEM_ROOM(size));
    scratch = ngx_etcd_secret_palloc(pool, ngx_max(size, 1));

    if (content->data == NULL || scratch == NULL) {
        return "it cannot be read: no memory";
    }

    if (ngx_read_fd(fd, content->data, size) != size) {
        return "it cannot be read";
    }

    content->len = size;
    ngx_etcd_value_trim(content);

    return ngx_etcd_pem_blocks(content, max_bits, scratch);
}


ngx_int_t
ngx_etcd_default_file_read(ngx_conf_t *cf, ngx_str_t *name,
    ngx_uint_t max_bits, ngx_str_t *content)
{
    char       *err;
    ngx_fd_t    fd;
    ngx_str_t   path;

    if (name->len == 0) {
        return NGX_OK;
    }

    path = *name;

    if (ngx_conf_full_name(cf->cycle, &path, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    fd = ngx_open_file(path.data, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK,
                       NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "parameter \"default_file=%V\" cannot be opened: "
                           ngx_open_file_n " \"%V\" failed",
                           name, &path);
        return NGX_ERROR;
    }

    err = ngx_etcd_default_file_content(fd, max_bits, content, cf->pool);

    (void) ngx_close_file(fd);

    if (err == NULL) {
        return NGX_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "parameter \"default_file=%V\" is invalid: \"%V\": %s",
                       name, &path, err);

    return NGX_ERROR;
}
