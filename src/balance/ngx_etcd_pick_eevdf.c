
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_pick_eevdf.h>


/* least_conn: maximum of candidates with outdated numbers per pick */

#define NGX_ETCD_PICK_LOOKS  256


/*
 * Removes the peers that the request has tried from the rotation; their
 * number is small.
 */

static void
ngx_etcd_pick_set_aside(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group)
{
    ngx_uint_t        i;
    ngx_etcd_peer_t  *peer;

    for (i = 0; i < pick->ntried; i++) {
        peer = ngx_etcd_table_current(pick->table, pick->tried[i].peer);

        if (peer != NULL
            && peer->group == group
            && ngx_etcd_eevdf_taken_by(&peer->eevdf))
        {
            ngx_etcd_eevdf_remove(&group->eevdf, &peer->eevdf);
        }
    }
}


/* Returns 1 if the peer has more connections than the rotation assumed. */

static ngx_uint_t
ngx_etcd_pick_outdated(ngx_etcd_peer_group_t *group, ngx_etcd_peer_t *peer)
{
    ngx_uint_t  known, conns;

    if (!(group->method->needs & NGX_ETCD_NEEDS_CONNS)) {
        return 0;
    }

    known = ngx_etcd_eevdf_conns(&peer->eevdf);
    conns = ngx_etcd_peer_conns(peer);

    ngx_etcd_eevdf_load(&group->eevdf, &peer->eevdf, conns);

    return conns > known;
}


static void
ngx_etcd_pick_put_back(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group)
{
    ngx_uint_t        i, conns;
    ngx_etcd_peer_t  *peer;

    for (i = 0; i < pick->ntried; i++) {
        peer = ngx_etcd_table_current(pick->table, pick->tried[i].peer);

        if (peer == NULL
            || peer->group != group
            || ngx_etcd_eevdf_taken_by(&peer->eevdf)
            || peer->weight == 0)
        {
            continue;
        }

        conns = (group->method->needs & NGX_ETCD_NEEDS_CONNS)
                ? ngx_etcd_peer_conns(peer) : 0;

        if (ngx_etcd_eevdf_add(&group->eevdf, &peer->eevdf, peer->weight, conns)
            != NGX_OK)
        {
            ngx_etcd_peer_group_place(group, peer, NGX_ETCD_REGION_PARKED, 0);
        }
    }
}


ngx_etcd_peer_t *
ngx_etcd_pick_eevdf(ngx_etcd_pick_t *pick, ngx_etcd_peer_group_t *group)
{
    ngx_uint_t              looks;
    ngx_etcd_peer_t        *peer;
    ngx_etcd_eevdf_link_t  *link;

    ngx_etcd_pick_set_aside(pick, group);

    looks = 0;

    for ( ;; ) {
        link = ngx_etcd_eevdf_next(&group->eevdf);

        if (link == NULL) {
            peer = NULL;
            break;
        }

        peer = ngx_queue_data(link, ngx_etcd_peer_t, eevdf);

        /* an unusable peer was parked: the next one differs */

        if (!ngx_etcd_health_usable(group, peer,
                                    ngx_etcd_table_counts(pick->table)))
        {
            continue;
        }

        if (looks++ < NGX_ETCD_PICK_LOOKS
            && ngx_etcd_pick_outdated(group, peer))
        {
            continue;
        }

        ngx_etcd_eevdf_take(&group->eevdf, &peer->eevdf);
        break;
    }

    ngx_etcd_pick_put_back(pick, group);

    return peer;
}
