
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_resolver.h>


struct ngx_etcd_resolver_s {
    ngx_etcd_resolver_conf_t     conf;
    ngx_rbtree_t                 names;
    ngx_rbtree_node_t            sentinel;
    ngx_queue_t                  waiting;      /* for a query, FIFO */
    ngx_uint_t                   nasking;
};


struct ngx_etcd_resolver_name_s {
    ngx_str_node_t               sn;           /* must be first */
    ngx_etcd_resolver_t         *resolver;
    ngx_queue_t                  users;
    ngx_etcd_resolver_state_e    state;
    ngx_queue_t                  queue;        /* WAITING */
    ngx_etcd_lookup_t           *lookup;       /* ASKING */
    ngx_event_t                  timer;        /* RESTING */
    ngx_uint_t                   failures;     /* since the last answer */
    ngx_etcd_causes_t            causes;       /* of those */

    ngx_etcd_resolver_answer_t   known;
    ngx_etcd_resolver_answer_t   found;        /* ASKING: the new answer;
                                                  otherwise only the
                                                  counters of the last
                                                  answer, as logged */

    size_t                       reason_len;
    u_char                       reason[NGX_ETCD_LOOKUP_REASON];

    unsigned                     telling:1;    /* users are being called */
};


static void ngx_etcd_resolver_ask(ngx_etcd_resolver_name_t *name);


static void
ngx_etcd_resolver_rest(ngx_etcd_resolver_name_t *name, ngx_msec_t delay)
{
    name->state = NGX_ETCD_RESOLVER_RESTING;
    ngx_add_timer(&name->timer, delay);
}


static int ngx_libc_cdecl
ngx_etcd_resolver_cmp(const void *one, const void *two)
{
    const ngx_etcd_resolver_address_t  *a, *b;

    a = one;
    b = two;

    if (a->socklen != b->socklen) {
        return (a->socklen < b->socklen) ? -1 : 1;
    }

    return ngx_memcmp(&a->sockaddr, &b->sockaddr, a->socklen);
}


void
ngx_etcd_resolver_sort(ngx_etcd_resolver_address_t *elts, ngx_uint_t n)
{
    ngx_qsort(elts, n, sizeof(ngx_etcd_resolver_address_t),
              ngx_etcd_resolver_cmp);
}


/* Removes duplicates and the addresses above the limit. */

static void
ngx_etcd_resolver_limit(ngx_etcd_resolver_name_t *name)
{
    ngx_uint_t                    i, n;
    ngx_etcd_resolver_conf_t     *conf;
    ngx_etcd_resolver_answer_t   *found;
    ngx_etcd_resolver_address_t  *elts;

    conf = &name->resolver->conf;
    found = &name->found;
    elts = found->elts;
    n = 0;

    for (i = 0; i < found->n; i++) {
        if (n == 0 || ngx_etcd_resolver_cmp(&elts[n - 1], &elts[i]) != 0) {
            elts[n++] = elts[i];
        }
    }

    if (n > NGX_ETCD_RESOLVER_ADDRESSES && found->beyond == 0) {
        ngx_log_error(NGX_LOG_WARN, conf->log, 0,
                      "etcd: upstream \"%V\": host \"%V\" has %ui addresses, "
                      "%d of them are used", conf->upstream, &name->sn.str, n,
                      NGX_ETCD_RESOLVER_ADDRESSES);
    }

    found->n = ngx_min(n, NGX_ETCD_RESOLVER_ADDRESSES);
    found->beyond = n - found->n;
}


/*
 * Name servers rotate their answers.  Sorting makes equal sets equal, and
 * selects the same addresses from an answer above the limit.
 */

