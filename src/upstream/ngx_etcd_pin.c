
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_etcd_pin.h>
#include <ngx_etcd_str.h>


ngx_etcd_peer_data_t *
ngx_etcd_pin_create(ngx_etcd_upstream_t *upstream, ngx_etcd_table_t *table,
    void *owner, ngx_pool_t *pool, ngx_log_t *log)
{
    ngx_etcd_peer_data_t  *pd;

    pd = ngx_etcd_peer_data_alloc(upstream, table, pool, log);
    if (pd == NULL) {
        return NULL;
    }

    (void) ngx_etcd_pick_init(&pd->pick, table, &upstream->service->name,
                              pool);

    ngx_memzero(&pd->pin, sizeof(ngx_etcd_pin_t));
    pd->pin.owner = owner;

    return pd;
}


ngx_etcd_peer_t *
ngx_etcd_pin_read(ngx_etcd_peer_data_t *pd)
{
    ngx_etcd_pin_t    *pin;
    ngx_etcd_table_t  *table;

    pin = &pd->pin;

    if (pin->reads++ == 0) {
        table = pd->table;

        ngx_etcd_table_follow(table);

        pin->peer = ngx_etcd_table_first(table);

        if (pin->peer != NULL) {
            ngx_etcd_peer_ref(pin->peer);
        }
    }

    return pin->peer;
}


void
ngx_etcd_pin_connect(ngx_etcd_peer_data_t *pd, ngx_peer_connection_t *pc,
    ngx_pool_t *pool)
{
    /* the table may be newer than the pin: pc->get uses the pinned peer */

    ngx_etcd_peer_data_connect(pd, pc, pool);

    pc->get = ngx_etcd_pin_get;
}


ngx_int_t
ngx_etcd_pin_get(ngx_peer_connection_t *pc, void *data)
{
    ngx_etcd_pick_t *pick = data;

    ngx_etcd_peer_data_t  *pd;

    pd = (ngx_etcd_peer_data_t *) ((u_char *) pick
                                  - offsetof(ngx_etcd_peer_data_t, pick));

    if (pick->early
        || (ngx_etcd_pin_complete(pd) && ngx_etcd_pin_leads(pd)))
    {
        return ngx_etcd_pick_get(pc, pick);
    }

    if (!ngx_etcd_pin_complete(pd)) {
        ngx_log_error(NGX_LOG_ERR, pc->log, 0,
                      "upstream \"%V\": the request is not sent, a variable "
                      "in it was cached for a former leader", pick->name);

    } else if (pd->pin.peer != NULL) {
        ngx_log_error(NGX_LOG_INFO, pc->log, 0,
                      "upstream \"%V\": the request is not sent, it was "
                      "built for the former leader %V", pick->name,
                      &pd->pin.peer->name);
    }

    pick->peer = NULL;

    pc->cached = 0;
    pc->connection = NULL;
    pc->name = pick->name;

    return NGX_BUSY;
}


/*
 * A changed peer gets a new object: compares the fields that identify a
 * leader.
 */

static ngx_uint_t
ngx_etcd_pin_same(ngx_etcd_peer_t *one, ngx_etcd_peer_t *two)
{
    return one == two
           || (one->create_revision == two->create_revision
               && ngx_etcd_str_equal(&one->key, &two->key)
               && ngx_cmp_sockaddr(ngx_etcd_peer_sockaddr(one), one->socklen,
                                   ngx_etcd_peer_sockaddr(two), two->socklen, 1)
                  == NGX_OK);
}


ngx_uint_t
ngx_etcd_pin_leads(ngx_etcd_peer_data_t *pd)
{
    ngx_etcd_peer_t  *peer;

    if (pd->pin.peer == NULL) {
        return 0;
    }

    peer = ngx_etcd_table_first(pd->table);

    return peer != NULL && ngx_etcd_pin_same(peer, pd->pin.peer);
}


void
ngx_etcd_pin_renew(ngx_etcd_peer_data_t *pd)
{
    pd->pin.wanted = ngx_max(pd->pin.wanted, pd->pin.reads);
    pd->pin.reads = 0;

    ngx_etcd_peer_data_unpin(pd);
}
