
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_member.h>
#include <sys/wait.h>
#include <ngx_etcd_attribute.h>
#include "unit_members.h"


static ngx_int_t
ngx_etcd_unit_commit(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t n, ngx_etcd_member_t *member)
{
    u_char                 payload[NGX_ETCD_MEMBER_PACK_MAX];
    u_char                 buf[NGX_INT_T_LEN];
    ngx_array_t            ops;
    ngx_etcd_op_t          op;
    ngx_etcd_commit_t      commit;
    ngx_etcd_entry_data_t  data;

    while (n >= set->nslots) {
        if (ngx_etcd_member_set_grow(zone, set, 1) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    ngx_memzero(&op, sizeof(ngx_etcd_op_t));

    op.slot = n;
    op.old = ngx_etcd_zone_number(zone,
                                  ngx_etcd_member_set_slot(set, n)->entry);

    if (member != NULL) {
        ngx_memzero(&data, sizeof(ngx_etcd_entry_data_t));

        data.key.data = buf;
        data.key.len = ngx_sprintf(buf, "%ui", n) - buf;
        data.payload = payload;
        data.len = ngx_etcd_member_pack(payload, member);

        op.op = NGX_ETCD_OP_PUT;
        if (ngx_etcd_entry_create(zone, set, &data, 1, &op.entry) != NGX_OK) {
            return NGX_ERROR;
        }

        op.shown = op.entry;

    } else {
        op.op = NGX_ETCD_OP_REMOVE;
    }

    ops.elts = &op;
    ops.nelts = 1;

    ngx_memzero(&commit, sizeof(ngx_etcd_commit_t));

    commit.ops = &ops;
    commit.revision = set->revision + 1;
    commit.force = 1;

    return ngx_etcd_commit(zone, set, &commit);
}


ngx_int_t
ngx_etcd_unit_add(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t from, ngx_uint_t n, ngx_str_t *value, ngx_uint_t nvalues)
{
    int                     least, most, priority;
    ngx_uint_t              i;
    ngx_etcd_member_t       member;
    struct sockaddr_in     *sin;

    ngx_memzero(&member, sizeof(ngx_etcd_member_t));

    member.attr.weight = 1;
    member.attr.max_fails = 1;
    member.attr.fail_timeout = 10;
    least = 0;
    most = 0;

    for (i = 0; i < nvalues; i++) {

        if (ngx_strncmp(value[i].data, "near ", 5) == 0) {
            member.attr.near = 1;
            value[i].data += 5;
            value[i].len -= 5;
        }

        if (sscanf((char *) value[i].data, "weights=%d-%d", &least, &most)
            == 2)
        {
            continue;
        }

        if (sscanf((char *) value[i].data, "priority=%d", &priority) == 1) {
            member.attr.priority = priority;

        } else if (ngx_strcmp(value[i].data, "down") == 0) {
            member.attr.down = 1;

        } else if (ngx_strcmp(value[i].data, "drain") == 0) {
            member.attr.drain = 1;

        } else if (ngx_strcmp(value[i].data, "backup") == 0) {
            member.attr.backup = 1;


        } else if (ngx_etcd_attribute_parameter(&value[i], &member.attr)
                   != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    sin = (struct sockaddr_in *) &member.sockaddr;
    sin->sin_family = AF_INET;
    sin->sin_port = htons(80);
    member.socklen = sizeof(struct sockaddr_in);

    for (i = from; i < from + n; i++) {
        sin->sin_addr.s_addr = htonl(0x0a000000 + i);
        member.name_len = ngx_sprintf(member.name, "10.%ui.%ui.%ui:80",
                                      i >> 16 & 0xff, i >> 8 & 0xff, i & 0xff)
                          - member.name;

        if (most != 0) {
            member.attr.weight = least + i % (most - least + 1);
        }

        if (ngx_etcd_unit_commit(zone, set, i, &member) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_unit_remove(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t from, ngx_uint_t n)
{
    ngx_uint_t  i;

    for (i = from; i < from + n; i++) {
        if (ngx_etcd_unit_commit(zone, set, i, NULL) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* a process without the zone, then the owner: the slots that a set grows by */

void
ngx_etcd_unit_grow(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set)
{
    ngx_int_t   former, owner;
    ngx_uint_t  before, between;

    before = set->nslots;
    former = ngx_etcd_member_set_grow(zone, set, 0);
    between = set->nslots;

    (void) ngx_etcd_zone_claim(zone, 0);
    owner = ngx_etcd_member_set_grow(zone, set, 0);
    ngx_etcd_zone_release(zone);

    printf("grow: %s %lu %s %lu\n", former == NGX_AGAIN ? "again" : "done",
           (unsigned long) (between - before),
           owner == NGX_OK ? "done" : "again",
           (unsigned long) (set->nslots - between));
}


static ngx_int_t
ngx_etcd_unit_no_slot(void *data, ngx_uint_t n, ngx_etcd_slot_t *slot)
{
    return NGX_OK;
}


/*
 * The child holds the mutex until a worker has tried, and msec longer: how the
 * worker fares, and the master, who copies the set.
 */

void
ngx_etcd_unit_held(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t msec)
{
    int                           parent[2], child[2];
    char                          byte;
    ngx_pid_t                     pid;
    ngx_int_t                     worker, master;
    ngx_uint_t                    process;
    ngx_etcd_member_set_reader_t  reader;

    if (pipe(parent) != 0 || pipe(child) != 0) {
        return;
    }

    pid = fork();

    if (pid == 0) {
        if (ngx_etcd_zone_lock(zone) == NGX_OK
            && write(parent[1], "", 1) == 1
            && read(child[0], &byte, 1) == 1)
        {
            ngx_msleep(msec);
            ngx_etcd_zone_unlock(zone);
        }

        _exit(0);
    }

    (void) close(parent[1]);

    if (pid == -1 || read(parent[0], &byte, 1) != 1) {
        return;
    }

    process = ngx_process;

    ngx_process = NGX_PROCESS_WORKER;
    worker = ngx_etcd_zone_lock(zone);

    if (write(child[1], "", 1) != 1) {
        return;
    }

    ngx_process = NGX_PROCESS_MASTER;
    ngx_memzero(&reader, sizeof(ngx_etcd_member_set_reader_t));
    reader.handler = ngx_etcd_unit_no_slot;
    reader.any = 1;

    master = ngx_etcd_member_set_read(zone, set, set->object.id, &reader, 0);

    ngx_process = process;

    (void) waitpid(pid, NULL, 0);

    printf("held: %s %s\n", worker == NGX_OK ? "done" : "again",
           master == NGX_OK ? "done" : "again");
}
