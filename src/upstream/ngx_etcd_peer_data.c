
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_etcd_peer_data.h>
#include <ngx_etcd_str.h>


ngx_etcd_peer_data_t  *ngx_etcd_peer_data_spare;


void
ngx_etcd_peer_data_unpin(ngx_etcd_peer_data_t *pd)
{
    if (pd->pin.peer != NULL) {
        ngx_etcd_peer_unref(pd->pin.peer);
        pd->pin.peer = NULL;
    }
}


void
ngx_etcd_peer_data_cleanup(void *data)
{
    ngx_etcd_peer_data_t *pd = data;

    ngx_etcd_pick_done(&pd->pick);

    if (pd->pin.owner != NULL) {
        ngx_etcd_peer_data_unpin(pd);
    }

    pd->table->users--;

    ngx_etcd_peer_data_poison(pd);

    /* keep cleanup.next: the pool is iterating over the cleanup list */

    pd->next = ngx_etcd_peer_data_spare;
    ngx_etcd_peer_data_spare = pd;
}


ngx_int_t
ngx_etcd_peer_data_get(ngx_peer_connection_t *pc, void *data)
{
    ngx_etcd_pick_t *pick = data;

    ngx_int_t  rc;

    rc = ngx_etcd_pick_get(pc, pick);

    if (rc == NGX_BUSY) {
        ngx_etcd_no_member(ngx_etcd_peer_data_of(pick)->upstream, pick,
                           pc->log);
    }

    return rc;
}


void
ngx_etcd_peer_data_cut(ngx_etcd_peer_data_t *pd, ngx_str_t *name,
    ngx_pool_t *pool, ngx_log_t *log)
{
    ngx_uint_t          stale;
    ngx_etcd_refusal_e  refusal;

    if (pd != NULL && !pd->upstream->service->rules.leader) {
        refusal = NGX_ETCD_REFUSAL_LEFT;

    } else {
        stale = (pd != NULL && ngx_etcd_table_expired(pd->pick.table));
        refusal = stale ? NGX_ETCD_REFUSAL_STALE
                        : NGX_ETCD_REFUSAL_LEADER_CHANGED;

        ngx_log_error(NGX_LOG_INFO, log, 0,
                      "etcd: closing connection to %s leader %V",
                      stale ? "unproved" : "former", name);
    }

    ngx_etcd_outcome_refuse(pd ? ngx_etcd_peer_data_outcome(&pd->pick) : NULL,
                            pool, refusal);
}


ngx_etcd_refusal_e
ngx_etcd_peer_data_refusal(ngx_etcd_peer_data_t *pd, ngx_pool_t *pool)
{
    ngx_etcd_refusal_e  refusal;

    refusal = ngx_etcd_refusal_get(pool);

    if (pd == NULL || pd->pick.ntried == 0) {
        return refusal;
    }

    /* there was a member when the wait was over */

    if (refusal == NGX_ETCD_REFUSAL_WAIT_TIMEOUT) {
        refusal = NGX_ETCD_REFUSAL_NONE;
    }

    return (refusal == NGX_ETCD_REFUSAL_NONE && pd->pick.failed)
           ? ngx_etcd_no_member_reason(pd->pick.table, &pd->pick)
           : refusal;
}


void
ngx_etcd_peer_data_answered(ngx_etcd_pick_t *pick, ngx_uint_t error)
{
    ngx_etcd_peer_t      *peer;
    ngx_etcd_upstream_t  *upstream;

    peer = pick->peer;
    upstream = ngx_etcd_peer_data_of(pick)->upstream;

    if (peer == NULL) {
        return;
    }

    if (upstream->eject != NULL) {
        ngx_etcd_eject_count(peer->slot, peer->index, peer->uid, error);
    }

    if (error && ngx_etcd_upstream_hastens(upstream)) {
        ngx_etcd_member_set_suspect(pick->table->set, peer->slot, peer->index,
                                    peer->uid);
    }
}


ngx_etcd_peer_t *
ngx_etcd_peer_data_peer(ngx_etcd_peer_data_t *pd)
{
    if (pd == NULL || pd->pick.ntried == 0) {
        return NULL;
    }

    return pd->pick.tried[pd->pick.ntried - 1].peer;
}


ngx_etcd_conf_t *
ngx_etcd_peer_data_cluster(void)
{
    ngx_etcd_conf_t      **clusters;
    ngx_etcd_main_conf_t  *emcf;

    emcf = ngx_etcd_conf_main(ngx_cycle);

    clusters = emcf->clusters.elts;

    return emcf->clusters.nelts ? clusters[0] : NULL;
}


uint64_t
ngx_etcd_peer_data_revision(ngx_etcd_peer_data_t *pd)
{
    ngx_etcd_conf_t   *cluster;
    ngx_etcd_table_t  *table;

    if (pd == NULL) {
        cluster = ngx_etcd_peer_data_cluster();

        return cluster ? ngx_etcd_peer_data_known(cluster) : 0;
    }

    if (pd->pick.revision != 0) {
        return pd->pick.revision;
    }

    /*
     * No change was seen: return the revision at which the prefix was found
     * empty, unless this worker is still reading the set.
     */

    table = pd->pick.table;

    return ngx_etcd_table_stale(table) ? 0 : table->set->revision;
}


/*
 * The agent publishes the revision of the cluster after it has published the
 * changes: take the maximum of all sets.
 */

uint64_t
ngx_etcd_peer_data_known(ngx_etcd_conf_t *cluster)
{
    uint64_t                   known;
    ngx_uint_t                 i;
    ngx_etcd_catalog_conf_t  **catalogs;
    ngx_etcd_service_conf_t  **services;

    known = cluster->zone.sh->cluster.revision;
    services = cluster->services.elts;

    for (i = 0; i < cluster->services.nelts; i++) {
        known = ngx_max(known, services[i]->set->revision);
    }

    catalogs = cluster->catalogs.elts;

    for (i = 0; i < cluster->catalogs.nelts; i++) {
        known = ngx_max(known, catalogs[i]->map->revision);
    }

    return known;
}


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


ngx_uint_t
ngx_etcd_pin_leads(ngx_etcd_peer_data_t *pd)
{
    ngx_str_t         key, former;
    ngx_etcd_peer_t  *peer, *pinned;

    pinned = pd->pin.peer;

    if (pinned == NULL) {
        return 0;
    }

    peer = ngx_etcd_table_first(pd->table);

    if (peer == NULL || peer == pinned) {
        return peer != NULL;
    }

    /* a changed peer gets a new object: compare what identifies a leader */

    key = ngx_etcd_peer_key(peer);
    former = ngx_etcd_peer_key(pinned);

    return peer->create_revision == pinned->create_revision
           && ngx_etcd_str_equal(&key, &former)
           && ngx_cmp_sockaddr(ngx_etcd_peer_sockaddr(peer), peer->socklen,
                               ngx_etcd_peer_sockaddr(pinned), pinned->socklen,
                               1)
              == NGX_OK;
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
        return ngx_etcd_peer_data_get(pc, pick);
    }

    if (pd->pin.peer != NULL || !ngx_etcd_pin_complete(pd)) {
        ngx_etcd_outcome_refuse(pd->upstream->service->outcome, pick->pool,
                                NGX_ETCD_REFUSAL_LEADER_CHANGED);

    } else {
        ngx_etcd_no_member(pd->upstream, pick, pc->log);
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
