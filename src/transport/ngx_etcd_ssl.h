
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What a cluster's TLS connections are made of: the settings, the context
 * made of them and of the files they name, and the sessions to be resumed.
 */


#ifndef _NGX_ETCD_SSL_H_INCLUDED_
#define _NGX_ETCD_SSL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


#define NGX_ETCD_SSL_REASON    512

/* endpoints whose sessions are kept: more than a cluster has */
#define NGX_ETCD_SSL_SESSIONS  32


typedef enum {
    NGX_ETCD_SSL_CERTIFICATE = 0,
    NGX_ETCD_SSL_KEY,
    NGX_ETCD_SSL_PASSWORDS,
    NGX_ETCD_SSL_TRUSTED,
    NGX_ETCD_SSL_CRL,
    NGX_ETCD_SSL_FILES
} ngx_etcd_ssl_file_e;


/* a directive: its value ends with a zero, and is empty if it was not given */

typedef struct {
    ngx_str_t                  key;           /* of ssl_conf_command */
    ngx_str_t                  value;
    char                      *directive;
    u_char                    *file;          /* of the configuration */
    ngx_uint_t                 line;
} ngx_etcd_ssl_option_t;


/* how a file looked; all zero: it could not be looked at */

typedef struct {
    dev_t                      device;
    ino_t                      inode;
    off_t                      size;
    struct timespec            changed;
} ngx_etcd_ssl_stat_t;


typedef struct {
    ngx_etcd_ssl_option_t     *option;        /* what is to blame */
    ngx_str_t                  text;
    u_char                     buf[NGX_ETCD_SSL_REASON];
} ngx_etcd_ssl_error_t;


/*
 * An SSL_CTX and what belongs to it.  It stays as it is: changed files make
 * a new one, and the old one goes with its last connection.
 */

typedef struct {
    ngx_ssl_t                  ssl;
    ngx_pool_t                *pool;
    ngx_uint_t                 refs;
    ngx_queue_t                sessions;      /* the newest is the first */
    ngx_uint_t                 nsessions;
} ngx_etcd_ssl_context_t;


/* lives as long as the configuration */

typedef struct {
    ngx_etcd_ssl_option_t      files[NGX_ETCD_SSL_FILES];
    ngx_etcd_ssl_option_t      ciphers;
    ngx_array_t                commands;      /* of ngx_etcd_ssl_option_t */
    ngx_uint_t                 protocols;
    ngx_flag_t                 verify;
    ngx_int_t                  verify_depth;
    ngx_str_t                  name;          /* ends with a zero */
    ngx_uint_t                 http1;         /* no ALPN: not for HTTP/2 */

    /* private */

    ngx_etcd_ssl_context_t    *context;
    ngx_etcd_ssl_stat_t        stats[NGX_ETCD_SSL_FILES];
    ngx_uint_t                 failed;        /* and it was logged */
} ngx_etcd_ssl_t;


/*
 * Reads the files and makes the context; may be called again.  On NGX_ERROR
 * the former context stays and the error says which directive is to blame.
 */
ngx_int_t ngx_etcd_ssl_load(ngx_etcd_ssl_t *ssl, ngx_log_t *log,
    ngx_etcd_ssl_error_t *error);

/*
 * Before a connection is made, in a worker: does so when the files changed
 * since.  What cannot be read is logged once and changes nothing.  The log
 * says "cluster" or "upstream", and its name.
 */
void ngx_etcd_ssl_refresh(ngx_etcd_ssl_t *ssl, char *kind, ngx_str_t *name,
    ngx_log_t *log);

/* a pool's cleanup handler: lets go of the context */
void ngx_etcd_ssl_cleanup(void *data);

/* the context in force; what was taken is to be given back */
ngx_etcd_ssl_context_t *ngx_etcd_ssl_acquire(ngx_etcd_ssl_t *ssl);
void ngx_etcd_ssl_release(ngx_etcd_ssl_context_t *context);

/*
 * Sessions by address and name.  The one that is got belongs to the context,
 * the one that is put belongs to it from then on.
 */
ngx_ssl_session_t *ngx_etcd_ssl_session_get(ngx_etcd_ssl_context_t *context,
    ngx_addr_t *addr, ngx_str_t *name);
void ngx_etcd_ssl_session_put(ngx_etcd_ssl_context_t *context,
    ngx_addr_t *addr, ngx_str_t *name, ngx_ssl_session_t *session);

/* "no start line", "No such file or directory": an OpenSSL error's reason */
u_char *ngx_etcd_ssl_reason(u_char *buf, u_char *last, u_long error);


/* ngx_etcd_ssl_file.c: makes a context's content; NGX_ERROR sets the error */

ngx_int_t ngx_etcd_ssl_files(ngx_etcd_ssl_t *ssl, SSL_CTX *ctx,
    ngx_etcd_ssl_error_t *error);
ngx_int_t ngx_etcd_ssl_fail(ngx_etcd_ssl_error_t *error,
    ngx_etcd_ssl_option_t *option, const char *fmt, ...);


#endif /* _NGX_ETCD_SSL_H_INCLUDED_ */
