
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_patroni_api.h>
#include <ngx_etcd_patroni_url.h>


ngx_int_t
ngx_etcd_patroni_api_read(ngx_etcd_patroni_hosts_t *hosts,
    ngx_etcd_mirror_entry_t *key, ngx_str_t *url)
{
    ngx_str_t           reason;
    ngx_etcd_leader_t  *leader;
    ngx_etcd_decode_t   d;

    leader = hosts->leader;

    ngx_etcd_decode_init(&d, &leader->service->conf->member, &key->key,
                         leader->pool, NULL, &reason);
    d.value = key->value;

    if (ngx_etcd_patroni_url_read(&d, &ngx_etcd_patroni_api_url, url)
        == NGX_OK)
    {
        return NGX_OK;
    }

    ngx_etcd_leader_report(leader, key, &reason);

    return NGX_ERROR;
}


/* Reads the API's address as a member's address: "etcd_allow" applies to it. */

static ngx_int_t
ngx_etcd_patroni_api_address(ngx_etcd_patroni_hosts_t *hosts,
    ngx_etcd_mirror_entry_t *key, ngx_str_t *url, ngx_uint_t report,
    ngx_etcd_member_t *member)
{
    ngx_int_t           rc;
    ngx_str_t           reason;
    ngx_array_t         members;
    ngx_etcd_leader_t  *leader;
    ngx_etcd_decode_t   d;

    leader = hosts->leader;
    ngx_str_null(&reason);

    if (ngx_array_init(&members, leader->pool, 1, sizeof(ngx_etcd_member_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_etcd_decode_init(&d, &leader->service->conf->member, &key->key,
                         leader->pool, &members, &reason);

    rc = ngx_etcd_patroni_url_add(&d, &ngx_etcd_patroni_api_url, url);

    if (rc == NGX_OK) {
        *member = *(ngx_etcd_member_t *) members.elts;

        rc = ngx_etcd_patroni_member_resolve(hosts, &key->key, member,
                                             &reason);
    }

    if (rc == NGX_OK || rc == NGX_AGAIN) {
        return rc;
    }

    if (report && reason.len != 0) {
        ngx_etcd_leader_report(leader, key, &reason);
    }

    return NGX_ERROR;
}


/* Certificates are for the host of the URL, whatever its address is. */

static ngx_int_t
ngx_etcd_patroni_api_host(ngx_etcd_patroni_hosts_t *hosts,
    ngx_etcd_mirror_entry_t *key, ngx_str_t *url, ngx_uint_t report,
    ngx_etcd_probe_target_t *target)
{
    ngx_str_t           host;
    ngx_uint_t          scheme;
    ngx_etcd_leader_t  *leader;

    leader = hosts->leader;

    if (ngx_etcd_patroni_url_scheme(&ngx_etcd_patroni_api_url, url, &scheme,
                                    &host)
        != NGX_OK
        || host.len >= NGX_ETCD_PROBE_HOST)
    {
        return NGX_ERROR;
    }

    ngx_memcpy(target->host, host.data, host.len);
    target->host_len = host.len;

    if (scheme != NGX_ETCD_PATRONI_HTTPS) {
        return NGX_OK;
    }

    target->ssl = leader->conf->api_ssl;

    if (target->ssl != NULL) {
        return NGX_OK;
    }

    if (report) {
        ngx_etcd_leader_refuse(leader, key, NULL,
                               "api_url is https, which requires "
                               "\"api_trusted_certificate\"");
    }

    return NGX_ERROR;
}


ngx_int_t
ngx_etcd_patroni_api_target(ngx_etcd_patroni_hosts_t *hosts,
    ngx_etcd_mirror_entry_t *key, ngx_str_t *url, ngx_uint_t report,
    ngx_etcd_probe_target_t *target)
{
    ngx_int_t           rc;
    ngx_etcd_member_t   member;

    rc = ngx_etcd_patroni_api_address(hosts, key, url, report, &member);
    if (rc != NGX_OK) {
        return rc;
    }

    ngx_memzero(target, sizeof(ngx_etcd_probe_target_t));

    ngx_memcpy(&target->sockaddr, &member.sockaddr, member.socklen);
    target->socklen = member.socklen;
    target->port = ngx_inet_get_port(&member.sockaddr.sockaddr);

    return ngx_etcd_patroni_api_host(hosts, key, url, report, target);
}


static ngx_etcd_patroni_role_e
ngx_etcd_patroni_api_role(ngx_str_t *body)
{
    ngx_etcd_json_t          json;
    ngx_etcd_patroni_role_e  role;

    (void) ngx_etcd_json_read(&json, body, JSON_DISABLE_EOF_CHECK);

    role = ngx_etcd_patroni_member_role(json.root);

    ngx_etcd_json_done(&json);

    return role;
}


ngx_uint_t
ngx_etcd_patroni_api_primary(ngx_str_t *body)
{
    ngx_etcd_patroni_role_e  role;

    role = ngx_etcd_patroni_api_role(body);

    return role == NGX_ETCD_PATRONI_ROLE_NONE
           || role == NGX_ETCD_PATRONI_ROLE_PRIMARY;
}


/* Patroni reports the role "replica" until it has updated the role. */

ngx_uint_t
ngx_etcd_patroni_api_standby_leader(ngx_str_t *body)
{
    ngx_etcd_patroni_role_e  role;

    role = ngx_etcd_patroni_api_role(body);

    return role == NGX_ETCD_PATRONI_ROLE_NONE
           || role == NGX_ETCD_PATRONI_ROLE_STANDBY_LEADER
           || role == NGX_ETCD_PATRONI_ROLE_REPLICA;
}


ngx_uint_t
ngx_etcd_patroni_api_says_primary(ngx_str_t *body)
{
    return ngx_etcd_patroni_api_role(body) == NGX_ETCD_PATRONI_ROLE_PRIMARY;
}
