
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_named.h>
#include <ngx_etcd_registration.h>


static void ngx_etcd_service_addresses(ngx_etcd_key_t *key,
    ngx_etcd_use_t *use, ngx_etcd_host_addresses_t *addresses);
static ngx_etcd_host_address_t *ngx_etcd_service_sole(
    ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    ngx_etcd_member_t *member, ngx_etcd_host_addresses_t *addresses);
static ngx_int_t ngx_etcd_service_unresolved(ngx_etcd_service_t *service,
    ngx_etcd_key_t *key, Etcd__KeyValue *kv, ngx_etcd_member_t *member,
    ngx_str_t *reason);
static ngx_uint_t ngx_etcd_service_share(ngx_uint_t weight, ngx_uint_t n,
    ngx_uint_t i);
static void ngx_etcd_service_again(void *data, ngx_etcd_key_t *key);
static ngx_int_t ngx_etcd_service_known(ngx_etcd_key_t *key,
    Etcd__KeyValue *kv, ngx_array_t *members);
static void ngx_etcd_service_template(ngx_etcd_member_t *member,
    ngx_etcd_record_t *record);


ngx_int_t
ngx_etcd_service_named_create(ngx_etcd_service_t *service, ngx_pool_t *pool)
{
    if (service->conf->member.resolver == NULL) {
        return NGX_OK;
    }

    service->hosts = ngx_etcd_hosts_create(&service->conf->member,
                                           &service->conf->name, pool,
                                           ngx_etcd_service_again, service,
                                           service->log);

    return (service->hosts != NULL) ? NGX_OK : NGX_ERROR;
}


void
ngx_etcd_service_adopt(ngx_etcd_service_t *service)
{
    ngx_queue_t        *q;
    ngx_etcd_key_t     *key;
    ngx_etcd_reg_t     *reg;
    ngx_etcd_member_t   member;
    ngx_etcd_record_t   record;

    if (service->hosts == NULL) {
        return;
    }

    for (q = ngx_queue_head(&service->index.present);
         q != ngx_queue_sentinel(&service->index.present);
         q = ngx_queue_next(q))
    {
        key = ngx_queue_data(q, ngx_etcd_key_t, queue);

        for (reg = key->regs; reg != NULL; reg = reg->next) {
            ngx_etcd_record_unpack(&record,
                                   ngx_etcd_entry_payload(reg->entry));

            if (record.host.len == 0) {
                continue;
            }

            ngx_etcd_service_template(&member, &record);

            if (ngx_etcd_host_use(service->hosts, &key->uses, key, &member)
                == NULL)
            {
                service->broken = 1;
                return;
            }
        }
    }
}


