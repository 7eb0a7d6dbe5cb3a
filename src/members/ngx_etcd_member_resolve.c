
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_address.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_member_diff.h>
#include <ngx_etcd_member_resolve.h>
#include <ngx_etcd_str.h>


ngx_int_t
ngx_etcd_member_resolve_create(ngx_etcd_member_diff_t *diff, ngx_pool_t *pool)
{
    ngx_etcd_member_conf_t    *member;
    ngx_etcd_resolver_conf_t   conf;

    diff->hosts.member = ngx_etcd_member_resolve_member;
    member = diff->member;

    if (member->resolver == NULL) {
        return NGX_OK;
    }

    ngx_memzero(&conf, sizeof(ngx_etcd_resolver_conf_t));

    conf.upstream = diff->name;
    conf.log = diff->log;
    conf.resolver = member->resolver;
    conf.timeout = member->resolver_timeout;
    conf.refuse = ngx_etcd_address_usable;
    conf.data = member;

    diff->hosts.resolver = ngx_etcd_resolver_create(&conf, pool);

    return (diff->hosts.resolver != NULL) ? NGX_OK : NGX_ERROR;
}


/* Copies what a registration says.  NGX_ERROR: diff->broken is set. */

static ngx_int_t
ngx_etcd_member_resolve_read(ngx_etcd_member_diff_t *diff,
    ngx_etcd_reg_t *reg, u_char *payload, ngx_etcd_member_pack_t *record)
{
    if (ngx_etcd_entry_read(diff->zone, reg->entry, payload,
                            NGX_ETCD_MEMBER_PACK_MAX)
        != NGX_OK)
    {
        diff->broken = 1;
        return NGX_ERROR;
    }

    ngx_etcd_member_pack_read(record, payload);

    return NGX_OK;
}


/* Makes the member from a registration; the host name is in the record. */

static void
ngx_etcd_member_resolve_template(ngx_etcd_member_t *member,
    ngx_etcd_member_pack_t *record)
{
    ngx_memzero(member, sizeof(ngx_etcd_member_t));

    member->attr = record->attr;

    /* the addresses of a host are drained one by one */

    if (member->attr.ordered) {
        member->attr.ordered = 0;
        member->attr.drain = 0;
    }

    if (record->route.len != 0) {
        member->route.len = record->route.len;
        ngx_memcpy(member->route.data, record->route.data, record->route.len);
    }

    if (record->host.len != 0) {
        member->host = record->host;
        member->port = record->port;
        member->attr.weight = record->whole;
        return;
    }

    member->socklen = record->socklen;
    ngx_memcpy(&member->sockaddr, record->sockaddr, record->socklen);

    member->name_len = record->name.len;
    ngx_memcpy(member->name, record->name.data, record->name.len);
}


/* Makes the members and revisions of a key from its registrations. */

