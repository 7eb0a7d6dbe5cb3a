
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_entry.h>
#include <ngx_etcd_retire.h>
#include <ngx_etcd_unused.h>


/* sets that are looked at under the mutex: each may be in a page of its own */

#define NGX_ETCD_RETIRE_SETS  64


/* A set of a map is declared with the map, unless it was taken out. */

static ngx_uint_t
ngx_etcd_retire_declared(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set)
{
    uint32_t  epoch;

    epoch = set->object.epoch;

    if (epoch != 0 && set->declared != NULL) {
        epoch = *set->declared;
    }

    return epoch >= zone->epoch;
}


static ngx_uint_t
ngx_etcd_retire_ring(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_entry_t **ring, ngx_uint_t *left)
{
    while (*ring != NULL) {
        if (*left == 0) {
            return 0;
        }

        (*left)--;

        ngx_etcd_entry_free(zone, ring);
    }

    return 1;
}


/* Frees the last chunk of slots. */

static ngx_uint_t
ngx_etcd_retire_chunk(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t *left)
{
    ngx_uint_t        i;
    ngx_etcd_redo_t   redo;
    ngx_etcd_slot_t  *chunk;

    chunk = ngx_etcd_member_set_slot(set,
                                     set->nslots - NGX_ETCD_MEMBER_SET_SLOTS);

    for (i = 0; i < NGX_ETCD_MEMBER_SET_SLOTS; i++) {
        if (!ngx_etcd_retire_ring(zone, set, &chunk[i].entry, left)) {
            return 0;
        }

        chunk[i].conns = 0;
        chunk[i].fails = 0;
    }

    if (*left == 0) {
        return 0;
    }

    (*left)--;

    /*
     * The link is stored in the entry of the first slot: stale references to
     * the slots may still change counters.
     */

    redo.n = 0;

    ngx_etcd_redo_set(&redo, &chunk[0].entry, zone->sh->chunks);
    ngx_etcd_redo_set(&redo, &zone->sh->chunks, chunk);
    ngx_etcd_redo_set(&redo, &set->nslots,
                      set->nslots - NGX_ETCD_MEMBER_SET_SLOTS);

    ngx_etcd_redo_write(&zone->sh->batch.redo, &redo);

    return 1;
}


/* Frees the remaining parts of a set without slots. */

static void
ngx_etcd_retire_rest(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set)
{
    ngx_etcd_redo_t      redo;
    ngx_etcd_invalid_t  *invalid;

    ngx_etcd_zone_free(zone, &set->chunks);
    ngx_etcd_zone_free(zone, &set->ring.slots);

    ngx_etcd_unused_clear(zone, set);

    while (set->invalid != NULL) {
        invalid = set->invalid;

        redo.n = 0;

        ngx_etcd_redo_set(&redo, &set->invalid, invalid->next);
        ngx_etcd_redo_set(&redo, &set->ninvalid, set->ninvalid - 1);

        ngx_etcd_redo_write(&zone->sh->batch.redo, &redo);

        ngx_slab_free_locked(zone->shpool, invalid);
    }
}


/*
 * Returns 1 if all parts of the set were freed.  The remaining parts stay
 * linked to the set; this owner or the next one continues.
 */

static ngx_uint_t
ngx_etcd_retire_set(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t *left)
{
    /* Clear the id first: workers stop reading the set. */

    set->object.id = 0;

    ngx_memory_barrier();

    while (set->nslots != 0) {
        if (!ngx_etcd_retire_chunk(zone, set, left)) {
            return 0;
        }
    }

    if (!ngx_etcd_retire_ring(zone, set, &set->commit.pending, left)) {
        return 0;
    }

    ngx_etcd_retire_rest(zone, set);
    ngx_etcd_object_retire(zone, &ngx_etcd_member_set_type, &set->object);

    return 1;
}


/* A piece of all sets, of which the old ones are freed. */

static ngx_uint_t
ngx_etcd_retire_old(ngx_etcd_zone_t *zone, void *data)
{
    ngx_uint_t              n, left;
    ngx_queue_t            *q, *sets;
    ngx_etcd_member_set_t  *set;

    left = NGX_ETCD_ENTRY_PIECE;

    sets = &zone->sh->objects[NGX_ETCD_ZONE_SETS];

    if (zone->retiring == 0) {
        zone->retiring = ngx_etcd_zone_number(zone, ngx_queue_head(sets));
    }

    for (n = 0; /* void */ ; n++) {
        q = ngx_etcd_zone_at(zone, zone->retiring);

        if (q == ngx_queue_sentinel(sets)) {
            break;
        }

        if (n == NGX_ETCD_RETIRE_SETS) {
            return 1;
        }

        set = ngx_queue_data(q, ngx_etcd_member_set_t, object.queue);

        if (ngx_etcd_retire_declared(zone, set)) {
            zone->retiring = ngx_etcd_zone_number(zone, ngx_queue_next(q));

        } else if (!ngx_etcd_retire_set(zone, set, &left)) {
            return 1;
        }
    }

    zone->retiring = 0;

    return 0;
}


ngx_int_t
ngx_etcd_retire_sets(ngx_etcd_zone_t *zone, uint64_t until)
{
    return ngx_etcd_zone_work(zone, 0, ngx_etcd_retire_old, NULL, until);
}


/* A piece of one set. */

static ngx_uint_t
ngx_etcd_retire_piece(ngx_etcd_zone_t *zone, void *data)
{
    ngx_uint_t  left;

    left = NGX_ETCD_ENTRY_PIECE;

    return !ngx_etcd_retire_set(zone, data, &left);
}


ngx_int_t
ngx_etcd_retire_one(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    uint64_t until)
{
    ngx_int_t  rc;

    rc = ngx_etcd_zone_work(zone, 0, ngx_etcd_retire_piece, set, until);

    if (rc != NGX_OK) {
        zone->retiring = 0;
    }

    return rc;
}
