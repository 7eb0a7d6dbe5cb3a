
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Reads a password, or a token, from a file.
 */


#ifndef _NGX_ETCD_PASSWORD_H_INCLUDED_
#define _NGX_ETCD_PASSWORD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* bytes; etcd's bcrypt uses the first 72 */

#define NGX_ETCD_PASSWORD_MAX  1024

/* bytes; a signed token (JWT) has some hundred */

#define NGX_ETCD_TOKEN_MAX     8192


/*
 * Reads the first line of a regular file that neither group nor others may
 * read.  password->data must have room for NGX_ETCD_PASSWORD_MAX bytes and a
 * terminating zero.  Returns NULL; or a text that follows the file's name in a
 * message, with the errno of the system or 0, and the password unchanged.
 */
char *ngx_etcd_password_read(u_char *file, ngx_str_t *password,
    ngx_err_t *err);

/*
 * Likewise a token, which becomes the value of a header field: it has printable
 * ASCII only, and there is room for NGX_ETCD_TOKEN_MAX bytes.
 */
char *ngx_etcd_token_read(u_char *file, ngx_str_t *token, ngx_err_t *err);


#endif /* _NGX_ETCD_PASSWORD_H_INCLUDED_ */
