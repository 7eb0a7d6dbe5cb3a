
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The TLS settings of a cluster, the context made from the settings and their
 * files, and the sessions for resumption.
 */


#ifndef _NGX_ETCD_SSL_H_INCLUDED_
#define _NGX_ETCD_SSL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cause.h>


/*
 * An error of a TLS setting: the faulty directive and the reason.
 */

#define NGX_ETCD_SSL_ERROR_LEN  512


/* A directive.  The value is zero-terminated, and empty if not configured. */

typedef struct {
    ngx_str_t                  key;           /* ssl_conf_command only */
    ngx_str_t                  value;
    char                      *directive;
    u_char                    *file;          /* configuration file */
    ngx_uint_t                 line;
} ngx_etcd_ssl_option_t;


typedef struct {
    ngx_etcd_ssl_option_t     *option;        /* the faulty directive */
    ngx_str_t                  text;
    u_char                     buf[NGX_ETCD_SSL_ERROR_LEN];
} ngx_etcd_ssl_error_t;


/*
 * Writes the reason of an OpenSSL error: "no start line", "No such file or
 * directory".  Returns the end.
 */
u_char *ngx_etcd_ssl_error_reason(u_char *buf, u_char *last, u_long error);


/*
 * The files of TLS settings.  nginx's own functions need an ngx_conf_t and
 * log failures at "emerg".
 */

typedef enum {
    NGX_ETCD_SSL_CERTIFICATE = 0,
    NGX_ETCD_SSL_KEY,
    NGX_ETCD_SSL_PASSWORDS,
    NGX_ETCD_SSL_TRUSTED,
    NGX_ETCD_SSL_CRL,
    NGX_ETCD_SSL_FILES
} ngx_etcd_ssl_file_e;


/* cached sessions, one an endpoint: more than the endpoints of a cluster */
#define NGX_ETCD_SSL_SESSIONS  32


/* The state of a file; all zero if stat() failed. */

typedef struct {
    dev_t                      device;
    ino_t                      inode;
    off_t                      size;
    struct timespec            changed;
} ngx_etcd_ssl_stat_t;


/*
 * An SSL_CTX with its sessions, immutable.  Changed files lead to a new
 * context; the old one is freed with its last connection.
 */

typedef struct {
    ngx_ssl_t                  ssl;
    ngx_pool_t                *pool;
    ngx_uint_t                 refs;
    ngx_queue_t                sessions;      /* the newest first */
    ngx_uint_t                 nsessions;
} ngx_etcd_ssl_context_t;


/* exists as long as the configuration */

typedef struct {
    ngx_etcd_ssl_option_t      files[NGX_ETCD_SSL_FILES];
    ngx_etcd_ssl_option_t      ciphers;
    ngx_array_t                commands;      /* of ngx_etcd_ssl_option_t */
    ngx_uint_t                 protocols;
    ngx_flag_t                 verify;
    ngx_int_t                  verify_depth;
    ngx_str_t                  name;          /* zero-terminated */
    ngx_uint_t                 http1;         /* HTTP/1: no ALPN */
    char                      *hint;          /* for the log, if the peer does
                                                 not accept the certificate of
                                                 nginx; NULL: none */

    /* private */

    ngx_etcd_ssl_context_t    *context;
    ngx_etcd_ssl_stat_t        stats[NGX_ETCD_SSL_FILES];
    ngx_etcd_causes_t          causes;        /* of failures, logged */
} ngx_etcd_ssl_t;


/*
 * Reads the files and creates the context; may be called again.  On NGX_ERROR
 * the former context stays, and the error names the faulty directive.
 */
ngx_int_t ngx_etcd_ssl_load(ngx_etcd_ssl_t *ssl, ngx_log_t *log,
    ngx_etcd_ssl_error_t *error);

/*
 * Reloads the context if files have changed; called in a worker before each
 * connection.  A failure is logged once and the former context stays.  "kind"
 * is "cluster" or "upstream"; kind and name are for the log.
 */
void ngx_etcd_ssl_refresh(ngx_etcd_ssl_t *ssl, char *kind, ngx_str_t *name,
    ngx_log_t *log);

/* A pool cleanup handler: releases the context. */
void ngx_etcd_ssl_cleanup(void *data);

/* Acquires the current context; the caller must release it. */
ngx_etcd_ssl_context_t *ngx_etcd_ssl_acquire(ngx_etcd_ssl_t *ssl);
void ngx_etcd_ssl_release(ngx_etcd_ssl_context_t *context);

/*
 * Sessions by address and name.  A session returned by get() belongs to the
 * context; put() passes the ownership to the context.
 */
ngx_ssl_session_t *ngx_etcd_ssl_session_get(ngx_etcd_ssl_context_t *context,
    ngx_addr_t *addr, ngx_str_t *name);
void ngx_etcd_ssl_session_put(ngx_etcd_ssl_context_t *context,
    ngx_addr_t *addr, ngx_str_t *name, ngx_ssl_session_t *session);


#endif /* _NGX_ETCD_SSL_H_INCLUDED_ */
