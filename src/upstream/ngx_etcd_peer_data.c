
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_etcd_peer_data.h>
#include <ngx_etcd_source.h>


ngx_etcd_peer_data_t  *ngx_etcd_peer_data_spare;


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


void
ngx_etcd_peer_data_unpin(ngx_etcd_peer_data_t *pd)
{
    if (pd->pin.peer != NULL) {
        ngx_etcd_peer_unref(pd->pin.peer);
        pd->pin.peer = NULL;
    }
}


ngx_etcd_peer_data_t *
ngx_etcd_peer_data_find(ngx_pool_t *pool)
{
    ngx_pool_cleanup_t  *cln;

    for (cln = pool->cleanup; cln != NULL; cln = cln->next) {
        if (cln->handler == ngx_etcd_peer_data_cleanup) {
            return cln->data;
        }
    }

    return NULL;
}


ngx_etcd_peer_t *
ngx_etcd_peer_data_peer(ngx_etcd_peer_data_t *pd)
{
    if (pd == NULL || pd->pick.ntried == 0) {
        return NULL;
    }

    return pd->pick.tried[pd->pick.ntried - 1].peer;
}


static ngx_etcd_conf_t *
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

    table = pd->table;

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


int64_t
ngx_etcd_peer_data_staleness(ngx_etcd_peer_data_t *pd)
{
    ngx_etcd_conf_t  *cluster;

    if (pd != NULL) {
        return ngx_etcd_source_staleness(pd->upstream->service,
                                         pd->table->set);
    }

    cluster = ngx_etcd_peer_data_cluster();

    return cluster ? ngx_etcd_zone_staleness(&cluster->zone) : -1;
}