static void
ngx_etcd_resolver_found(void *data, ngx_resolver_addr_t *addrs, ngx_uint_t n)
{
    ngx_etcd_resolver_name_t *name = data;

    char                         *why;
    size_t                        len;
    u_char                        text[NGX_SOCKADDR_STRLEN];
    ngx_uint_t                    i, refused;
    ngx_etcd_resolver_conf_t     *conf;
    ngx_etcd_resolver_answer_t   *found;
    ngx_etcd_resolver_address_t  *address;

    conf = &name->resolver->conf;
    found = &name->found;

    found->n = 0;
    found->elts = ngx_calloc(ngx_max(n, 1)
                             * sizeof(ngx_etcd_resolver_address_t), conf->log);
    if (found->elts == NULL) {
        return;
    }

    refused = 0;

    for (i = 0; i < n; i++) {

        why = conf->refuse ? conf->refuse(conf->data, addrs[i].sockaddr)
                           : NULL;

        if (why != NULL || addrs[i].socklen > sizeof(ngx_sockaddr_t)) {

            /* the first one is logged, until an answer has none */

            if (found->refused == 0 && refused == 0 && why != NULL) {
                len = ngx_sock_ntop(addrs[i].sockaddr, addrs[i].socklen, text,
                                    NGX_SOCKADDR_STRLEN, 0);

                ngx_log_error(NGX_LOG_ERR, conf->log, 0,
                              "etcd: upstream \"%V\": address %*s of host "
                              "\"%V\" is not used: it %s", conf->upstream, len,
                              text, &name->sn.str, why);
            }

            refused++;
            continue;
        }

        address = &found->elts[found->n++];
        address->socklen = addrs[i].socklen;
        ngx_memcpy(&address->sockaddr, addrs[i].sockaddr, address->socklen);
        ngx_inet_set_port(&address->sockaddr.sockaddr, 0);
    }

    found->refused = refused;

    ngx_etcd_resolver_sort(found->elts, found->n);
    ngx_etcd_resolver_limit(name);
}


/* Returns 1 if the answer changed. */

static ngx_uint_t
ngx_etcd_resolver_succeeded(ngx_etcd_resolver_name_t *name)
{
    ngx_etcd_resolver_conf_t  *conf;

    if (ngx_etcd_cause_forget(&name->causes)) {
        conf = &name->resolver->conf;

        ngx_log_error(NGX_LOG_NOTICE, conf->log, 0,
                      "etcd: upstream \"%V\": host \"%V\" is resolved again",
                      conf->upstream, &name->sn.str);
    }

    name->failures = 0;
    name->reason_len = 0;

    if (name->known.n == name->found.n
        && name->known.refused == name->found.refused
        && name->known.beyond == name->found.beyond
        && ngx_memcmp(name->known.elts, name->found.elts,
                      name->known.n * sizeof(ngx_etcd_resolver_address_t))
           == 0)
    {
        return 0;
    }

    ngx_free(name->known.elts);

    name->known = name->found;
    name->found.elts = NULL;

    return 1;
}


/* Returns 1 if there is no answer and the reason changed. */

static ngx_uint_t
ngx_etcd_resolver_failed(ngx_etcd_resolver_name_t *name, ngx_str_t *reason)
{
    size_t                     len;
    ngx_uint_t                 changed;
    ngx_etcd_resolver_conf_t  *conf;

    conf = &name->resolver->conf;

    name->failures++;

    if (ngx_etcd_cause_level(&name->causes, 0, reason) == NGX_LOG_ERR) {
        ngx_log_error(NGX_LOG_ERR, conf->log, 0,
                      "etcd: upstream \"%V\": host \"%V\": %V%s",
                      conf->upstream, &name->sn.str, reason,
                      name->known.n ? ", its last addresses stay" : "");
    }

    len = ngx_min(reason->len, NGX_ETCD_LOOKUP_REASON);

    changed = (len != name->reason_len
               || ngx_memcmp(name->reason, reason->data, len) != 0);

    name->reason_len = len;
    ngx_memcpy(name->reason, reason->data, len);

    return name->known.n == 0 && changed;
}


static void
ngx_etcd_resolver_next(ngx_etcd_resolver_t *resolver)
{
    ngx_queue_t  *q;

    while (!ngx_queue_empty(&resolver->waiting)
           && resolver->nasking < NGX_ETCD_RESOLVER_MAX_ASKING)
    {
        q = ngx_queue_head(&resolver->waiting);
        ngx_queue_remove(q);

        ngx_etcd_resolver_ask(ngx_queue_data(q, ngx_etcd_resolver_name_t,
                                             queue));
    }
}