static ngx_int_t
ngx_etcd_member_resolve_members(ngx_etcd_member_diff_t *diff,
    ngx_etcd_key_t *key, Etcd__KeyValue *kv, ngx_array_t *members)
{
    u_char                   payload[NGX_ETCD_MEMBER_PACK_MAX];
    ngx_etcd_reg_t          *reg;
    ngx_etcd_member_t       *member;
    ngx_etcd_member_pack_t   record;
    ngx_etcd_member_host_t  *host;

    etcd__key_value__init(kv);

    kv->create_revision = key->entry.create_revision;
    kv->lease = key->entry.lease;

    for (reg = key->regs; reg != NULL; reg = reg->next) {
        kv->mod_revision = ngx_max(kv->mod_revision,
                                   (int64_t) reg->revision);

        if (ngx_etcd_member_resolve_read(diff, reg, payload, &record)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (record.host.len != 0) {
            continue;
        }

        member = ngx_array_push(members);
        if (member == NULL) {
            return NGX_ERROR;
        }

        ngx_etcd_member_resolve_template(member, &record);
    }

    for (host = key->hosts; host != NULL; host = host->next) {
        member = ngx_array_push(members);
        if (member == NULL) {
            return NGX_ERROR;
        }

        ngx_memzero(member, sizeof(ngx_etcd_member_t));

        member->host = *ngx_etcd_resolver_text(host->use.name);
        member->port = host->port;
        member->attr = host->attr;
        member->route = host->route;
    }

    return NGX_OK;
}


/* The addresses of a name that the key uses have changed. */

static void
ngx_etcd_member_resolve_changed(ngx_etcd_resolver_use_t *use)
{
    ngx_pool_t              *pool;
    ngx_array_t              members;
    Etcd__KeyValue           kv;
    ngx_etcd_key_t          *key;
    ngx_etcd_member_diff_t  *diff;
    ngx_etcd_member_host_t  *host;

    host = (ngx_etcd_member_host_t *) use;
    diff = use->data;
    key = host->owner;

    /* a key that is gone keeps its last addresses */

    if (diff->broken || key->gone) {
        return;
    }

    pool = ngx_create_pool(4096, diff->log);

    if (pool == NULL
        || ngx_array_init(&members, pool, 4, sizeof(ngx_etcd_member_t))
           != NGX_OK
        || ngx_etcd_member_resolve_members(diff, key, &kv, &members)
           != NGX_OK)
    {
        diff->broken = 1;

    } else {

        /* after an error all is read again */

        (void) ngx_etcd_member_diff_members(diff, key, &kv, &members);
    }

    if (pool != NULL) {
        ngx_destroy_pool(pool);
    }

    diff->hosts.resolved(diff->hosts.data);
}


static ngx_etcd_member_host_t *
ngx_etcd_member_resolve_get(ngx_etcd_member_diff_t *diff, ngx_etcd_key_t *key,
    ngx_etcd_member_t *member)
{
    ngx_etcd_member_host_t  *host;

    host = ngx_etcd_member_host_get(diff->hosts.resolver, &key->hosts, member,
                                    diff->log);

    if (host != NULL) {
        host->owner = key;
        host->use.changed = ngx_etcd_member_resolve_changed;
        host->use.data = diff;
    }

    return host;
}


static ngx_int_t
ngx_etcd_member_resolve_adopt_key(ngx_etcd_member_diff_t *diff,
    ngx_etcd_key_t *key)
{
    u_char                   payload[NGX_ETCD_MEMBER_PACK_MAX];
    ngx_etcd_reg_t          *reg;
    ngx_etcd_member_t        member;
    ngx_etcd_member_pack_t   record;

    for (reg = key->regs; reg != NULL; reg = reg->next) {
        if (ngx_etcd_member_resolve_read(diff, reg, payload, &record)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (record.host.len == 0) {
            continue;
        }

        ngx_etcd_member_resolve_template(&member, &record);

        if (ngx_etcd_member_resolve_get(diff, key, &member) == NULL) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_member_resolve_adopt(ngx_etcd_member_diff_t *diff, uint64_t until)
{
    ngx_etcd_key_t  *key;

    if (diff->hosts.resolver == NULL) {
        return NGX_OK;
    }

    key = diff->hosts.adopt;

    for (key = key ? key : ngx_etcd_index_first(&diff->index);
         key != NULL;
         key = ngx_etcd_index_next(&diff->index, key))
    {
        if (until != 0 && ngx_etcd_time_budget_now() >= until
            && key != diff->hosts.adopt)
        {
            diff->hosts.adopt = key;
            return NGX_AGAIN;
        }

        if (ngx_etcd_member_resolve_adopt_key(diff, key) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * Reads the addresses that a former agent has registered for the host.
 * NGX_ERROR: diff->broken is set.
 */

static ngx_int_t
ngx_etcd_member_resolve_kept(ngx_etcd_member_diff_t *diff, ngx_etcd_key_t *key,
    ngx_etcd_member_t *member, ngx_etcd_resolver_answer_t *answer)
{
    u_char                        payload[NGX_ETCD_MEMBER_PACK_MAX];
    ngx_etcd_reg_t               *reg;
    ngx_etcd_member_pack_t        record;
    ngx_etcd_resolver_address_t  *address;

    answer->n = 0;
    answer->refused = 0;
    answer->beyond = 0;

    for (reg = key->regs; reg != NULL; reg = reg->next) {
        if (ngx_etcd_member_resolve_read(diff, reg, payload, &record)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (record.unresolved
            || record.port != member->port
            || !ngx_etcd_str_equal(&record.host, &member->host)
            || answer->n == NGX_ETCD_RESOLVER_ADDRESSES)
        {
            continue;
        }

        answer->refused = record.refused;
        answer->beyond = record.beyond;

        address = &answer->elts[answer->n++];

        ngx_memzero(address, sizeof(ngx_etcd_resolver_address_t));
        ngx_memcpy(&address->sockaddr, record.sockaddr, record.socklen);

        address->socklen = record.socklen;
        ngx_inet_set_port(&address->sockaddr.sockaddr, 0);
    }

    ngx_etcd_resolver_sort(answer->elts, answer->n);

    return NGX_OK;
}


/* Registers a member that is shown, with the reason, and gets no requests. */

static ngx_int_t
ngx_etcd_member_resolve_unresolved(ngx_etcd_member_diff_t *diff,
    ngx_etcd_key_t *key, Etcd__KeyValue *kv, ngx_etcd_member_t *member,
    ngx_str_t *reason)
{
    ngx_etcd_member_t  one;

    one = *member;
    one.whole = member->attr.weight;

    ngx_etcd_address_unresolved(&one);

    one.name_len = ngx_min(reason->len, NGX_ETCD_MEMBER_NAME_LEN);
    ngx_memcpy(one.name, reason->data, one.name_len);

    return ngx_etcd_member_diff_member(diff, key, kv, &one);
}


/*
 * Begins with the address that a former agent has registered.  NULL:
 * diff->broken is set.
 */

static ngx_etcd_resolver_address_t *
ngx_etcd_member_resolve_sole(ngx_etcd_member_diff_t *diff, ngx_etcd_key_t *key,
    ngx_etcd_member_host_t *host, ngx_etcd_resolver_answer_t *answer)
{
    u_char                  payload[NGX_ETCD_MEMBER_PACK_MAX];
    ngx_etcd_member_pack_t  record;

    if (host->sole.socklen == 0 && key->regs != NULL) {
        if (ngx_etcd_member_resolve_read(diff, key->regs, payload, &record)
            != NGX_OK)
        {
            return NULL;
        }

        host->sole.socklen = record.socklen;
        ngx_memcpy(&host->sole.sockaddr, record.sockaddr, record.socklen);
    }

    return ngx_etcd_member_host_sole(host, answer);
}


ngx_int_t
ngx_etcd_member_resolve_member(ngx_etcd_member_diff_t *diff,
    ngx_etcd_key_t *key,
    Etcd__KeyValue *kv, ngx_etcd_member_t *member)
{
    ngx_int_t                     rc;
    ngx_str_t                     reason;
    ngx_uint_t                    i, n;
    ngx_etcd_reg_t               *reg;
    ngx_etcd_member_t             one;
    ngx_etcd_member_host_t       *host;
    ngx_etcd_resolver_answer_t   *answer, kept;
    ngx_etcd_resolver_address_t  *address;
    ngx_etcd_resolver_address_t   elts[NGX_ETCD_RESOLVER_ADDRESSES];

    host = ngx_etcd_member_resolve_get(diff, key, member);
    if (host == NULL) {
        diff->broken = 1;
        return NGX_ERROR;
    }

    answer = ngx_etcd_resolver_answer(&host->use, &reason);

    if (answer->n == 0) {
        kept.elts = elts;
        answer = &kept;

        if (ngx_etcd_member_resolve_kept(diff, key, member, &kept) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    n = answer->n;
    address = answer->elts;

    if (n == 0) {
        return ngx_etcd_member_resolve_unresolved(diff, key, kv, member,
                                                  &reason);
    }

    if (diff->sole) {
        address = ngx_etcd_member_resolve_sole(diff, key, host, answer);
        n = 1;

        if (address == NULL) {
            return NGX_ERROR;
        }
    }

    one = *member;
    one.whole = member->attr.weight;
    one.refused = answer->refused;
    one.beyond = answer->beyond;

    for (i = 0; i < n; i++) {

        /* the shares sum up to the weight, unless it is below their number */

        one.attr.weight = ngx_max(one.whole / n + (i < one.whole % n), 1);

        ngx_etcd_address_resolved(&one, &address[i].sockaddr,
                                  address[i].socklen);

        /* the first of two members with one address is registered */

        reg = ngx_etcd_index_reg(&diff->index, key,
                                 (u_char *) &one.sockaddr, one.socklen);

        if (reg != NULL && reg->seen) {
            continue;
        }

        rc = ngx_etcd_member_diff_member(diff, key, kv, &one);
        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_member_resolve_known(ngx_etcd_member_diff_t *diff, ngx_str_t *name,
    ngx_etcd_member_t *member)
{
    ngx_etcd_key_t               *key;
    ngx_etcd_resolver_answer_t    answer;
    ngx_etcd_resolver_address_t   elts[NGX_ETCD_RESOLVER_ADDRESSES];

    key = ngx_etcd_index_find(&diff->index, name);

    if (key == NULL || key->gone) {
        return 0;
    }

    answer.elts = elts;

    if (ngx_etcd_member_resolve_kept(diff, key, member, &answer) != NGX_OK
        || answer.n == 0)
    {
        return 0;
    }

    ngx_etcd_address_resolved(member, &elts[0].sockaddr, elts[0].socklen);

    return 1;
}
