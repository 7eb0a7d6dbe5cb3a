
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member.h>
#include "ngx_etcd_tap.h"


static void
test_member_pack_all(ngx_pool_t *pool)
{
    u_char                   payload[NGX_ETCD_MEMBER_PACK_MAX];
    size_t                   len;
    ngx_uint_t               i;
    ngx_etcd_member_t        member;
    ngx_etcd_member_pack_t   pack;

    ngx_memzero(&member, sizeof(ngx_etcd_member_t));

    member.socklen = sizeof(struct sockaddr_un);
    member.sockaddr.sockaddr.sa_family = AF_UNIX;
    member.name_len = NGX_ETCD_MEMBER_NAME_LEN;
    ngx_memset(member.name, 'n', member.name_len);

    member.attr.weight = 65535;
    member.attr.priority = 65535;
    member.attr.max_fails = 2147483647;
    member.attr.max_conns = 2147483646;
    member.attr.fail_timeout = 2147483;
    member.attr.slow_start = 2147483000;
    member.attr.backup = 1;

    for (i = 0; i < 2; i++) {

        if (i == 1) {
            member.route.len = NGX_ETCD_MEMBER_MAX_ROUTE;
            ngx_memset(member.route.data, 'r', member.route.len);
            member.host.len = NGX_ETCD_MEMBER_MAX_HOST;
            member.host.data = tap_string(pool, "host")->data;
            member.host.len = 4;
            member.port = 65535;
            member.whole = 65535;
            member.refused = 70000;
            member.beyond = 3;
        }

        ngx_memset(payload, 0xa5, sizeof(payload));
        len = ngx_etcd_member_pack(payload, &member);

        tap_check(len <= NGX_ETCD_MEMBER_PACK_MAX);
        tap_check(len == NGX_ETCD_MEMBER_PACK_MAX || payload[len] == 0xa5);

        ngx_etcd_member_pack_read(&pack, payload);

        tap_check(ngx_memcmp(&pack.attr, &member.attr, 24) == 0);
        tap_check(!pack.attr.down && pack.attr.backup && !pack.attr.drain);
        tap_check(pack.socklen == member.socklen);
        tap_check(ngx_memcmp(pack.sockaddr, &member.sockaddr, pack.socklen)
                  == 0);
        tap_check(pack.name.len == member.name_len);
        tap_check(!pack.unresolved);
        tap_check(pack.route.len == member.route.len);
    }

    tap_text(&pack.route, "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr");
    tap_text(&pack.host, "host");
    tap_check(pack.port == 65535 && pack.whole == 65535);
    tap_check(pack.refused == 65535 && pack.beyond == 3);
}


/* Returns "dO" for a member that drains for the operator's key only. */

static char *
test_member_pack_drains(u_char *payload)
{
    ngx_etcd_member_pack_t  pack;

    ngx_etcd_member_pack_read(&pack, payload);

    return pack.attr.drain ? pack.attr.ordered ? "dO" : "d"
                           : pack.attr.ordered ? "O" : "";
}


static void
test_member_pack_drain(ngx_pool_t *pool)
{
    u_char             payload[NGX_ETCD_MEMBER_PACK_MAX];
    u_char             before[NGX_ETCD_MEMBER_PACK_MAX];
    size_t             len;
    ngx_uint_t         i;
    ngx_etcd_member_t  member;

    ngx_memzero(&member, sizeof(ngx_etcd_member_t));

    member.socklen = sizeof(struct sockaddr_in);
    member.sockaddr.sockaddr.sa_family = AF_INET;
    member.name_len = 1;

    for (i = 0; i < 4; i++) {
        member.attr.down = i & 1;

        if (i == 2) {
            member.route.len = 3;
        }

        if (i == 3) {
            member.host = *tap_string(pool, "host");
        }

        len = ngx_etcd_member_pack(payload, &member);
        ngx_memcpy(before, payload, len);

        tap_check(ngx_etcd_member_pack_drain(payload, 0) == 0);
        tap_check(ngx_etcd_member_pack_drain(payload, 1) == len);
        tap_check(ngx_strcmp(test_member_pack_drains(payload), "dO") == 0);
        tap_check(ngx_etcd_member_pack_drain(payload, 1) == 0);
        tap_check(ngx_etcd_member_pack_drain(payload, 0) == len);
        tap_check(ngx_memcmp(payload, before, len) == 0);
    }

    /* no key changes what the own value says */

    member.attr.drain = 1;

    (void) ngx_etcd_member_pack(payload, &member);

    tap_check(ngx_etcd_member_pack_drain(payload, 1) == 0);
    tap_check(ngx_etcd_member_pack_drain(payload, 0) == 0);
    tap_check(ngx_strcmp(test_member_pack_drains(payload), "d") == 0);
}


static void
test_member_pack_unresolved(ngx_pool_t *pool)
{
    u_char                   payload[2][NGX_ETCD_MEMBER_PACK_MAX];
    size_t                   len;
    ngx_etcd_member_t        member;
    ngx_etcd_member_pack_t   pack;

    ngx_memzero(&member, sizeof(ngx_etcd_member_t));

    member.socklen = sizeof(struct sockaddr_in6);
    member.host = *tap_string(pool, "a");

    /* equal members give equal bytes, whatever was there before */

    ngx_memset(payload[0], 0xa5, sizeof(payload[0]));
    ngx_memset(payload[1], 0x5a, sizeof(payload[1]));

    len = ngx_etcd_member_pack(payload[0], &member);

    tap_check(ngx_etcd_member_pack(payload[1], &member) == len);
    tap_check(ngx_memcmp(payload[0], payload[1], len) == 0);

    ngx_etcd_member_pack_read(&pack, payload[0]);

    tap_check(pack.unresolved);
    tap_text(&pack.host, "a");
    tap_check(pack.name.len == 0);
}


ngx_etcd_tap_test_t  test_member_pack[] = {
    { "member pack: all of it", test_member_pack_all },
    { "member pack: a drain", test_member_pack_drain },
    { "member pack: an unresolved name", test_member_pack_unresolved },
    { NULL, NULL }
};
