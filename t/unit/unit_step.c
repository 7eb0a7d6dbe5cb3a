
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A table follows its set by single steps: commands of unit_balance.c.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_table.h>
#include "unit_members.h"


/* the time is always over */

void
ngx_etcd_unit_steps(ngx_etcd_table_t *table)
{
    ngx_int_t   rc, primary, backup, points, n, members, most;
    ngx_uint_t  calls, early;

    calls = 0;
    early = 0;
    members = 0;
    most = 0;

    do {
        primary = ngx_etcd_peer_group_all(&table->primary);
        backup = ngx_etcd_peer_group_all(&table->backup);
        points = table->primary.ring.npoints + table->backup.ring.npoints;

        rc = ngx_etcd_table_work(table, 1);
        calls++;

        if (ngx_etcd_table_stale(table)
            && table->reader.revision == table->set->revision)
        {
            early++;
        }

        n = ngx_max(ngx_abs((ngx_int_t) ngx_etcd_peer_group_all(&table->primary)
                            - primary),
                    ngx_abs((ngx_int_t) ngx_etcd_peer_group_all(&table->backup)
                            - backup));
        members = ngx_max(members, n);

        n = ngx_abs((ngx_int_t) (table->primary.ring.npoints
                                 + table->backup.ring.npoints) - points);
        most = ngx_max(most, n);

    } while (rc != NGX_OK);

    printf("steps: %lu %ld %ld %lu\n", (unsigned long) calls, (long) members,
           (long) most, (unsigned long) early);
}


void
ngx_etcd_unit_some(ngx_etcd_table_t *table, ngx_uint_t n)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        if (ngx_etcd_table_work(table, 1) == NGX_OK) {
            break;
        }
    }

    printf("some: %lu\n", (unsigned long) i);
}


void
ngx_etcd_unit_call(ngx_etcd_table_t *table, u_char *how)
{
    ngx_int_t     rc;
    ngx_uint_t    held;
    ngx_shmtx_t  *mutex;

    mutex = &table->zone->shpool->mutex;
    held = (ngx_strcmp(how, "held") == 0);

    if (held) {
        ngx_shmtx_lock(mutex);
    }

    rc = ngx_etcd_table_work(table, 1);

    if (held) {
        ngx_shmtx_unlock(mutex);
    }

    printf("call: %s\n", rc == NGX_OK ? "ok"
                         : rc == NGX_AGAIN ? "again"
                         : rc == NGX_BUSY ? "busy" : "other");
}
