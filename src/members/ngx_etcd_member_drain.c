
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_address.h>
#include <ngx_etcd_drain.h>
#include <ngx_etcd_member_drain.h>
#include <ngx_etcd_str.h>


typedef struct {
    ngx_etcd_member_diff_t  *diff;
    ngx_uint_t               drain;
    uint64_t                 revision;
} ngx_etcd_member_drain_t;


/* Static servers are none of the prefix: no key drains them. */

static void
ngx_etcd_member_drain_reg(ngx_etcd_node_t *node, void *data)
{
    ngx_etcd_member_drain_t *ctx = data;

    size_t                   len;
    u_char                   payload[NGX_ETCD_MEMBER_PACK_MAX];
    ngx_etcd_reg_t          *reg;
    ngx_etcd_member_diff_t  *diff;

    reg = (ngx_etcd_reg_t *) ((u_char *) node - offsetof(ngx_etcd_reg_t, node));
    diff = ctx->diff;

    if (reg->key == NULL || diff->broken) {
        return;
    }

    if (ngx_etcd_entry_read(diff->zone, reg->entry, payload,
                            NGX_ETCD_MEMBER_PACK_MAX)
        != NGX_OK)
    {
        diff->broken = 1;
        return;
    }

    len = ngx_etcd_member_pack_drain(payload, ctx->drain);

    if (len != 0) {
        ngx_etcd_member_diff_replace(diff, reg, payload, len, ctx->revision);
    }
}


/* A key with no address is in the status where keys are those of the index. */

static void
ngx_etcd_member_drain_told(ngx_etcd_member_diff_t *diff,
    ngx_etcd_mirror_entry_t *entry, ngx_uint_t valid)
{
    ngx_etcd_key_t     *key;
    ngx_etcd_reason_t   reason;

    ngx_memzero(&reason, sizeof(ngx_etcd_reason_t));

    if (!valid) {
        ngx_str_set(&reason.text, "its name is no address as the status has "
                                  "it, it drains no member");
    }

    if (diff->mirror != NULL) {
        key = (ngx_etcd_key_t *) entry;

        ngx_etcd_index_present(&diff->index, key);
        ngx_etcd_member_diff_reason(diff, key, &reason, entry->mod_revision, 0);

    } else if (!valid) {
        ngx_log_error(NGX_LOG_ERR, diff->log, 0,
                      "etcd: upstream \"%V\": key \"%V\" at revision %L is "
                      "invalid: %V",
                      diff->name, ngx_etcd_shown(&entry->key),
                      entry->mod_revision, &reason.text);
    }
}


ngx_uint_t
ngx_etcd_member_drain(ngx_etcd_member_diff_t *diff,
    ngx_etcd_mirror_entry_t *entry, ngx_uint_t drain)
{
    ngx_int_t                rc;
    ngx_str_t                address;
    ngx_etcd_member_t        member;
    ngx_etcd_member_drain_t  ctx;

    if (!ngx_etcd_drain_address(diff->prefix, &entry->key, &address)) {
        return 0;
    }

    if (entry->apart != drain) {
        entry->apart = drain;
        diff->drains += drain ? 1 : -1;
    }

    if (!diff->indexed || diff->broken) {
        return 1;
    }

    rc = ngx_etcd_address_shown(&member, &address);

    if (rc == NGX_OK) {
        ctx.diff = diff;
        ctx.drain = drain;
        ctx.revision = entry->mod_revision;

        ngx_etcd_slot_index_each(&diff->index.slots,
                                 (u_char *) &member.sockaddr, member.socklen,
                                 ngx_etcd_member_drain_reg, &ctx);
    }

    if (drain) {
        ngx_etcd_member_drain_told(diff, entry, rc == NGX_OK);
    }

    return 1;
}
