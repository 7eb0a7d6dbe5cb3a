
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_address.h>
#include <ngx_etcd_format_url.h>
#include <ngx_etcd_json_layout.h>
#include <ngx_etcd_member_resolve.h>
#include <ngx_etcd_patroni_member.h>


static void
ngx_etcd_patroni_member_resolved(ngx_etcd_resolver_use_t *use)
{
    ngx_etcd_leader_again(use->data);
}


/*
 * Replaces a host name by an address that is known of it; the key is the
 * member's.
 *
 *     NGX_OK        the member has an address,
 *     NGX_AGAIN     its host name is being resolved for the first time,
 *     NGX_DECLINED  its host name has no address: *reason says why.
 */

static ngx_int_t
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

    host = ngx_etcd_member_host_get(service->diff.hosts.resolver, &hosts->list,
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


/*
 * Makes the member that the value of a key describes.  NGX_ERROR: there is
 * none, and *reason names the fault of the value; other results are those of
 * ngx_etcd_patroni_member_resolve().
 */

static ngx_int_t
ngx_etcd_patroni_member(ngx_etcd_patroni_hosts_t *hosts,
    ngx_etcd_mirror_entry_t *key, ngx_etcd_member_t *member,
    ngx_str_t *reason)
{
    ngx_int_t           rc;
    ngx_array_t         members;
    ngx_etcd_leader_t  *leader;
    ngx_etcd_reason_t   said;

    leader = hosts->leader;
    ngx_str_null(reason);

    if (ngx_array_init(&members, leader->pool, 1, sizeof(ngx_etcd_member_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    rc = ngx_etcd_decode(&leader->service->conf->member, &key->key,
                         &key->value, leader->pool, &members, &said);
    if (rc != NGX_OK) {
        *reason = said.text;
        return NGX_ERROR;
    }

    *member = *(ngx_etcd_member_t *) members.elts;

    return ngx_etcd_patroni_member_resolve(hosts, &key->key, member, reason);
}


typedef struct {
    char                     *name;
    ngx_etcd_patroni_role_e   role;
} ngx_etcd_patroni_role_name_t;


static const ngx_etcd_patroni_role_name_t  ngx_etcd_patroni_role_names[] = {
    { "primary", NGX_ETCD_PATRONI_ROLE_PRIMARY },
    { "master", NGX_ETCD_PATRONI_ROLE_PRIMARY },
    { "standby_leader", NGX_ETCD_PATRONI_ROLE_STANDBY_LEADER },
    { "replica", NGX_ETCD_PATRONI_ROLE_REPLICA },
    { "demoted", NGX_ETCD_PATRONI_ROLE_DOWN },
    { "uninitialized", NGX_ETCD_PATRONI_ROLE_DOWN },
    { NULL, NGX_ETCD_PATRONI_ROLE_OTHER }
};


/* Reads "role" of an object; NULL names none. */

static ngx_etcd_patroni_role_e
ngx_etcd_patroni_member_role(json_t *object)
{
    json_t                              *role;
    const ngx_etcd_patroni_role_name_t  *row;

    role = json_object_get(object, "role");

    if (!json_is_string(role)) {
        return NGX_ETCD_PATRONI_ROLE_NONE;
    }

    for (row = ngx_etcd_patroni_role_names; row->name != NULL; row++) {
        if (ngx_etcd_json_says(role, row->name)) {
            break;
        }
    }

    return row->role;
}


static void
ngx_etcd_patroni_member_says(ngx_etcd_leader_t *leader,
    ngx_etcd_patroni_says_t *says, json_t *object)
{
    json_t      *tags, *tag;
    json_int_t   n;
    ngx_str_t   *state;

    says->role = ngx_etcd_patroni_member_role(object);
    says->running = ngx_etcd_json_says(json_object_get(object, "state"),
                                       "running");

    state = &leader->conf->replication_state;

    says->replicates = state->len == 0
                         || ngx_etcd_json_equals(
                                json_object_get(object, "replication_state"),
                                state);

    tags = json_object_get(object, "tags");

    /* Python takes for true what is not 0 or empty, and so does Patroni */

    tag = json_object_get(tags, "noloadbalance");

    says->noloadbalance = json_is_true(tag)
                          || json_number_value(tag) != 0
                          || json_string_length(tag) != 0
                          || json_array_size(tag) != 0
                          || json_object_size(tag) != 0;

    says->untagged = ngx_etcd_json_layout_untagged(
                         &leader->service->conf->member, tags, NULL);

    n = json_integer_value(json_object_get(object, "xlog_location"));

    if (n > 0) {
        says->located = 1;
        says->location = n;
    }
}


ngx_int_t
ngx_etcd_patroni_member_read(ngx_etcd_leader_t *leader,
    ngx_etcd_patroni_says_t *says, ngx_etcd_mirror_entry_t *candidate,
    ngx_str_t *reason)
{
    ngx_int_t          rc;
    ngx_etcd_decode_t  d;

    ngx_memzero(says, sizeof(ngx_etcd_patroni_says_t));

    ngx_etcd_decode_init(&d, &leader->service->conf->member, &candidate->key,
                         leader->pool, NULL, reason);
    d.value = candidate->value;
    ngx_etcd_decode_trim(&d.value);

    rc = ngx_etcd_decode_object(&d);

    if (rc == NGX_OK) {
        ngx_etcd_patroni_member_says(leader, says, d.object);
    }

    ngx_etcd_json_done(&d.json);

    return rc;
}


void
ngx_etcd_patroni_member_use(ngx_etcd_patroni_hosts_t *hosts,
    ngx_etcd_mirror_entry_t *candidate, ngx_etcd_mirror_entry_t *term,
    ngx_uint_t drain)
{
    ngx_str_t           reason;
    ngx_etcd_leader_t  *leader;
    ngx_etcd_member_t   member;

    leader = hosts->leader;

    switch (ngx_etcd_patroni_member(hosts, candidate, &member, &reason))
    {
    case NGX_AGAIN:
        break;

    case NGX_DECLINED:
        ngx_etcd_leader_report(leader, candidate, &reason);
        break;

    default:
        ngx_etcd_leader_use(leader, candidate, term, drain);
    }
}


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


ngx_etcd_patroni_role_e
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
