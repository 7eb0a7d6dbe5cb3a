
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A file that is replaced as a whole: it is the old one or the new one,
 * whenever the power goes.
 */


#ifndef _NGX_ETCD_STATE_FILE_H_INCLUDED_
#define _NGX_ETCD_STATE_FILE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_STATE_FILE_PIECE  65536      /* bytes written at a time */


typedef enum {
    NGX_ETCD_STATE_FILE_NEW = 0,
    NGX_ETCD_STATE_FILE_WRITING,
    NGX_ETCD_STATE_FILE_WRITTEN
} ngx_etcd_state_file_state_e;


/* a replacement under way; safe to be used by a thread: it never logs */

typedef struct {
    ngx_str_t                    path;        /* ends with a zero byte */
    ngx_str_t                    temp;        /* likewise, beside it */

    ngx_etcd_state_file_state_e  state;
    ngx_fd_t                     fd;
    size_t                       sent;
    char                        *failed;      /* what failed */
    ngx_err_t                    err;
} ngx_etcd_state_file_t;


/* the path must stay; NGX_ERROR: no memory */
ngx_int_t ngx_etcd_state_file_init(ngx_etcd_state_file_t *file,
    ngx_str_t *path, ngx_pool_t *pool);

/*
 * Writes the next piece: NGX_OK, all is on the disk, to be published;
 * NGX_AGAIN; NGX_ERROR, failed and err say why.
 */
ngx_int_t ngx_etcd_state_file_write(ngx_etcd_state_file_t *file, u_char *data,
    size_t len);

/* takes the place of the old file */
ngx_int_t ngx_etcd_state_file_publish(ngx_etcd_state_file_t *file);

/* removes what was written, if it was not published */
void ngx_etcd_state_file_abandon(ngx_etcd_state_file_t *file);


/*
 * NGX_OK, NGX_DECLINED (there is no such file), or NGX_ERROR: the reason is
 * a text, and *err an error number or 0.
 */
ngx_int_t ngx_etcd_state_file_read(ngx_str_t *path, size_t limit,
    ngx_pool_t *pool, ngx_str_t *text, char **reason, ngx_err_t *err);

/* removes what processes that are no more have left beside the file */
void ngx_etcd_state_file_clean(ngx_str_t *dir, ngx_str_t *path,
    ngx_log_t *log);


#endif /* _NGX_ETCD_STATE_FILE_H_INCLUDED_ */
