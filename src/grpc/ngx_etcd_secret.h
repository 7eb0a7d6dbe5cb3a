
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Passwords and tokens: memory for them, and for buffers that contain them, and
 * the files that they are read from.  The memory is excluded from core dumps
 * (MADV_DONTDUMP) and cleared before it is released.
 */


#ifndef _NGX_ETCD_SECRET_H_INCLUDED_
#define _NGX_ETCD_SECRET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Returns zeroed pages that nothing else shares, excluded from core dumps and
 * cleared by ngx_etcd_secret_free().  NULL: no memory.
 */
void *ngx_etcd_secret_alloc(size_t size, ngx_log_t *log);

/* NULL is ignored. */
void ngx_etcd_secret_free(void *p);

/* Frees the bytes of a text, which is empty then. */
void ngx_etcd_secret_drop(ngx_str_t *text);

/* Released with the pool. */
void *ngx_etcd_secret_palloc(ngx_pool_t *pool, size_t size);


/*
 * An allocator for libraries: small blocks are cleared when released; larger
 * blocks, in which messages are assembled, are pages as above.
 */
void *ngx_etcd_secret_malloc(size_t size, void *data);
void *ngx_etcd_secret_calloc(size_t n, size_t size, void *data);
void *ngx_etcd_secret_realloc(void *p, size_t size, void *data);
void ngx_etcd_secret_release(void *p, void *data);


/*
 * 1: answers of etcd may have private keys, in this process and from now on:
 * whatever an answer is copied to is cleared.
 */
extern ngx_uint_t  ngx_etcd_secret_received;


/*
 * A password, or a token, in a file.
 */

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


#endif /* _NGX_ETCD_SECRET_H_INCLUDED_ */