ngx_int_t
ngx_etcd_service_named(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    Etcd__KeyValue *kv, ngx_etcd_member_t *member)
{
    ngx_int_t                   rc;
    ngx_str_t                   reason;
    ngx_uint_t                  i, n;
    ngx_etcd_use_t             *use;
    ngx_etcd_reg_t             *reg;
    ngx_etcd_member_t           one;
    ngx_etcd_host_address_t    *address, elts[NGX_ETCD_HOST_ADDRESSES];
    ngx_etcd_host_addresses_t  *addresses, kept;

    use = ngx_etcd_host_use(service->hosts, &key->uses, key, member);
    if (use == NULL) {
        service->broken = 1;
        return NGX_ERROR;
    }

    addresses = ngx_etcd_host_addresses(use->host, &reason);

    if (addresses->n == 0) {
        kept.elts = elts;
        ngx_etcd_service_addresses(key, use, &kept);
        addresses = &kept;
    }

    n = addresses->n;

    if (n == 0) {
        return ngx_etcd_service_unresolved(service, key, kv, member, &reason);
    }

    one = *member;
    address = addresses->elts;

    if (service->leader != NULL
        && ngx_etcd_role_sole(service->leader->conf->role))
    {
        address = ngx_etcd_service_sole(service, key, &one, addresses);
        n = 1;
    }

    one.whole = member->attr.weight;
    one.refused = addresses->refused;
    one.beyond = addresses->beyond;

    for (i = 0; i < n; i++) {
        one.attr.weight = ngx_etcd_service_share(one.whole, n, i);

        ngx_etcd_address_resolved(&one, &address[i].sockaddr,
                                  address[i].socklen);

        /* of two members with one address the first one holds */

        reg = ngx_etcd_index_reg(&service->index, key,
                                 (u_char *) &one.sockaddr, one.socklen);

        if (reg != NULL && reg->seen) {
            continue;
        }

        rc = ngx_etcd_service_member(service, key, kv, &one);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


/*
 * There is one leader: at the address that the key has already, as long as the
 * host has it, too, or at the lowest one.  The member is made up for it.
 */

static ngx_etcd_host_address_t *
ngx_etcd_service_sole(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    ngx_etcd_member_t *member, ngx_etcd_host_addresses_t *addresses)
{
    ngx_uint_t                i;
    ngx_etcd_host_address_t  *address;

    for (i = 0; i < addresses->n; i++) {
        address = &addresses->elts[i];

        ngx_etcd_address_resolved(member, &address->sockaddr,
                                  address->socklen);

        if (ngx_etcd_index_reg(&service->index, key,
                               (u_char *) &member->sockaddr, member->socklen)
            != NULL)
        {
            return address;
        }
    }

    return addresses->elts;
}


/* those that the key has of the host: a former agent knew them */

static void
ngx_etcd_service_addresses(ngx_etcd_key_t *key, ngx_etcd_use_t *use,
    ngx_etcd_host_addresses_t *addresses)
{
    ngx_str_t                *name;
    ngx_etcd_reg_t           *reg;
    ngx_etcd_record_t         record;
    ngx_etcd_host_address_t  *address;

    addresses->n = 0;
    addresses->refused = 0;
    addresses->beyond = 0;

    name = ngx_etcd_host_name(use->host);

    for (reg = key->regs; reg != NULL; reg = reg->next) {
        ngx_etcd_record_unpack(&record, ngx_etcd_entry_payload(reg->entry));

        if (record.host.len != name->len
            || record.unresolved
            || record.port != use->port
            || ngx_memcmp(record.host.data, name->data, name->len) != 0
            || addresses->n == NGX_ETCD_HOST_ADDRESSES)
        {
            continue;
        }

        addresses->refused = record.refused;
        addresses->beyond = record.beyond;

        address = &addresses->elts[addresses->n++];

        ngx_memzero(address, sizeof(ngx_etcd_host_address_t));
        ngx_memcpy(&address->sockaddr, record.sockaddr, record.socklen);

        address->socklen = record.socklen;
        ngx_inet_set_port(&address->sockaddr.sockaddr, 0);
    }

    ngx_etcd_host_sort(addresses->elts, addresses->n);
}


/* it is shown, with the reason, and nobody is sent there */

static ngx_int_t
ngx_etcd_service_unresolved(ngx_etcd_service_t *service, ngx_etcd_key_t *key,
    Etcd__KeyValue *kv, ngx_etcd_member_t *member, ngx_str_t *reason)
{
    ngx_etcd_member_t  one;

    one = *member;
    one.whole = member->attr.weight;

    ngx_etcd_address_unresolved(&one);

    one.name_len = reason->len;
    ngx_memcpy(one.name, reason->data, reason->len);

    return ngx_etcd_service_member(service, key, kv, &one);
}


/* together all of it, unless there are more addresses than that */

static ngx_uint_t
ngx_etcd_service_share(ngx_uint_t weight, ngx_uint_t n, ngx_uint_t i)
{
    return ngx_max(weight / n + (i < weight % n ? 1 : 0), 1);
}


/* a name that the key uses has other addresses */

static void
ngx_etcd_service_again(void *data, ngx_etcd_key_t *key)
{
    ngx_etcd_service_t *service = data;

    ngx_pool_t      *pool;
    ngx_array_t      members;
    Etcd__KeyValue   kv;

    /* without its own keys the set stays as it is */

    if (service->broken || key->gone) {
        return;
    }

    pool = ngx_create_pool(4096, service->log);

    if (pool == NULL
        || ngx_array_init(&members, pool, 4, sizeof(ngx_etcd_member_t))
           != NGX_OK
        || ngx_etcd_service_known(key, &kv, &members) != NGX_OK)
    {
        service->broken = 1;

    } else if (ngx_etcd_service_members(service, key, &kv, &members)
               != NGX_OK)
    {
        /* there was no room: the next list finds that it was not read */

        key->revision = 0;
    }

    if (pool != NULL) {
        ngx_destroy_pool(pool);
    }

    ngx_post_event(&service->publish, &ngx_posted_events);
}


/* the members of a key, and its revisions, as they were read last */

static ngx_int_t
ngx_etcd_service_known(ngx_etcd_key_t *key, Etcd__KeyValue *kv,
    ngx_array_t *members)
{
    ngx_etcd_reg_t     *reg;
    ngx_etcd_use_t     *use;
    ngx_etcd_entry_t   *entry;
    ngx_etcd_member_t  *member;
    ngx_etcd_record_t   record;

    etcd__key_value__init(kv);

    for (reg = key->regs; reg != NULL; reg = reg->next) {
        entry = reg->entry;
        kv->create_revision = entry->create_revision;
        kv->mod_revision = ngx_max(kv->mod_revision,
                                   (int64_t) reg->node.revision);

        ngx_etcd_record_unpack(&record, ngx_etcd_entry_payload(entry));

        if (record.host.len != 0) {
            continue;
        }

        member = ngx_array_push(members);
        if (member == NULL) {
            return NGX_ERROR;
        }

        ngx_etcd_service_template(member, &record);
    }

    for (use = key->uses; use != NULL; use = use->next) {
        member = ngx_array_push(members);
        if (member == NULL) {
            return NGX_ERROR;
        }

        ngx_memzero(member, sizeof(ngx_etcd_member_t));

        member->host = *ngx_etcd_host_name(use->host);
        member->port = use->port;
        member->attr = use->attr;
    }

    return NGX_OK;
}


/* as the member was registered; the host's bytes are the record's */

static void
ngx_etcd_service_template(ngx_etcd_member_t *member, ngx_etcd_record_t *record)
{
    ngx_memzero(member, sizeof(ngx_etcd_member_t));

    member->attr = record->attr;

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
