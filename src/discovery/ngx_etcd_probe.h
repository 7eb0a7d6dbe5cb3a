
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One GET request of HTTP/1.1 to one address, over TLS if the target says so.
 */


#ifndef _NGX_ETCD_PROBE_H_INCLUDED_
#define _NGX_ETCD_PROBE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_connection.h>


#define NGX_ETCD_PROBE_HOST     256      /* bytes: a host name and a zero */
#define NGX_ETCD_PROBE_REQUEST  512
#define NGX_ETCD_PROBE_ANSWER   8192     /* a longer one is cut off */


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


typedef struct {
    /* set by the caller, the rest zeroed */

    ngx_log_t                  *log;

    /*
     * Called once for each request, from the event loop: the status and the
     * body of the answer, or 0 and the reason why there is none.  The text
     * stays until the next request.
     */
    void                      (*done)(void *data, ngx_uint_t status,
                                      ngx_str_t *text);
    void                       *data;

    /* private */

    ngx_etcd_probe_target_t     target;
    ngx_addr_t                  addr;
    ngx_event_t                 timer;   /* ends the request */
    ngx_event_t                 result;  /* posted: done() is due */
    ngx_pool_t                 *pool;    /* of a request */
    ngx_etcd_connection_t      *conn;
    ngx_log_t                   conn_log;
    ngx_uint_t                  asking;
    ngx_uint_t                  status;
    ngx_str_t                   text;
    size_t                      sent;
    size_t                      request_len;
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

/* May be called at any time, also within done(). */
void ngx_etcd_probe_cancel(ngx_etcd_probe_t *probe);

/* The host and port of the target, as in the Host header, for the log. */
#define ngx_etcd_probe_name(probe)  (&(probe)->addr.name)


#endif /* _NGX_ETCD_PROBE_H_INCLUDED_ */
