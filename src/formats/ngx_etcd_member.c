
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member.h>


#define NGX_ETCD_MEMBER_PACK_DOWN    0x01
#define NGX_ETCD_MEMBER_PACK_BACKUP  0x02
#define NGX_ETCD_MEMBER_PACK_DRAIN   0x04
#define NGX_ETCD_MEMBER_PACK_ROUTE   0x08     /* follows the name */
#define NGX_ETCD_MEMBER_PACK_HOST    0x10     /* comes last */
#define NGX_ETCD_MEMBER_PACK_NEAR    0x20
#define NGX_ETCD_MEMBER_PACK_ORDERED 0x40


/* no pointers and no padding: payloads are compared as bytes */

typedef struct {
    uint32_t                 max_fails;
    uint32_t                 max_conns;
    uint32_t                 fail_timeout;
    uint32_t                 slow_start;
    uint16_t                 weight;
    uint8_t                  flags;
    uint8_t                  socklen;
    uint16_t                 name_len;
    uint16_t                 priority;
} ngx_etcd_member_pack_head_t;


typedef struct {
    uint16_t                 len;
    uint16_t                 port;
    uint16_t                 whole;
    uint16_t                 refused;
    uint16_t                 beyond;
} ngx_etcd_member_pack_host_t;


size_t
ngx_etcd_member_pack(u_char *payload, ngx_etcd_member_t *member)
{
    u_char                       *p;
    ngx_etcd_member_attr_t       *attr;
    ngx_etcd_member_pack_head_t   head;
    ngx_etcd_member_pack_host_t   host;

    attr = &member->attr;

    head.max_fails = attr->max_fails;
    head.max_conns = attr->max_conns;
    head.fail_timeout = attr->fail_timeout;
    head.slow_start = attr->slow_start;
    head.weight = (uint16_t) attr->weight;
    head.flags = (attr->down ? NGX_ETCD_MEMBER_PACK_DOWN : 0)
                 | (attr->backup ? NGX_ETCD_MEMBER_PACK_BACKUP : 0)
                 | (attr->drain ? NGX_ETCD_MEMBER_PACK_DRAIN : 0)
                 | (member->route.len ? NGX_ETCD_MEMBER_PACK_ROUTE : 0)
                 | (member->host.len ? NGX_ETCD_MEMBER_PACK_HOST : 0)
                 | (attr->near ? NGX_ETCD_MEMBER_PACK_NEAR : 0)
                 | (attr->ordered ? NGX_ETCD_MEMBER_PACK_ORDERED : 0);
    head.socklen = (uint8_t) member->socklen;
    head.name_len = (uint16_t) member->name_len;
    head.priority = (uint16_t) attr->priority;

    p = ngx_cpymem(payload, &head, sizeof(ngx_etcd_member_pack_head_t));
    p = ngx_cpymem(p, &member->sockaddr, member->socklen);
    p = ngx_cpymem(p, member->name, member->name_len);

    if (member->route.len != 0) {
        *p++ = (u_char) member->route.len;
        p = ngx_cpymem(p, member->route.data, member->route.len);
    }

    if (member->host.len != 0) {
        host.len = (uint16_t) member->host.len;
        host.port = (uint16_t) member->port;
        host.whole = (uint16_t) member->whole;
        host.refused = (uint16_t) ngx_min(member->refused, 65535);
        host.beyond = (uint16_t) ngx_min(member->beyond, 65535);

        p = ngx_cpymem(p, &host, sizeof(ngx_etcd_member_pack_host_t));
        p = ngx_cpymem(p, member->host.data, member->host.len);
    }

    return p - payload;
}


void
ngx_etcd_member_pack_read(ngx_etcd_member_pack_t *record, u_char *payload)
{
    u_char                       *p;
    sa_family_t                   family;
    ngx_etcd_member_attr_t       *attr;
    ngx_etcd_member_pack_head_t   head;
    ngx_etcd_member_pack_host_t   host;

    ngx_memcpy(&head, payload, sizeof(ngx_etcd_member_pack_head_t));

    attr = &record->attr;

    attr->weight = head.weight;
    attr->priority = head.priority;
    attr->max_fails = head.max_fails;
    attr->max_conns = head.max_conns;
    attr->fail_timeout = head.fail_timeout;
    attr->slow_start = head.slow_start;
    attr->down = (head.flags & NGX_ETCD_MEMBER_PACK_DOWN) ? 1 : 0;
    attr->backup = (head.flags & NGX_ETCD_MEMBER_PACK_BACKUP) ? 1 : 0;
    attr->drain = (head.flags & NGX_ETCD_MEMBER_PACK_DRAIN) ? 1 : 0;
    attr->near = (head.flags & NGX_ETCD_MEMBER_PACK_NEAR) ? 1 : 0;
    attr->ordered = (head.flags & NGX_ETCD_MEMBER_PACK_ORDERED) ? 1 : 0;

    record->sockaddr = payload + sizeof(ngx_etcd_member_pack_head_t);
    record->socklen = head.socklen;

    record->name.data = record->sockaddr + record->socklen;
    record->name.len = head.name_len;

    p = record->name.data + record->name.len;

    ngx_str_null(&record->route);

    if (head.flags & NGX_ETCD_MEMBER_PACK_ROUTE) {
        record->route.len = *p++;
        record->route.data = p;
        p += record->route.len;
    }

    record->unresolved = 0;
    record->host.len = 0;

    if (!(head.flags & NGX_ETCD_MEMBER_PACK_HOST)) {
        return;
    }

    ngx_memcpy(&family, record->sockaddr + offsetof(struct sockaddr, sa_family),
               sizeof(sa_family_t));

    ngx_memcpy(&host, p, sizeof(ngx_etcd_member_pack_host_t));

    record->unresolved = (family == AF_UNSPEC);
    record->host.data = p + sizeof(ngx_etcd_member_pack_host_t);
    record->host.len = host.len;
    record->port = host.port;
    record->whole = host.whole;
    record->refused = host.refused;
    record->beyond = host.beyond;
}


size_t
ngx_etcd_member_pack_drain(u_char *payload, ngx_uint_t drain)
{
    u_char                  *flags, both;
    ngx_str_t               *last;
    ngx_etcd_member_pack_t   record;

    ngx_etcd_member_pack_read(&record, payload);

    if (record.attr.drain ? drain || !record.attr.ordered : !drain) {
        return 0;
    }

    flags = payload + offsetof(ngx_etcd_member_pack_head_t, flags);
    both = NGX_ETCD_MEMBER_PACK_DRAIN | NGX_ETCD_MEMBER_PACK_ORDERED;

    *flags = drain ? *flags | both : *flags & ~both;

    last = record.host.len ? &record.host
           : record.route.len ? &record.route : &record.name;

    return last->data + last->len - payload;
}
