
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_host.h>
#include <ngx_etcd_lookup.h>


struct ngx_etcd_hosts_s {
    ngx_etcd_member_conf_t      *conf;
    ngx_str_t                   *upstream;
    ngx_log_t                   *log;
    ngx_rbtree_t                 names;
    ngx_rbtree_node_t            sentinel;
    ngx_queue_t                  waiting;      /* for their turn */
    ngx_uint_t                   nasking;

    void                       (*changed)(void *data, ngx_etcd_key_t *key);
    void                        *data;
};


struct ngx_etcd_host_s {
    ngx_str_node_t               sn;           /* first: in a tree, by name */
    ngx_etcd_hosts_t            *hosts;
    ngx_queue_t                  users;        /* of ngx_etcd_use_t */
    ngx_queue_t                  queue;        /* while it waits */
    ngx_event_t                  timer;        /* to ask again */
    ngx_etcd_lookup_t           *lookup;       /* while it is asked for */
    ngx_uint_t                   failures;

    ngx_etcd_host_addresses_t    known;        /* the last ones */
    ngx_etcd_host_addresses_t    found;        /* by the present lookup; what
                                                  the last one did not use was
                                                  logged, and is counted here */

    size_t                       reason_len;
    u_char                       reason[NGX_ETCD_MEMBER_NAME_LEN];

    unsigned                     waiting:1;
};


static ngx_etcd_host_t *ngx_etcd_host_get(ngx_etcd_hosts_t *hosts,
    ngx_str_t *name);
static void ngx_etcd_host_destroy(ngx_etcd_host_t *host);
static void ngx_etcd_host_ask(ngx_etcd_host_t *host);
static void ngx_etcd_hosts_next(ngx_etcd_hosts_t *hosts);
static void ngx_etcd_host_timer(ngx_event_t *ev);
static void ngx_etcd_host_found(void *data, ngx_resolver_addr_t *addrs,
    ngx_uint_t n);
static void ngx_etcd_host_refuse(ngx_etcd_host_t *host,
    ngx_resolver_addr_t *addr, char *why);
static void ngx_etcd_host_limit(ngx_etcd_host_t *host);
static int ngx_libc_cdecl ngx_etcd_host_cmp(const void *one, const void *two);
static void ngx_etcd_host_done(void *data);
static ngx_uint_t ngx_etcd_host_resolved(ngx_etcd_host_t *host);
static ngx_uint_t ngx_etcd_host_failed(ngx_etcd_host_t *host,
    ngx_str_t *reason);
static ngx_msec_t ngx_etcd_host_delay(ngx_etcd_host_t *host, time_t valid);
static void ngx_etcd_host_changed(ngx_etcd_host_t *host);