static void
ngx_etcd_resolver_forget(ngx_etcd_resolver_name_t *name)
{
    ngx_etcd_resolver_t  *resolver;

    resolver = name->resolver;

    switch (name->state) {

    case NGX_ETCD_RESOLVER_WAITING:
        ngx_queue_remove(&name->queue);
        break;

    case NGX_ETCD_RESOLVER_ASKING:
        ngx_etcd_lookup_cancel(name->lookup);
        ngx_free(name->lookup);
        resolver->nasking--;
        break;

    case NGX_ETCD_RESOLVER_RESTING:
        ngx_del_timer(&name->timer);
        break;
    }

    ngx_free(name->known.elts);
    ngx_free(name->found.elts);

    ngx_rbtree_delete(&resolver->names, &name->sn.node);
    ngx_free(name);

    ngx_etcd_resolver_next(resolver);
}


/*
 * changed() may add and remove any user, the last one too.  Pending users are
 * at the head of the queue; a user is moved to the tail before it is called.
 */

static void
ngx_etcd_resolver_tell(ngx_etcd_resolver_name_t *name)
{
    ngx_queue_t              *q;
    ngx_etcd_resolver_use_t  *use;

    for (q = ngx_queue_head(&name->users);
         q != ngx_queue_sentinel(&name->users);
         q = ngx_queue_next(q))
    {
        use = ngx_queue_data(q, ngx_etcd_resolver_use_t, queue);
        use->pending = 1;
    }

    name->telling = 1;

    while (!ngx_queue_empty(&name->users)) {
        q = ngx_queue_head(&name->users);
        use = ngx_queue_data(q, ngx_etcd_resolver_use_t, queue);

        if (!use->pending) {
            break;
        }

        use->pending = 0;
        ngx_queue_remove(q);
        ngx_queue_insert_tail(&name->users, q);

        use->changed(use);
    }

    name->telling = 0;

    if (ngx_queue_empty(&name->users)) {
        ngx_etcd_resolver_forget(name);
    }
}


static void
ngx_etcd_resolver_answered(void *data)
{
    ngx_etcd_resolver_name_t *name = data;

    ngx_str_t            *reason;
    ngx_uint_t            changed;
    ngx_msec_t            delay;
    ngx_etcd_lookup_t    *lookup;
    ngx_etcd_resolver_t  *resolver;

    static ngx_str_t  none =
        ngx_string("there is no address that may be used");

    resolver = name->resolver;
    lookup = name->lookup;

    if (name->found.n != 0) {
        changed = ngx_etcd_resolver_succeeded(name);

    } else {
        reason = lookup->reason.len ? &lookup->reason : &none;
        changed = ngx_etcd_resolver_failed(name, reason);
    }

    ngx_free(name->found.elts);
    name->found.elts = NULL;

    name->found.n = 0;

    resolver->nasking--;

    if (name->failures != 0) {
        delay = ngx_min((ngx_msec_t) NGX_ETCD_RESOLVER_RETRY
                        << ngx_min(name->failures - 1, 8),
                        NGX_ETCD_RESOLVER_MAX_RETRY);

    } else {

        /* nginx's resolver caches the answer until the end of that second */

        delay = ngx_max((lookup->valid - ngx_time() + 1) * 1000,
                        NGX_ETCD_RESOLVER_AGAIN);
    }

    ngx_etcd_resolver_rest(name, delay);

    ngx_free(lookup);
    name->lookup = NULL;

    if (changed) {
        ngx_etcd_resolver_tell(name);
    }

    ngx_etcd_resolver_next(resolver);
}


static void
ngx_etcd_resolver_ask(ngx_etcd_resolver_name_t *name)
{
    ngx_etcd_lookup_t         *lookup;
    ngx_etcd_resolver_t       *resolver;
    ngx_etcd_resolver_conf_t  *conf;

    resolver = name->resolver;
    conf = &resolver->conf;

    if (resolver->nasking == NGX_ETCD_RESOLVER_MAX_ASKING) {
        name->state = NGX_ETCD_RESOLVER_WAITING;
        ngx_queue_insert_tail(&resolver->waiting, &name->queue);
        return;
    }

    lookup = ngx_calloc(sizeof(ngx_etcd_lookup_t), conf->log);
    if (lookup == NULL) {
        ngx_etcd_resolver_rest(name, NGX_ETCD_RESOLVER_MAX_RETRY);
        return;
    }

    lookup->resolver = conf->resolver;
    lookup->timeout = conf->timeout;
    lookup->name = name->sn.str;
    lookup->found = ngx_etcd_resolver_found;
    lookup->done = ngx_etcd_resolver_answered;
    lookup->data = name;

    name->lookup = lookup;
    name->state = NGX_ETCD_RESOLVER_ASKING;
    resolver->nasking++;

    ngx_etcd_lookup_start(lookup, conf->log);
}


