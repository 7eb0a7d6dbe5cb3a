
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
    ngx_sockaddr_t         sockaddr;       /* with the port */
    socklen_t              socklen;
    size_t                 len;
    u_char                 address[NGX_SOCKADDR_STRLEN];
    unsigned               asking:1;
    unsigned               found:1;        /* by the last lookup */
    unsigned               known:1;
    unsigned               changed:1;
    u_char                 host[1];
} ngx_etcd_name_t;


static ngx_etcd_name_t *ngx_etcd_name_find(ngx_etcd_names_t *names,
    ngx_str_t *host, in_port_t port);
static ngx_etcd_name_t *ngx_etcd_name_create(ngx_etcd_names_t *names,
    ngx_str_t *host, in_port_t port);
static void ngx_etcd_name_destroy(ngx_etcd_name_t *name);
static void ngx_etcd_name_ask(ngx_etcd_name_t *name);
static void ngx_etcd_name_found(void *data, ngx_resolver_addr_t *addrs,
    ngx_uint_t n);
static ngx_uint_t ngx_etcd_name_has(ngx_etcd_name_t *name,
    ngx_resolver_addr_t *addr);
static void ngx_etcd_name_take(ngx_etcd_name_t *name,
    ngx_resolver_addr_t *addr);
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
        && age >= (name->found ? NGX_ETCD_NAMES_AGAIN : NGX_ETCD_NAMES_RETRY))
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
    name->lookup.found = ngx_etcd_name_found;
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
    name->found = 0;
    name->changed = 0;
    name->asked = ngx_current_msec;

    ngx_etcd_lookup_start(&name->lookup, name->names->log);
}


/*
 * Name servers, and nginx's resolver, turn their answers.  An address that is
 * still among them stays: sessions to it would be closed for nothing.
 */

static void
ngx_etcd_name_found(void *data, ngx_resolver_addr_t *addrs, ngx_uint_t n)
{
    ngx_etcd_name_t *name = data;

    ngx_uint_t            i;
    ngx_resolver_addr_t  *lowest;

    lowest = NULL;

    for (i = 0; i < n; i++) {

        if (addrs[i].socklen > sizeof(ngx_sockaddr_t)) {
            continue;
        }

        name->found = 1;

        if (ngx_etcd_name_has(name, &addrs[i])) {
            return;
        }

        if (lowest == NULL
            || addrs[i].socklen < lowest->socklen
            || (addrs[i].socklen == lowest->socklen
                && ngx_memcmp(addrs[i].sockaddr, lowest->sockaddr,
                              lowest->socklen)
                   < 0))
        {
            lowest = &addrs[i];
        }
    }

    if (lowest != NULL) {
        ngx_etcd_name_take(name, lowest);
    }
}


static ngx_uint_t
ngx_etcd_name_has(ngx_etcd_name_t *name, ngx_resolver_addr_t *addr)
{
    return name->known
           && ngx_cmp_sockaddr(&name->sockaddr.sockaddr, name->socklen,
                               addr->sockaddr, addr->socklen, 0)
              == NGX_OK;
}


static void
ngx_etcd_name_take(ngx_etcd_name_t *name, ngx_resolver_addr_t *addr)
{
    ngx_memcpy(&name->sockaddr, addr->sockaddr, addr->socklen);
    ngx_inet_set_port(&name->sockaddr.sockaddr, name->lookup.port);

    name->socklen = addr->socklen;
    name->len = ngx_sock_ntop(&name->sockaddr.sockaddr, name->socklen,
                              name->address, NGX_SOCKADDR_STRLEN, 1);
    name->known = 1;
    name->changed = 1;
}


/* the last thing that is done with the name: it may be forgotten now */

static void
ngx_etcd_name_done(void *data)
{
    ngx_etcd_name_t *name = data;

    ngx_etcd_names_t  *names;

    names = name->names;
    name->asking = 0;

    if (!name->found) {
        ngx_add_timer(&names->timer, NGX_ETCD_NAMES_RETRY);

        if (name->known) {
            return;
        }

        name->reason = name->lookup.reason;

    } else if (!name->changed) {
        return;
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
