
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_entry.h>


/*
 * The single store that changes the ring stands between the barriers: the
 * ring is consistent if the process is killed.
 */

static void
ngx_etcd_entry_link(ngx_etcd_entry_t **ring, ngx_etcd_entry_t *entry)
{
    ngx_etcd_entry_t  *at;

    at = *ring;

    if (at == NULL) {
        entry->next = entry;
        entry->prev = entry;

        ngx_memory_barrier();

        *ring = entry;
        return;
    }

    entry->next = at->next;
    entry->prev = at;

    ngx_memory_barrier();

    at->next = entry;

    ngx_memory_barrier();

    entry->next->prev = entry;
}


ngx_int_t
ngx_etcd_entry_create(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_entry_data_t *data, ngx_uint_t force, uint32_t *n)
{
    u_char            *p;
    ngx_etcd_entry_t  *entry;

    if (ngx_etcd_zone_lock_owned(zone, force) != NGX_OK) {
        return NGX_AGAIN;
    }

    entry = ngx_slab_alloc_locked(zone->shpool,
                                  offsetof(ngx_etcd_entry_t, bytes)
                                  + data->key.len + data->len);

    if (entry == NULL) {
        ngx_etcd_zone_unlock(zone);
        return NGX_ERROR;
    }

    ngx_memzero(entry, offsetof(ngx_etcd_entry_t, bytes));

    entry->create_revision = data->create_revision;
    entry->mod_revision = data->mod_revision;
    entry->lease = data->lease;
    entry->key_len = (uint32_t) data->key.len;
    entry->len = (uint16_t) data->len;
    entry->gone = data->gone;

    p = ngx_cpymem(entry->bytes, data->key.data, data->key.len);
    ngx_memcpy(p, data->payload, data->len);

    ngx_etcd_entry_link(&set->commit.pending, entry);

    ngx_etcd_zone_unlock(zone);

    *n = ngx_etcd_zone_number(zone, entry);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_entry_read(ngx_etcd_zone_t *zone, uint32_t n, u_char *payload,
    size_t size)
{
    ngx_int_t          rc;
    ngx_etcd_entry_t  *entry;

    rc = ngx_etcd_zone_lock_owned(zone, 0);
    if (rc != NGX_OK) {
        return rc;
    }

    entry = ngx_etcd_zone_at(zone, n);

    ngx_memcpy(payload, ngx_etcd_entry_payload(entry),
               ngx_min(entry->len, size));

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}


void
ngx_etcd_entry_free(ngx_etcd_zone_t *zone, ngx_etcd_entry_t **ring)
{
    ngx_etcd_entry_t  *entry;

    entry = (*ring)->next;

    if (entry == *ring) {
        *ring = NULL;

    } else {
        (*ring)->next = entry->next;
    }

    ngx_memory_barrier();

    ngx_slab_free_locked(zone->shpool, entry);
}


ngx_uint_t
ngx_etcd_entry_newer(ngx_etcd_entry_t *entry1, ngx_etcd_entry_t *entry2)
{
    return entry1->mod_revision > entry2->mod_revision
           || (entry1->mod_revision == entry2->mod_revision
               && entry1->serial > entry2->serial);
}


ngx_uint_t
ngx_etcd_entry_walk_last(ngx_etcd_zone_t *zone, ngx_etcd_entry_walk_t *walk)
{
    ngx_etcd_entry_t  *entry;

    entry = ngx_etcd_zone_at(zone, walk->entry);

    return entry == NULL || entry->next == ngx_etcd_zone_at(zone, walk->first);
}


ngx_uint_t
ngx_etcd_entry_walk_next(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_entry_walk_t *walk)
{
    ngx_etcd_entry_t  *entry;

    if (!ngx_etcd_entry_walk_last(zone, walk)) {
        entry = ngx_etcd_zone_at(zone, walk->entry);
        walk->entry = ngx_etcd_zone_number(zone, entry->next);
        return 1;
    }

    if (walk->next == set->nslots) {
        return 0;
    }

    walk->n = walk->next++;

    entry = ngx_etcd_member_set_slot(set, walk->n)->entry;
    walk->entry = ngx_etcd_zone_number(zone, entry);
    walk->first = walk->entry;

    return 1;
}
