
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_address.h>
#include <ngx_etcd_patroni_member.h>
#include <ngx_etcd_member_resolve.h>


static void ngx_etcd_patroni_member_resolved(ngx_etcd_resolver_use_t *use);


ngx_int_t
ngx_etcd_patroni_member(ngx_etcd_patroni_hosts_t *hosts,
    ngx_etcd_mirror_entry_t *key, ngx_etcd_member_t *member,
    ngx_str_t *reason)
{
    ngx_array_t         members;
    ngx_etcd_leader_t  *leader;

    leader = hosts->leader;
    ngx_str_null(reason);

    if (ngx_array_init(&members, leader->pool, 1, sizeof(ngx_etcd_member_t))
            != NGX_OK
        || ngx_etcd_decode(&leader->service->conf->member, &key->key,
                           &key->value, leader->pool, &members, reason)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    *member = *(ngx_etcd_member_t *) members.elts;

    return ngx_etcd_patroni_member_resolve(hosts, &key->key, member, reason);
}


ngx_int_t
ngx_etcd_patroni_member_resolve(ngx_etcd_patroni_hosts_t *hosts,
    ngx_str_t *key, ngx_etcd_member_t *member, ngx_str_t *reason)
{
    ngx_etcd_service_t           *service;
    ngx_etcd_member_host_t       *host;
    ngx_etcd_resolver_answer_t   *answer;
    ngx_etcd_resolver_address_t  *address;

    ngx_str_null(reason);

    if (member->host.len == 0) {
        return NGX_OK;
    }

    service = hosts->leader->service;

    host = ngx_etcd_member_host_get(service->diff.resolver, &hosts->list,
                                    member, service->log);
    if (host == NULL) {
        ngx_str_set(reason, "no memory");
        return NGX_DECLINED;
    }

    host->use.changed = ngx_etcd_patroni_member_resolved;
    host->use.data = hosts->leader;

    answer = ngx_etcd_resolver_answer(&host->use, reason);

    if (answer->n != 0) {
        address = ngx_etcd_member_host_sole(host, answer);
        ngx_etcd_address_resolved(member, &address->sockaddr,
                                  address->socklen);
        return NGX_OK;
    }

    /* a former agent may have resolved the name */

    if (ngx_etcd_member_resolve_known(&service->diff, key, member)) {
        return NGX_OK;
    }

    return (reason->len != 0) ? NGX_DECLINED : NGX_AGAIN;
}


static void
ngx_etcd_patroni_member_resolved(ngx_etcd_resolver_use_t *use)
{
    ngx_etcd_leader_again(use->data);
}
