
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The file of a password is read for each request of a token, that of a token
 * when it has changed or etcd refuses the token, so that a correction needs no
 * reload.  It is small and local, and all this is rare.
 */


#ifndef _NGX_ETCD_AUTH_FILE_H_INCLUDED_
#define _NGX_ETCD_AUTH_FILE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cluster.h>


/* "password_file" or "token_file" */

typedef struct {
    ngx_str_t                    password;     /* or token */
    char                        *fault;        /* the last one, logged */
    time_t                       looked;       /* at a token */
    time_t                       mtime;        /* of the file then */
    ngx_file_uniq_t              uniq;
    off_t                        size;
    unsigned                     readable:1;   /* the file was read */
    unsigned                     unreadable:1; /* was logged */
} ngx_etcd_auth_file_t;


/*
 * Reads the file into file->password.  What was read before stays if the file
 * has a fault, which is logged once.
 */
void ngx_etcd_auth_file_read(ngx_etcd_auth_file_t *file,
    ngx_etcd_cluster_conf_t *conf, ngx_log_t *log);

/*
 * Returns 1 if the file is another one than at the last look.  A look costs a
 * system call, at most once a second.
 */
ngx_uint_t ngx_etcd_auth_file_changed(ngx_etcd_auth_file_t *file,
    ngx_etcd_cluster_conf_t *conf);


#endif /* _NGX_ETCD_AUTH_FILE_H_INCLUDED_ */
