
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_secret.h>

#include <sys/mman.h>


#define NGX_ETCD_SECRET_LARGE  2048      /* bytes; larger blocks are pages */

/* bytes; CR LF after a token of maximum length still fits in */

#define NGX_ETCD_PASSWORD_BUFFER  (NGX_ETCD_TOKEN_MAX + 2)

#define NGX_ETCD_PASSWORD_GROUP   0040
#define NGX_ETCD_PASSWORD_OTHERS  0004


/* Precedes each block and keeps the block aligned for any type. */

typedef union {
    size_t       size;                   /* including the head */
    max_align_t  align;
} ngx_etcd_secret_head_t;


ngx_uint_t  ngx_etcd_secret_received;


void *
ngx_etcd_secret_alloc(size_t size, ngx_log_t *log)
{
    ngx_etcd_secret_head_t  *head;

    size = ngx_align(sizeof(ngx_etcd_secret_head_t) + size, ngx_pagesize);

    head = mmap(NULL, size, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANON, -1, 0);

    if (head == MAP_FAILED) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "mmap(MAP_ANON, %uz) failed", size);
        return NULL;
    }

    /* fails on a kernel without core dumps */

    (void) madvise(head, size, MADV_DONTDUMP);

    head->size = size;

    return head + 1;
}


void
ngx_etcd_secret_free(void *p)
{
    size_t                   size;
    ngx_etcd_secret_head_t  *head;

    if (p == NULL) {
        return;
    }

    head = (ngx_etcd_secret_head_t *) p - 1;
    size = head->size;

    ngx_explicit_memzero(head, size);

    if (munmap(head, size) == -1) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, ngx_errno,
                      "munmap(%p, %uz) failed", head, size);
    }
}


void
ngx_etcd_secret_drop(ngx_str_t *text)
{
    ngx_etcd_secret_free(text->data);

    ngx_str_null(text);
}


void *
ngx_etcd_secret_palloc(ngx_pool_t *pool, size_t size)
{
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    cln->data = ngx_etcd_secret_alloc(size, pool->log);
    cln->handler = ngx_etcd_secret_free;

    return cln->data;
}


void *
ngx_etcd_secret_malloc(size_t size, void *data)
{
    ngx_etcd_secret_head_t  *head;

    if (size >= NGX_ETCD_SECRET_LARGE) {
        return ngx_etcd_secret_alloc(size, ngx_cycle->log);
    }

    size += sizeof(ngx_etcd_secret_head_t);

    head = ngx_alloc(size, ngx_cycle->log);
    if (head == NULL) {
        return NULL;
    }

    head->size = size;

    return head + 1;
}


void *
ngx_etcd_secret_calloc(size_t n, size_t size, void *data)
{
    void  *p;

    if (size != 0 && n > NGX_MAX_SIZE_T_VALUE / size) {
        return NULL;
    }

    p = ngx_etcd_secret_malloc(n * size, data);

    if (p != NULL) {
        ngx_memzero(p, n * size);
    }

    return p;
}


void *
ngx_etcd_secret_realloc(void *p, size_t size, void *data)
{
    void                    *new;
    size_t                   old;
    ngx_etcd_secret_head_t  *head;

    new = ngx_etcd_secret_malloc(size, data);

    if (p == NULL || new == NULL) {
        return new;
    }

    head = (ngx_etcd_secret_head_t *) p - 1;
    old = head->size - sizeof(ngx_etcd_secret_head_t);

    ngx_memcpy(new, p, ngx_min(old, size));
    ngx_etcd_secret_release(p, data);

    return new;
}


void
ngx_etcd_secret_release(void *p, void *data)
{
    ngx_etcd_secret_head_t  *head;

    if (p == NULL) {
        return;
    }

    head = (ngx_etcd_secret_head_t *) p - 1;

    if (head->size >= NGX_ETCD_SECRET_LARGE + sizeof(ngx_etcd_secret_head_t)) {
        ngx_etcd_secret_free(p);
        return;
    }

    ngx_explicit_memzero(head, head->size);
    ngx_free(head);
}


