
/*
 * Copyright (C) nginx-etcd contributors
 *
 * TLS sessions of servers whose certificate is in etcd ("type=pem").  A session
 * is resumed before nginx knows which certificate the name has: so it says
 * itself for which name it was made, and of which keys of etcd and their
 * revisions.  It does not resume with another name, or when a key was written
 * or deleted since: a full handshake follows.
 */


#ifndef _NGX_HTTP_ETCD_SESSION_H_INCLUDED_
#define _NGX_HTTP_ETCD_SESSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd.h>


/* A certificate or key that a handshake has read. */

typedef struct {
    ngx_etcd_set_use_t  *use;
    u_char                       *buf;        /* NULL: not read */
    ngx_str_t                     value;
    ngx_str_t                     key;        /* in the map; empty: none */
    uint64_t                      modified;   /* 0: the key has no value */
    unsigned                      asked:1;    /* nginx has evaluated it */
} ngx_http_etcd_pem_value_t;


/*
 * Called during a handshake: the session gets its name and the values that were
 * read, of ngx_http_etcd_pem_value_t.  NGX_ERROR: no memory.
 */
ngx_int_t ngx_http_etcd_session_bind(ngx_http_request_t *r,
    ngx_array_t *values);

/*
 * Called after the whole configuration was read: the contexts of all servers
 * ask which sessions may resume, if a variable has certificates.  A cache of
 * one worker ("builtin"), which cannot be asked, has no sessions then.
 */
void ngx_http_etcd_session_init(ngx_conf_t *cf);


#endif /* _NGX_HTTP_ETCD_SESSION_H_INCLUDED_ */
