
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_names.h>


typedef struct {
    ngx_queue_t            queue;
    ngx_etcd_names_t      *names;
    ngx_etcd_lookup_t      lookup;
    ngx_uint_t             round;          /* it was wanted in */
    ngx_msec_t             asked;
    ngx_str_t              reason;         /* of the last failure */
    size_t                 len;
    u_char                 address[NGX_SOCKADDR_STRLEN];
    unsigned               asking:1;
    unsigned               known:1;
    u_char                 host[1];
} ngx_etcd_name_t;


static ngx_etcd_name_t *ngx_etcd_name_find(ngx_etcd_names_t *names,
    ngx_str_t *host, in_port_t port);
static ngx_etcd_name_t *ngx_etcd_name_create(ngx_etcd_names_t *names,
    ngx_str_t *host, in_port_t port);
static void ngx_etcd_name_destroy(ngx_etcd_name_t *name);
static void ngx_etcd_name_ask(ngx_etcd_name_t *name);
static void ngx_etcd_name_done(void *data);
static void ngx_etcd_names_timer(ngx_event_t *ev);


void
ngx_etcd_names_init(ngx_etcd_names_t *names)
{
    ngx_queue_init(&names->queue);

    names->timer.handler = ngx_etcd_names_timer;
    names->timer.data = names;
    names->timer.log = names->log;
    names->timer.cancelable = 1;
}


void
ngx_etcd_names_done(ngx_etcd_names_t *names)
{
    ngx_etcd_names_begin(names);
    ngx_etcd_names_end(names);

    if (names->timer.timer_set) {
        ngx_del_timer(&names->timer);
    }
}


void
ngx_etcd_names_begin(ngx_etcd_names_t *names)
{
    names->round++;
}


void
ngx_etcd_names_end(ngx_etcd_names_t *names)
{
    ngx_queue_t      *q, *next;
    ngx_etcd_name_t  *name;

    for (q = ngx_queue_head(&names->queue);
         q != ngx_queue_sentinel(&names->queue);
         q = next)
    {
        next = ngx_queue_next(q);
        name = ngx_queue_data(q, ngx_etcd_name_t, queue);

        if (name->round != names->round) {
            ngx_etcd_name_destroy(name);
        }
    }
}


ngx_int_t
ngx_etcd_names_get(ngx_etcd_names_t *names, ngx_resolver_t *resolver,
    ngx_msec_t timeout, ngx_str_t *host, in_port_t port, ngx_str_t *address)
{
    ngx_msec_t        age;
    ngx_etcd_name_t  *name;

    name = ngx_etcd_name_find(names, host, port);

    if (name == NULL) {
        name = ngx_etcd_name_create(names, host, port);
        if (name == NULL) {
            ngx_str_set(address, "no memory");
            return NGX_ERROR;
        }

        name->lookup.resolver = resolver;
        name->lookup.timeout = timeout;

        ngx_etcd_name_ask(name);
    }

    name->round = names->round;
    age = ngx_current_msec - name->asked;

    if (!name->asking
        && age >= (name->lookup.naddrs ? NGX_ETCD_NAMES_AGAIN
                                       : NGX_ETCD_NAMES_RETRY))
    {
        ngx_etcd_name_ask(name);
    }

    if (name->known) {
        address->data = name->address;
        address->len = name->len;
        return NGX_OK;
    }

    if (name->reason.len == 0) {
        return NGX_AGAIN;
    }

    *address = name->reason;

    return NGX_ERROR;
}


static ngx_etcd_name_t *
ngx_etcd_name_find(ngx_etcd_names_t *names, ngx_str_t *host, in_port_t port)
{
    ngx_queue_t      *q;
    ngx_etcd_name_t  *name;

    for (q = ngx_queue_head(&names->queue);
         q != ngx_queue_sentinel(&names->queue);
         q = ngx_queue_next(q))
    {
        name = ngx_queue_data(q, ngx_etcd_name_t, queue);

        if (name->lookup.port == port
            && name->lookup.name.len == host->len
            && ngx_memcmp(name->lookup.name.data, host->data, host->len) == 0)
        {
            return name;
        }
    }

    return NULL;
}


static ngx_etcd_name_t *
ngx_etcd_name_create(ngx_etcd_names_t *names, ngx_str_t *host, in_port_t port)
{
    ngx_etcd_name_t  *name;

    name = ngx_calloc(sizeof(ngx_etcd_name_t) + host->len, names->log);
    if (name == NULL) {
        return NULL;
    }

    ngx_memcpy(name->host, host->data, host->len);

    name->names = names;
    name->lookup.name.data = name->host;
    name->lookup.name.len = host->len;
    name->lookup.port = port;
    name->lookup.done = ngx_etcd_name_done;
    name->lookup.data = name;

    ngx_queue_insert_tail(&names->queue, &name->queue);

    return name;
}


static void
ngx_etcd_name_destroy(ngx_etcd_name_t *name)
{
    ngx_etcd_lookup_cancel(&name->lookup);
    ngx_queue_remove(&name->queue);
    ngx_free(name);
}


static void
ngx_etcd_name_ask(ngx_etcd_name_t *name)
{
    name->asking = 1;
    name->asked = ngx_current_msec;

    ngx_etcd_lookup_start(&name->lookup, name->names->log);
}


/* the last thing that is done with the name: it may be forgotten now */

static void
ngx_etcd_name_done(void *data)
{
    ngx_etcd_name_t *name = data;

    ngx_str_t         *found;
    ngx_etcd_names_t  *names;

    names = name->names;
    name->asking = 0;

    if (name->lookup.naddrs == 0) {
        ngx_add_timer(&names->timer, NGX_ETCD_NAMES_RETRY);

        if (name->known) {
            return;
        }

        name->reason = name->lookup.reason;

    } else {
        found = &name->lookup.addrs[0].name;

        if (name->known
            && name->len == found->len
            && ngx_memcmp(name->address, found->data, found->len) == 0)
        {
            return;
        }

        name->known = 1;
        name->len = found->len;
        ngx_memcpy(name->address, found->data, found->len);
    }

    names->changed(names->data);
}


static void
ngx_etcd_names_timer(ngx_event_t *ev)
{
    ngx_etcd_names_t  *names;

    names = ev->data;

    names->changed(names->data);
}