ngx_etcd_hosts_t *
ngx_etcd_hosts_create(ngx_etcd_member_conf_t *conf, ngx_str_t *upstream,
    ngx_pool_t *pool, void (*changed)(void *data, ngx_etcd_key_t *key),
    void *data, ngx_log_t *log)
{
    ngx_etcd_hosts_t  *hosts;

    hosts = ngx_pcalloc(pool, sizeof(ngx_etcd_hosts_t));
    if (hosts == NULL) {
        return NULL;
    }

    hosts->conf = conf;
    hosts->upstream = upstream;
    hosts->log = log;
    hosts->changed = changed;
    hosts->data = data;

    ngx_rbtree_init(&hosts->names, &hosts->sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_queue_init(&hosts->waiting);

    return hosts;
}


ngx_etcd_use_t *
ngx_etcd_host_use(ngx_etcd_hosts_t *hosts, ngx_etcd_use_t **uses,
    ngx_etcd_key_t *key, ngx_etcd_member_t *member)
{
    ngx_etcd_use_t   *use;
    ngx_etcd_host_t  *host;

    host = ngx_etcd_host_get(hosts, &member->host);
    if (host == NULL) {
        return NULL;
    }

    for (use = *uses; use != NULL; use = use->next) {
        if (use->host == host && use->port == member->port) {
            break;
        }
    }

    if (use == NULL) {
        use = ngx_calloc(sizeof(ngx_etcd_use_t), hosts->log);

        if (use == NULL) {

            if (ngx_queue_empty(&host->users)) {
                ngx_etcd_host_destroy(host);
            }

            return NULL;
        }

        use->host = host;
        use->key = key;
        use->port = member->port;

        use->next = *uses;
        *uses = use;

        ngx_queue_insert_tail(&host->users, &use->queue);
    }

    use->attr = member->attr;
    use->seen = 1;

    return use;
}


void
ngx_etcd_host_unuse(ngx_etcd_use_t **uses)
{
    ngx_etcd_use_t   *use;
    ngx_etcd_host_t  *host;

    while (*uses != NULL) {
        use = *uses;

        if (use->seen) {
            uses = &use->next;
            continue;
        }

        *uses = use->next;
        host = use->host;

        ngx_queue_remove(&use->queue);
        ngx_free(use);

        if (ngx_queue_empty(&host->users)) {
            ngx_etcd_host_destroy(host);
        }
    }
}


ngx_etcd_host_addresses_t *
ngx_etcd_host_addresses(ngx_etcd_host_t *host, ngx_str_t *reason)
{
    reason->data = host->reason;
    reason->len = host->reason_len;

    return &host->known;
}


ngx_str_t *
ngx_etcd_host_name(ngx_etcd_host_t *host)
{
    return &host->sn.str;
}


/* finds or makes; what is made is asked for */

static ngx_etcd_host_t *
ngx_etcd_host_get(ngx_etcd_hosts_t *hosts, ngx_str_t *name)
{
    uint32_t          hash;
    ngx_etcd_host_t  *host;

    hash = ngx_murmur_hash2(name->data, name->len);

    host = (ngx_etcd_host_t *) ngx_str_rbtree_lookup(&hosts->names, name,
                                                     hash);
    if (host != NULL) {
        return host;
    }

    host = ngx_calloc(sizeof(ngx_etcd_host_t) + name->len, hosts->log);
    if (host == NULL) {
        return NULL;
    }

    host->sn.node.key = hash;
    host->sn.str.len = name->len;
    host->sn.str.data = (u_char *) host + sizeof(ngx_etcd_host_t);
    ngx_memcpy(host->sn.str.data, name->data, name->len);

    host->hosts = hosts;

    host->timer.handler = ngx_etcd_host_timer;
    host->timer.data = host;
    host->timer.log = hosts->log;
    host->timer.cancelable = 1;

    ngx_queue_init(&host->users);
    ngx_rbtree_insert(&hosts->names, &host->sn.node);

    ngx_etcd_host_ask(host);

    return host;
}


static void
ngx_etcd_host_destroy(ngx_etcd_host_t *host)
{
    ngx_etcd_hosts_t  *hosts;

    hosts = host->hosts;

    if (host->waiting) {
        ngx_queue_remove(&host->queue);
    }

    if (host->timer.timer_set) {
        ngx_del_timer(&host->timer);
    }

    if (host->lookup != NULL) {
        ngx_etcd_lookup_cancel(host->lookup);
        ngx_free(host->lookup);
        hosts->nasking--;
    }

    if (host->known.elts != NULL) {
        ngx_free(host->known.elts);
    }

    if (host->found.elts != NULL) {
        ngx_free(host->found.elts);
    }

    ngx_rbtree_delete(&hosts->names, &host->sn.node);
    ngx_free(host);

    ngx_etcd_hosts_next(hosts);
}


static void
ngx_etcd_host_ask(ngx_etcd_host_t *host)
{
    ngx_etcd_hosts_t   *hosts;
    ngx_etcd_lookup_t  *lookup;

    hosts = host->hosts;

    if (hosts->nasking == NGX_ETCD_HOST_ASKING) {
        host->waiting = 1;
        ngx_queue_insert_tail(&hosts->waiting, &host->queue);
        return;
    }

    lookup = ngx_calloc(sizeof(ngx_etcd_lookup_t), hosts->log);
    if (lookup == NULL) {
        ngx_add_timer(&host->timer, NGX_ETCD_HOST_MAX_RETRY);
        return;
    }

    lookup->resolver = hosts->conf->resolver;
    lookup->timeout = hosts->conf->resolver_timeout;
    lookup->name = host->sn.str;
    lookup->found = ngx_etcd_host_found;
    lookup->done = ngx_etcd_host_done;
    lookup->data = host;

    host->lookup = lookup;
    hosts->nasking++;

    ngx_etcd_lookup_start(lookup, hosts->log);
}


static void
ngx_etcd_hosts_next(ngx_etcd_hosts_t *hosts)
{
    ngx_queue_t      *q;
    ngx_etcd_host_t  *host;

    while (!ngx_queue_empty(&hosts->waiting)
           && hosts->nasking < NGX_ETCD_HOST_ASKING)
    {
        q = ngx_queue_head(&hosts->waiting);
        host = ngx_queue_data(q, ngx_etcd_host_t, queue);

        ngx_queue_remove(q);
        host->waiting = 0;

        ngx_etcd_host_ask(host);
    }
}


static void
ngx_etcd_host_timer(ngx_event_t *ev)
{
    ngx_etcd_host_ask(ev->data);
}


/*
 * Name servers turn their answers: sorted, the same addresses are the same,
 * and of too many always the same ones are used.
 */

static void
ngx_etcd_host_found(void *data, ngx_resolver_addr_t *addrs, ngx_uint_t n)
{
    ngx_etcd_host_t *host = data;

    char                       *why;
    ngx_uint_t                  i, refused;
    ngx_etcd_host_address_t    *address;
    ngx_etcd_host_addresses_t  *found;

    found = &host->found;

    found->n = 0;
    found->elts = ngx_calloc(ngx_max(n, 1) * sizeof(ngx_etcd_host_address_t),
                             host->hosts->log);
    if (found->elts == NULL) {
        return;
    }

    refused = 0;

    for (i = 0; i < n; i++) {

        why = ngx_etcd_address_usable(host->hosts->conf, addrs[i].sockaddr);

        if (why != NULL || addrs[i].socklen > sizeof(ngx_sockaddr_t)) {

            if (found->refused == 0 && refused == 0 && why != NULL) {
                ngx_etcd_host_refuse(host, &addrs[i], why);
            }

            refused++;
            continue;
        }

        address = &found->elts[found->n++];
        address->socklen = addrs[i].socklen;
        ngx_memcpy(&address->sockaddr, addrs[i].sockaddr, address->socklen);
    }

    found->refused = refused;

    ngx_etcd_host_sort(found->elts, found->n);
    ngx_etcd_host_limit(host);
}


/* the first of an answer that cannot be used, until there is none */

static void
ngx_etcd_host_refuse(ngx_etcd_host_t *host, ngx_resolver_addr_t *addr,
    char *why)
{
    size_t  len;
    u_char  text[NGX_SOCKADDR_STRLEN];

    len = ngx_sock_ntop(addr->sockaddr, addr->socklen, text,
                        NGX_SOCKADDR_STRLEN, 0);

    ngx_log_error(NGX_LOG_ERR, host->hosts->log, 0,
                  "etcd: upstream \"%V\": address %*s of host \"%V\" is not "
                  "used: it %s", host->hosts->upstream, len, text,
                  &host->sn.str, why);
}


/* no address twice, and not more than may be */

static void
ngx_etcd_host_limit(ngx_etcd_host_t *host)
{
    ngx_uint_t                  i, n;
    ngx_etcd_host_address_t    *elts;
    ngx_etcd_host_addresses_t  *found;

    found = &host->found;
    elts = found->elts;
    n = 0;

    for (i = 0; i < found->n; i++) {
        if (n == 0 || ngx_etcd_host_cmp(&elts[n - 1], &elts[i]) != 0) {
            elts[n++] = elts[i];
        }
    }

    if (n > NGX_ETCD_HOST_ADDRESSES && found->beyond == 0) {
        ngx_log_error(NGX_LOG_WARN, host->hosts->log, 0,
                      "etcd: upstream \"%V\": host \"%V\" has %ui addresses, "
                      "%d of them are used", host->hosts->upstream,
                      &host->sn.str, n, NGX_ETCD_HOST_ADDRESSES);
    }

    found->n = ngx_min(n, NGX_ETCD_HOST_ADDRESSES);
    found->beyond = n - found->n;
}


void
ngx_etcd_host_sort(ngx_etcd_host_address_t *addresses, ngx_uint_t n)
{
    ngx_qsort(addresses, n, sizeof(ngx_etcd_host_address_t),
              ngx_etcd_host_cmp);
}


/* what is behind an address is zero: the bytes are compared */

static int ngx_libc_cdecl
ngx_etcd_host_cmp(const void *one, const void *two)
{
    const ngx_etcd_host_address_t  *a, *b;

    a = one;
    b = two;

    if (a->socklen != b->socklen) {
        return (a->socklen < b->socklen) ? -1 : 1;
    }

    return ngx_memcmp(&a->sockaddr, &b->sockaddr, a->socklen);
}


static void
ngx_etcd_host_done(void *data)
{
    ngx_etcd_host_t *host = data;

    time_t             valid;
    ngx_str_t          reason;
    ngx_uint_t         changed;
    ngx_etcd_hosts_t  *hosts;

    hosts = host->hosts;
    reason = host->lookup->reason;
    valid = host->lookup->valid;

    if (host->found.n != 0) {
        changed = ngx_etcd_host_resolved(host);

    } else {
        if (reason.len == 0) {
            ngx_str_set(&reason, "there is no address that may be used");
        }

        changed = ngx_etcd_host_failed(host, &reason);
    }

    if (host->found.elts != NULL) {
        ngx_free(host->found.elts);
        host->found.elts = NULL;
    }

    host->found.n = 0;

    ngx_free(host->lookup);
    host->lookup = NULL;
    hosts->nasking--;

    ngx_add_timer(&host->timer, ngx_etcd_host_delay(host, valid));

    if (changed) {
        ngx_etcd_host_changed(host);
    }

    ngx_etcd_hosts_next(hosts);
}


/* 1: there are other addresses than before, or others are not used */

static ngx_uint_t
ngx_etcd_host_resolved(ngx_etcd_host_t *host)
{
    ngx_uint_t                  i;
    ngx_etcd_host_addresses_t  *known, *found;

    known = &host->known;
    found = &host->found;

    if (host->failures != 0) {
        ngx_log_error(NGX_LOG_NOTICE, host->hosts->log, 0,
                      "etcd: upstream \"%V\": host \"%V\" is resolved again",
                      host->hosts->upstream, &host->sn.str);
    }

    host->failures = 0;
    host->reason_len = 0;

    for (i = 0; i < known->n && known->n == found->n; i++) {
        if (ngx_etcd_host_cmp(&known->elts[i], &found->elts[i]) != 0) {
            break;
        }
    }

    if (known->n == found->n
        && i == known->n
        && known->refused == found->refused
        && known->beyond == found->beyond)
    {
        return 0;
    }

    if (known->elts != NULL) {
        ngx_free(known->elts);
    }

    *known = *found;
    found->elts = NULL;

    return 1;
}


/* 1: nothing is known, and that for another reason than before */

static ngx_uint_t
ngx_etcd_host_failed(ngx_etcd_host_t *host, ngx_str_t *reason)
{
    size_t      len;
    ngx_uint_t  changed;

    if (host->failures++ == 0) {
        ngx_log_error(NGX_LOG_ERR, host->hosts->log, 0,
                      "etcd: upstream \"%V\": host \"%V\": %V%s",
                      host->hosts->upstream, &host->sn.str, reason,
                      host->known.n ? ", its last addresses stay" : "");
    }

    len = ngx_min(reason->len, NGX_ETCD_MEMBER_NAME_LEN);

    changed = (len != host->reason_len
               || ngx_memcmp(host->reason, reason->data, len) != 0);

    host->reason_len = len;
    ngx_memcpy(host->reason, reason->data, len);

    return host->known.n == 0 && changed;
}


static ngx_msec_t
ngx_etcd_host_delay(ngx_etcd_host_t *host, time_t valid)
{
    if (host->failures != 0) {
        return ngx_min((ngx_msec_t) NGX_ETCD_HOST_RETRY
                       << ngx_min(host->failures - 1, 8),
                       NGX_ETCD_HOST_MAX_RETRY);
    }

    /* the resolver has it up to and with that second */

    return ngx_max((valid - ngx_time() + 1) * 1000, NGX_ETCD_HOST_AGAIN);
}


/* each of them still uses the name afterwards */

static void
ngx_etcd_host_changed(ngx_etcd_host_t *host)
{
    ngx_queue_t     *q, *next;
    ngx_etcd_use_t  *use;

    for (q = ngx_queue_head(&host->users);
         q != ngx_queue_sentinel(&host->users);
         q = next)
    {
        next = ngx_queue_next(q);
        use = ngx_queue_data(q, ngx_etcd_use_t, queue);

        host->hosts->changed(host->hosts->data, use->key);
    }
}
