
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "unit_members.h"


/* a block of points has 252 of 8 bytes and their number */

void
ngx_etcd_unit_ring(ngx_etcd_table_t *table)
{
    double                  share, least, most;
    uint32_t                sum;
    ngx_uint_t              i, *counts;
    ngx_etcd_ring_t        *ring;
    ngx_etcd_peer_t        *peer;
    ngx_etcd_point_t       *point;
    ngx_etcd_ring_place_t   place;

    ring = &table->primary.ring;
    counts = ngx_calloc(table->nslots * sizeof(ngx_uint_t), ring->log);
    point = ngx_etcd_ring_find(ring, 0, &place);
    sum = 0;

    for (i = 0; i < ring->npoints; i++) {
        sum += ngx_crc32_long((u_char *) point, sizeof(ngx_etcd_point_t));
        counts[point->index]++;
        point = ngx_etcd_ring_next(&place);
    }

    least = 1e9;
    most = 0;

    for (i = 0; i < table->nslots; i++) {
        peer = table->slots[i];

        if (peer != NULL) {
            share = (double) counts[i] / (double) peer->attr.weight;
            least = ngx_min(least, share);
            most = ngx_max(most, share);
        }
    }

    printf("ring: %lu %lu %lu %.4f %.4f\n", (unsigned long) ring->npoints,
           (unsigned long) (ring->nblocks * 2024 + ring->allocated * 12) / 1024,
           (unsigned long) sum, least, most);

    ngx_free(counts);
}