static void
ngx_etcd_resolver_timer(ngx_event_t *ev)
{
    ngx_etcd_resolver_ask(ev->data);
}


ngx_etcd_resolver_t *
ngx_etcd_resolver_create(ngx_etcd_resolver_conf_t *conf, ngx_pool_t *pool)
{
    ngx_etcd_resolver_t  *resolver;

    resolver = ngx_pcalloc(pool, sizeof(ngx_etcd_resolver_t));
    if (resolver == NULL) {
        return NULL;
    }

    resolver->conf = *conf;

    ngx_rbtree_init(&resolver->names, &resolver->sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_queue_init(&resolver->waiting);

    return resolver;
}


/* Finds the name, or creates it and starts a query. */

static ngx_etcd_resolver_name_t *
ngx_etcd_resolver_get(ngx_etcd_resolver_t *resolver, ngx_str_t *text)
{
    uint32_t                   hash;
    ngx_etcd_resolver_name_t  *name;

    hash = ngx_murmur_hash2(text->data, text->len);

    name = (ngx_etcd_resolver_name_t *) ngx_str_rbtree_lookup(&resolver->names,
                                                              text, hash);
    if (name != NULL) {
        return name;
    }

    name = ngx_calloc(sizeof(ngx_etcd_resolver_name_t) + text->len,
                      resolver->conf.log);
    if (name == NULL) {
        return NULL;
    }

    name->sn.node.key = hash;
    name->sn.str.len = text->len;
    name->sn.str.data = (u_char *) name + sizeof(ngx_etcd_resolver_name_t);
    ngx_memcpy(name->sn.str.data, text->data, text->len);

    name->resolver = resolver;

    ngx_etcd_event_init_timer(&name->timer, ngx_etcd_resolver_timer, name,
                              resolver->conf.log);

    ngx_queue_init(&name->users);
    ngx_rbtree_insert(&resolver->names, &name->sn.node);

    ngx_etcd_resolver_ask(name);

    return name;
}


ngx_int_t
ngx_etcd_resolver_use(ngx_etcd_resolver_t *resolver,
    ngx_etcd_resolver_use_t *use, ngx_str_t *text)
{
    ngx_etcd_resolver_name_t  *name;

    name = ngx_etcd_resolver_get(resolver, text);
    if (name == NULL) {
        return NGX_ERROR;
    }

    if (use->name == name) {
        return NGX_OK;
    }

    ngx_etcd_resolver_unuse(use);

    use->name = name;
    use->pending = 0;
    ngx_queue_insert_tail(&name->users, &use->queue);

    return NGX_OK;
}


void
ngx_etcd_resolver_unuse(ngx_etcd_resolver_use_t *use)
{
    ngx_etcd_resolver_name_t  *name;

    name = use->name;

    if (name == NULL) {
        return;
    }

    ngx_queue_remove(&use->queue);
    use->name = NULL;

    if (ngx_queue_empty(&name->users) && !name->telling) {
        ngx_etcd_resolver_forget(name);
    }
}


ngx_etcd_resolver_answer_t *
ngx_etcd_resolver_answer(ngx_etcd_resolver_use_t *use, ngx_str_t *reason)
{
    reason->data = use->name->reason;
    reason->len = use->name->reason_len;

    return &use->name->known;
}


ngx_etcd_resolver_address_t *
ngx_etcd_resolver_choose(ngx_etcd_resolver_answer_t *answer,
    struct sockaddr *current)
{
    ngx_uint_t                    i;
    ngx_etcd_resolver_address_t  *address;

    for (i = 0; i < answer->n && current != NULL; i++) {
        address = &answer->elts[i];

        if (current->sa_family == address->sockaddr.sockaddr.sa_family
            && ngx_cmp_sockaddr(current, address->socklen,
                                &address->sockaddr.sockaddr,
                                address->socklen, 0)
               == NGX_OK)
        {
            return address;
        }
    }

    return answer->elts;
}


ngx_str_t *
ngx_etcd_resolver_text(ngx_etcd_resolver_name_t *name)
{
    return &name->sn.str;
}
