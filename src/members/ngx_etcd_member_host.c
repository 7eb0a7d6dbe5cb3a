
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_host.h>
#include <ngx_etcd_str.h>


void
ngx_etcd_member_host_mark(ngx_etcd_member_host_t *hosts)
{
    ngx_etcd_member_host_t  *host;

    for (host = hosts; host != NULL; host = host->next) {
        host->seen = 0;
    }
}


ngx_etcd_member_host_t *
ngx_etcd_member_host_get(ngx_etcd_resolver_t *resolver,
    ngx_etcd_member_host_t **hosts, ngx_etcd_member_t *member, ngx_log_t *log)
{
    ngx_str_t               *name;
    ngx_etcd_member_host_t  *host;

    for (host = *hosts; host != NULL; host = host->next) {
        name = ngx_etcd_resolver_text(host->use.name);

        if (host->port == member->port
            && ngx_etcd_str_equal(name, &member->host))
        {
            break;
        }
    }

    if (host == NULL) {
        host = ngx_calloc(sizeof(ngx_etcd_member_host_t), log);
        if (host == NULL) {
            return NULL;
        }

        if (ngx_etcd_resolver_use(resolver, &host->use, &member->host)
            != NGX_OK)
        {
            ngx_free(host);
            return NULL;
        }

        host->port = member->port;
        host->next = *hosts;
        *hosts = host;
    }

    host->attr = member->attr;
    host->route = member->route;
    host->seen = 1;

    return host;
}


void
ngx_etcd_member_host_sweep(ngx_etcd_member_host_t **hosts)
{
    ngx_etcd_member_host_t  *host;

    while (*hosts != NULL) {
        host = *hosts;

        if (host->seen) {
            hosts = &host->next;
            continue;
        }

        *hosts = host->next;

        ngx_etcd_resolver_unuse(&host->use);
        ngx_free(host);
    }
}


ngx_etcd_resolver_address_t *
ngx_etcd_member_host_sole(ngx_etcd_member_host_t *host,
    ngx_etcd_resolver_answer_t *answer)
{
    ngx_etcd_resolver_address_t  *address;

    address = ngx_etcd_resolver_choose(answer,
                                       host->sole.socklen
                                       ? &host->sole.sockaddr.sockaddr : NULL);
    host->sole = *address;

    return address;
}
