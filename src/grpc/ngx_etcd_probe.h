
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One attempt to connect to an address, over TLS if the target says so, and to
 * get an answer of HTTP/1.1 to one request.
 */


#ifndef _NGX_ETCD_PROBE_H_INCLUDED_
#define _NGX_ETCD_PROBE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_connection.h>
#include <ngx_etcd_http_answer.h>


#define NGX_ETCD_PROBE_HOST     256      /* bytes: a host name and a zero */
#define NGX_ETCD_PROBE_REQUEST  512
#define NGX_ETCD_PROBE_ANSWER   8192     /* a longer one is cut off */


typedef enum {
    NGX_ETCD_PROBE_OK = 0,           /* connected, or answered */
    NGX_ETCD_PROBE_CONNECT,          /* the connection was not accepted */
    NGX_ETCD_PROBE_TLS,
    NGX_ETCD_PROBE_TIMEOUT,
    NGX_ETCD_PROBE_CLOSED,           /* before the end of an answer */
    NGX_ETCD_PROBE_INVALID,          /* not an answer of HTTP/1 */
    NGX_ETCD_PROBE_RESOURCES         /* of this process */
} ngx_etcd_probe_error_e;


/* zeroed before it is filled: targets are compared byte by byte */

typedef struct {
    ngx_sockaddr_t              sockaddr;
    socklen_t                   socklen;
    in_port_t                   port;
    ngx_etcd_ssl_t             *ssl;     /* NULL: http */
    size_t                      host_len;
    u_char                      host[NGX_ETCD_PROBE_HOST];
                                         /* of the URL, without brackets; ends
                                            with a zero */
} ngx_etcd_probe_target_t;


/* The question and its address; all of it stays until the probe has ended. */

typedef struct {
    ngx_addr_t                  addr;
    ngx_etcd_ssl_t             *ssl;     /* NULL: http */
    ngx_str_t                   ssl_name;
    ngx_str_t                   request; /* len 0: only to connect */
    ngx_uint_t                  bodyless;    /* the answer's header is enough */
    ngx_msec_t                  timeout;
} ngx_etcd_probe_conf_t;


typedef struct {
    /* set by the caller, the rest zeroed */

    ngx_log_t                  *log;

    /*
     * Called once for each request, from the event loop: the status and the
     * body of the answer, or 0 and the reason why there is none.  The text
     * stays until the next request.  The probe may be freed in there.
     */
    void                      (*done)(void *data, ngx_uint_t status,
                                      ngx_str_t *text);
    void                       *data;

    /*
     * Valid in done().  Of an answer whose end did not come in time there are
     * the status and a part of the body.
     */
    ngx_etcd_probe_error_e      error;

    /* private */

    ngx_etcd_probe_target_t     target;
    ngx_etcd_probe_conf_t       conf;
    ngx_event_t                 timer;   /* ends the request */
    ngx_event_t                 result;  /* posted: done() is due */
    ngx_pool_t                 *pool;    /* of a request */
    ngx_etcd_connection_t      *conn;
    ngx_log_t                   conn_log;
    ngx_uint_t                  asking;
    ngx_uint_t                  connected;
    ngx_uint_t                  sent;
    ngx_uint_t                  status;
    ngx_str_t                   text;
    ngx_etcd_http_answer_t      http;
    size_t                      answer_len;
    u_char                      request[NGX_ETCD_PROBE_REQUEST];
    u_char                      answer[NGX_ETCD_PROBE_ANSWER];
} ngx_etcd_probe_t;


/*
 * Requests a path from the target, and waits for so many ms.  Cancels a former
 * request.
 */
void ngx_etcd_probe_start(ngx_etcd_probe_t *probe,
    ngx_etcd_probe_target_t *target, char *path, ngx_msec_t timeout);

/* Sends any request, or only connects.  Cancels a former request. */
void ngx_etcd_probe_send(ngx_etcd_probe_t *probe, ngx_etcd_probe_conf_t *conf);

/* May be called at any time, also within done(). */
void ngx_etcd_probe_cancel(ngx_etcd_probe_t *probe);

/* The address of the target; of an API as in the Host header, for the log. */
#define ngx_etcd_probe_name(probe)  (&(probe)->conf.addr.name)


#endif /* _NGX_ETCD_PROBE_H_INCLUDED_ */