/*
 * A group may read a file of root: so Kubernetes gives a secret to a user who
 * is not root.
 */

static char *
ngx_etcd_password_check(ngx_fd_t fd, ngx_err_t *err)
{
    ngx_uint_t       others;
    ngx_file_info_t  fi;

    if (ngx_fd_info(fd, &fi) == NGX_FILE_ERROR) {
        *err = ngx_errno;
        return "cannot be examined";
    }

    if (!ngx_is_file(&fi)) {
        return "is not a regular file";
    }

    others = NGX_ETCD_PASSWORD_OTHERS;

    if (fi.st_uid != 0) {
        others |= NGX_ETCD_PASSWORD_GROUP;
    }

    if (ngx_file_access(&fi) & others) {
        return "is readable by group or others, only its owner may read it";
    }

    return NULL;
}


static char *
ngx_etcd_password_set(ngx_str_t *password, u_char *line, size_t len,
    ngx_uint_t token)
{
    u_char  *p;

    if (len == 0) {
        return "has an empty first line";
    }

    if (token) {
        if (len > NGX_ETCD_TOKEN_MAX) {
            return "has a first line of more than 8192 bytes";
        }

        for (p = line; p < line + len; p++) {
            if (*p <= ' ' || *p > '~') {
                return "has a byte in its first line that no token has";
            }
        }

    } else {
        if (len > NGX_ETCD_PASSWORD_MAX) {
            return "has a first line of more than 1024 bytes";
        }

        if (ngx_strlchr(line, line + len, '\0') != NULL) {
            return "has a zero byte in its first line";
        }
    }

    ngx_memcpy(password->data, line, len);
    password->data[len] = '\0';
    password->len = len;

    return NULL;
}


static char *
ngx_etcd_password_line(ngx_fd_t fd, ngx_str_t *password, ngx_uint_t token,
    ngx_err_t *err)
{
    u_char   *lf;
    char     *fault;
    size_t    len;
    ssize_t   n;
    u_char    buf[NGX_ETCD_PASSWORD_BUFFER];

    fault = NULL;
    lf = NULL;
    len = 0;

    while (lf == NULL && len < sizeof(buf)) {

        n = ngx_read_fd(fd, buf + len, sizeof(buf) - len);

        if (n == -1) {
            *err = ngx_errno;
            fault = "cannot be read";
            break;
        }

        if (n == 0) {
            break;
        }

        lf = ngx_strlchr(buf + len, buf + len + n, LF);
        len += n;
    }

    if (fault == NULL) {

        if (lf != NULL) {
            len = lf - buf;

            if (len != 0 && buf[len - 1] == CR) {
                len--;
            }
        }

        fault = ngx_etcd_password_set(password, buf, len, token);
    }

    ngx_explicit_memzero(buf, sizeof(buf));

    return fault;
}


static char *
ngx_etcd_password_file(u_char *file, ngx_str_t *password, ngx_uint_t token,
    ngx_err_t *err)
{
    char      *fault;
    ngx_fd_t   fd;

    *err = 0;

    /* NONBLOCK: opening a FIFO must not block before its type is checked */

    fd = ngx_open_file(file, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK, NGX_FILE_OPEN,
                       0);

    if (fd == NGX_INVALID_FILE) {
        *err = ngx_errno;
        return "cannot be opened";
    }

    fault = ngx_etcd_password_check(fd, err);

    if (fault == NULL) {
        fault = ngx_etcd_password_line(fd, password, token, err);
    }

    (void) ngx_close_file(fd);

    return fault;
}


char *
ngx_etcd_password_read(u_char *file, ngx_str_t *password, ngx_err_t *err)
{
    return ngx_etcd_password_file(file, password, 0, err);
}


char *
ngx_etcd_token_read(u_char *file, ngx_str_t *token, ngx_err_t *err)
{
    return ngx_etcd_password_file(file, token, 1, err);
}
