
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Addresses of the host names that members have: asked for when they are
 * wanted first, and anew after a while.
 */


#ifndef _NGX_ETCD_NAMES_H_INCLUDED_
#define _NGX_ETCD_NAMES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lookup.h>


/* ms until a name is asked for again: after an answer, and without one */

#define NGX_ETCD_NAMES_AGAIN  10000
#define NGX_ETCD_NAMES_RETRY  1000


typedef struct {
    /* set by the caller */

    ngx_log_t             *log;
    void                 (*changed)(void *data);  /* an answer is another one */
    void                  *data;

    /* private */

    ngx_queue_t            queue;
    ngx_event_t            timer;
    ngx_uint_t             round;
} ngx_etcd_names_t;


void ngx_etcd_names_init(ngx_etcd_names_t *names);
void ngx_etcd_names_done(ngx_etcd_names_t *names);

/* what is not asked for between the two is forgotten */
void ngx_etcd_names_begin(ngx_etcd_names_t *names);
void ngx_etcd_names_end(ngx_etcd_names_t *names);

/*
 * The address of a host with its port, as text; both stay until the next
 * begin.  The last known one is kept where the resolver has no answer any
 * more.
 *
 *     NGX_OK        it is known,
 *     NGX_AGAIN     it will be: changed() says so,
 *     NGX_ERROR     it is not: the address is the reason.
 */
ngx_int_t ngx_etcd_names_get(ngx_etcd_names_t *names,
    ngx_resolver_t *resolver, ngx_msec_t timeout, ngx_str_t *host,
    in_port_t port, ngx_str_t *address);


#endif /* _NGX_ETCD_NAMES_H_INCLUDED_ */
