
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The word of an election slot that two owners of the zone write, as a
 * directive:
 *
 *     etcd_election_slot KNOWN UNTIL [KNOWN UNTIL ...];
 *
 * Each pair is an owner, which read KNOWN, writes UNTIL, and, where another
 * owner wrote in between, writes it again.  The election slot begins with 1.
 * Writes "election slot: UNTIL".
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_election_slot.h>
#include "unit.h"


char *
ngx_etcd_unit_election_slot(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    uint64_t                   known, until;
    ngx_str_t                 *value;
    ngx_uint_t                 i, times;
    ngx_etcd_election_slot_t   slot;

    value = cf->args->elts;

    ngx_memzero(&slot, sizeof(ngx_etcd_election_slot_t));
    slot.until = 1;

    for (i = 1; i + 1 < cf->args->nelts; i += 2) {
        known = ngx_atoi(value[i].data, value[i].len);
        until = ngx_atoi(value[i + 1].data, value[i + 1].len);

        for (times = 0; times < 2 && slot.until != until; times++) {
            (void) ngx_etcd_election_slot_extend(NULL, &slot, &known,
                                                 until);
        }
    }

    printf("election slot: %llu\n", (unsigned long long) slot.until);

    return NGX_CONF_OK;
}
