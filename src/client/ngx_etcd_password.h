
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A password in a file of its own.
 */


#ifndef _NGX_ETCD_PASSWORD_H_INCLUDED_
#define _NGX_ETCD_PASSWORD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* etcd's bcrypt looks at 72 bytes */

#define NGX_ETCD_PASSWORD_MAX  1024


/*
 * Reads the first line of a regular file that neither group nor others may
 * read.  The data of the password has room for NGX_ETCD_PASSWORD_MAX bytes and
 * a terminating zero.  NULL, or what is wrong with the file, as what follows
 * its name in a message, with the error number of the system or 0; the
 * password is unchanged then.
 */
char *ngx_etcd_password_read(u_char *file, ngx_str_t *password,
    ngx_err_t *err);


#endif /* _NGX_ETCD_PASSWORD_H_INCLUDED_ */
