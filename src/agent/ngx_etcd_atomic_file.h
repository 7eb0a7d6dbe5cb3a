
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A file that is replaced atomically: after a power failure it has either the
 * old or the new content.
 */


#ifndef _NGX_ETCD_ATOMIC_FILE_H_INCLUDED_
#define _NGX_ETCD_ATOMIC_FILE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_ATOMIC_FILE_PIECE  65536      /* bytes per step */


typedef enum {
    NGX_ETCD_ATOMIC_FILE_NEW = 0,
    NGX_ETCD_ATOMIC_FILE_WRITING,
    NGX_ETCD_ATOMIC_FILE_WRITTEN
} ngx_etcd_atomic_file_state_e;


/*
 * A replacement in progress.  The functions may run in a thread: they never
 * log.
 */

typedef struct {
    ngx_str_t                    path;        /* zero-terminated */
    ngx_str_t                    temp;        /* zero-terminated, in the same
                                                 directory */

    ngx_etcd_atomic_file_state_e state;
    ngx_fd_t                     fd;
    size_t                       sent;
    char                        *failed;      /* name of the failed call */
    ngx_err_t                    err;
} ngx_etcd_atomic_file_t;


/* The path must stay valid.  NGX_ERROR: no memory. */
ngx_int_t ngx_etcd_atomic_file_init(ngx_etcd_atomic_file_t *file,
    ngx_str_t *path, ngx_pool_t *pool);

/*
 * Writes the next piece.  NGX_OK: the file is on disk and can be published;
 * NGX_AGAIN: call again; NGX_ERROR: see failed and err.
 */
ngx_int_t ngx_etcd_atomic_file_write(ngx_etcd_atomic_file_t *file, u_char *data,
    size_t len);

/* Replaces the old file. */
ngx_int_t ngx_etcd_atomic_file_publish(ngx_etcd_atomic_file_t *file);

/* Removes an unpublished file. */
void ngx_etcd_atomic_file_abandon(ngx_etcd_atomic_file_t *file);


/*
 * Reads a file.  NGX_DECLINED: there is no such file; NGX_ERROR: *reason is
 * set, *err is an errno or 0.
 */
ngx_int_t ngx_etcd_atomic_file_read(ngx_str_t *path, size_t limit,
    ngx_pool_t *pool, ngx_str_t *text, char **reason, ngx_err_t *err);

/* Removes temporary files of dead processes. */
void ngx_etcd_atomic_file_clean(ngx_str_t *dir, ngx_str_t *path,
    ngx_log_t *log);


#endif /* _NGX_ETCD_ATOMIC_FILE_H_INCLUDED_ */
