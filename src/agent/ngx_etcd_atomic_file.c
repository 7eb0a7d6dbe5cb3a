
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_shared.h>
#include <ngx_etcd_atomic_file.h>


#define NGX_ETCD_ATOMIC_FILE_SUFFIX  ".tmp"


ngx_int_t
ngx_etcd_atomic_file_init(ngx_etcd_atomic_file_t *file, ngx_str_t *path,
    ngx_pool_t *pool)
{
    u_char  *p;
    size_t   len;

    ngx_memzero(file, sizeof(ngx_etcd_atomic_file_t));

    len = path->len + 1 + NGX_INT64_LEN + sizeof(NGX_ETCD_ATOMIC_FILE_SUFFIX);

    p = ngx_pnalloc(pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    /*
     * the name contains the pid: an agent that hung may still write to its
     * file
     */

    file->temp.data = p;
    file->temp.len = ngx_sprintf(p, "%V.%P" NGX_ETCD_ATOMIC_FILE_SUFFIX "%Z",
                                 path, ngx_pid)
                     - p - 1;

    file->path = *path;
    file->fd = NGX_INVALID_FILE;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_atomic_file_failed(ngx_etcd_atomic_file_t *file, char *what)
{
    file->err = ngx_errno;
    file->failed = what;

    return NGX_ERROR;
}


static ngx_int_t
ngx_etcd_atomic_file_open(ngx_etcd_atomic_file_t *file)
{
    char  *temp;

    temp = (char *) file->temp.data;

    /* left by a former process with the same pid */

    (void) unlink(temp);

    file->fd = open(temp, O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC, 0600);

    if (file->fd == NGX_INVALID_FILE) {
        return ngx_etcd_atomic_file_failed(file, ngx_open_file_n);
    }

    file->state = NGX_ETCD_ATOMIC_FILE_WRITING;

    return NGX_AGAIN;
}


ngx_int_t
ngx_etcd_atomic_file_write(ngx_etcd_atomic_file_t *file, u_char *data,
    size_t len)
{
    size_t   size;
    ssize_t  n;

    if (file->state == NGX_ETCD_ATOMIC_FILE_NEW) {
        return ngx_etcd_atomic_file_open(file);
    }

    if (file->sent < len) {
        size = ngx_min(len - file->sent, NGX_ETCD_ATOMIC_FILE_PIECE);
        n = write(file->fd, data + file->sent, size);

        if (n == -1) {
            if (ngx_errno == NGX_EINTR) {
                return NGX_AGAIN;
            }

            return ngx_etcd_atomic_file_failed(file, "write()");
        }

        file->sent += n;

        return NGX_AGAIN;
    }

    if (fsync(file->fd) == -1) {
        return ngx_etcd_atomic_file_failed(file, "fsync()");
    }

    if (ngx_close_file(file->fd) == NGX_FILE_ERROR) {
        file->fd = NGX_INVALID_FILE;
        return ngx_etcd_atomic_file_failed(file, ngx_close_file_n);
    }

    file->fd = NGX_INVALID_FILE;
    file->state = NGX_ETCD_ATOMIC_FILE_WRITTEN;

    return NGX_OK;
}


ngx_int_t
ngx_etcd_atomic_file_publish(ngx_etcd_atomic_file_t *file)
{
    if (ngx_rename_file(file->temp.data, file->path.data) == NGX_FILE_ERROR) {
        return ngx_etcd_atomic_file_failed(file, ngx_rename_file_n);
    }

    file->state = NGX_ETCD_ATOMIC_FILE_NEW;

    return NGX_OK;
}


void
ngx_etcd_atomic_file_abandon(ngx_etcd_atomic_file_t *file)
{
    if (file->fd != NGX_INVALID_FILE) {
        (void) ngx_close_file(file->fd);
        file->fd = NGX_INVALID_FILE;
    }

    if (file->state != NGX_ETCD_ATOMIC_FILE_NEW) {
        (void) ngx_delete_file(file->temp.data);
        file->state = NGX_ETCD_ATOMIC_FILE_NEW;
    }
}


static ngx_int_t
ngx_etcd_atomic_file_contents(ngx_fd_t fd, size_t limit, ngx_pool_t *pool,
    ngx_str_t *text, char **reason, ngx_err_t *err)
{
    size_t           size;
    ssize_t          n;
    ngx_file_info_t  fi;

    *err = 0;

    if (ngx_fd_info(fd, &fi) == NGX_FILE_ERROR) {
        *err = ngx_errno;
        *reason = ngx_fd_info_n " failed";
        return NGX_ERROR;
    }

    if (!ngx_is_file(&fi)) {
        *reason = "it is no regular file";
        return NGX_ERROR;
    }

    if (ngx_file_size(&fi) == 0) {
        *reason = "it is empty";
        return NGX_ERROR;
    }

    if (ngx_file_size(&fi) > (off_t) limit) {
        *reason = "it is larger than any state of a zone of this size";
        return NGX_ERROR;
    }

    size = (size_t) ngx_file_size(&fi);

    text->len = 0;
    text->data = ngx_palloc(pool, size);

    if (text->data == NULL) {
        *reason = "no memory";
        return NGX_ERROR;
    }

    while (text->len < size) {
        n = ngx_read_fd(fd, text->data + text->len, size - text->len);

        if (n == 0) {
            break;
        }

        if (n == -1) {
            *err = ngx_errno;
            *reason = ngx_read_fd_n " failed";
            return NGX_ERROR;
        }

        text->len += n;
    }

    return NGX_OK;
}


/*
 * The master may read as root in a directory of a less privileged user:
 * symbolic links are not followed, and only regular files are read.
 */

ngx_int_t
ngx_etcd_atomic_file_read(ngx_str_t *path, size_t limit, ngx_pool_t *pool,
    ngx_str_t *text, char **reason, ngx_err_t *err)
{
    ngx_fd_t   fd;
    ngx_int_t  rc;

    fd = open((char *) path->data,
              O_RDONLY|O_NOFOLLOW|O_NONBLOCK|O_NOCTTY|O_CLOEXEC);

    if (fd == NGX_INVALID_FILE) {
        *err = ngx_errno;
        *reason = "it cannot be opened";

        return (*err == NGX_ENOENT) ? NGX_DECLINED : NGX_ERROR;
    }

    rc = ngx_etcd_atomic_file_contents(fd, limit, pool, text, reason, err);

    (void) ngx_close_file(fd);

    return rc;
}


/* Returns 1 for "BASE.PID.tmp" of a dead process. */

static ngx_uint_t
ngx_etcd_atomic_file_left(ngx_str_t *base, u_char *name, size_t len)
{
    size_t     suffix;
    ngx_int_t  pid;

    suffix = sizeof(NGX_ETCD_ATOMIC_FILE_SUFFIX) - 1;

    if (len <= base->len + 1 + suffix
        || ngx_memcmp(name, base->data, base->len) != 0
        || name[base->len] != '.'
        || ngx_memcmp(name + len - suffix, NGX_ETCD_ATOMIC_FILE_SUFFIX, suffix)
           != 0)
    {
        return 0;
    }

    pid = ngx_atoi(name + base->len + 1, len - suffix - base->len - 1);

    return pid > 0 && ngx_etcd_process_gone((ngx_pid_t) pid);
}


void
ngx_etcd_atomic_file_clean(ngx_str_t *dir, ngx_str_t *path, ngx_log_t *log)
{
    u_char     *name;
    ngx_dir_t   d;
    ngx_str_t   base, temp;

    if (ngx_open_dir(dir, &d) == NGX_ERROR) {
        return;
    }

    base.data = path->data + dir->len + 1;
    base.len = path->len - dir->len - 1;

    while (ngx_read_dir(&d) == NGX_OK) {
        name = ngx_de_name(&d);

        if (!ngx_etcd_atomic_file_left(&base, name, ngx_strlen(name))) {
            continue;
        }

        temp.len = dir->len + 1 + ngx_strlen(name);
        temp.data = ngx_alloc(temp.len + 1, log);

        if (temp.data == NULL) {
            break;
        }

        ngx_sprintf(temp.data, "%V/%s%Z", dir, name);

        (void) ngx_delete_file(temp.data);
        ngx_free(temp.data);
    }

    (void) ngx_close_dir(&d);
}
