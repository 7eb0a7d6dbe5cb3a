
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_snapshot.h>
#include <ngx_etcd_unused.h>


/* bytes of a pool for a member; thousands of sets may have few members each */

#define NGX_ETCD_SNAPSHOT_POOL  256


void
ngx_etcd_snapshot_init(ngx_etcd_snapshot_t *snapshot, ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_str_t *name, ngx_str_t *prefix,
    ngx_log_t *log)
{
    ngx_memzero(snapshot, sizeof(ngx_etcd_snapshot_t));

    snapshot->zone = zone;
    snapshot->set = set;
    snapshot->log = log;
    snapshot->name = *name;
    snapshot->prefix = *prefix;
}


static ngx_int_t
ngx_etcd_snapshot_removed(ngx_etcd_snapshot_t *snapshot)
{
    ngx_etcd_snapshot_destroy(snapshot);

    snapshot->entries = NULL;
    snapshot->revision = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_snapshot_restart(ngx_etcd_snapshot_t *snapshot)
{
    ngx_etcd_member_set_t  *set;

    set = snapshot->set;

    snapshot->piece = (snapshot->pool != NULL) ? 2 * snapshot->piece
                                               : NGX_ETCD_SNAPSHOT_PIECE;

    ngx_etcd_snapshot_destroy(snapshot);

    snapshot->pool = ngx_create_pool(ngx_min(4096, NGX_ETCD_SNAPSHOT_POOL
                                                   * (1 + set->nmembers)),
                                     snapshot->log);
    if (snapshot->pool == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(&snapshot->walk, sizeof(ngx_etcd_entry_walk_t));

    snapshot->entries = NULL;
    snapshot->ncopied = 0;
    snapshot->stream = ngx_etcd_member_set_stream(set);
    snapshot->params = set->params;
    snapshot->held_until = set->held_until;
    snapshot->generation = set->generation;
    snapshot->commits = set->commits;

    /*
     * Invalid and unused keys are not copied, and a pending commit is
     * incomplete: in these cases the set must be listed again.
     */

    snapshot->revision = (set->ninvalid == 0 && !ngx_etcd_unused_any(set)
                          && !set->unfinished)
                         ? set->revision : 0;

    if (snapshot->id != 0 && snapshot->revision != 0) {
        snapshot->revision = snapshot->since;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_snapshot_entry(ngx_etcd_snapshot_t *snapshot, ngx_etcd_entry_t *entry)
{
    u_char           *p;
    ngx_etcd_copy_t  *copy;

    if (entry->key_len == 0) {
        return NGX_OK;
    }

    copy = ngx_palloc(snapshot->pool, sizeof(ngx_etcd_copy_t));
    if (copy == NULL) {
        return NGX_ERROR;
    }

    p = ngx_pnalloc(snapshot->pool, entry->key_len + entry->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(p, entry->bytes, entry->key_len + entry->len);

    copy->create_revision = entry->create_revision;
    copy->mod_revision = entry->mod_revision;
    copy->lease = entry->lease;
    copy->gone = entry->gone;
    copy->key.data = p;
    copy->key.len = entry->key_len;
    copy->payload = p + entry->key_len;

    copy->next = snapshot->entries;
    snapshot->entries = copy;

    return NGX_OK;
}


/*
 * If changes are faster than pieces, the piece grows until it holds the whole
 * set: the owner does not change the set while it copies a piece.
 */

static ngx_int_t
ngx_etcd_snapshot_entries(ngx_etcd_snapshot_t *snapshot)
{
    ngx_uint_t         i;
    ngx_etcd_entry_t  *entry;

    if (snapshot->set->dirty) {
        return NGX_BUSY;
    }

    for (i = 0; i < NGX_ETCD_MEMBER_SET_PIECE; i++) {

        if (!ngx_etcd_entry_walk_next(snapshot->zone, snapshot->set,
                                      &snapshot->walk))
        {
            return NGX_OK;
        }

        snapshot->ncopied++;

        entry = ngx_etcd_zone_at(snapshot->zone, snapshot->walk.entry);

        if (entry != NULL
            && ngx_etcd_snapshot_entry(snapshot, entry) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_AGAIN;
}


/*
 * Holds the mutex no longer than a reader does.  The owner may read without
 * the mutex the fields that only the owner changes.
 */

static ngx_int_t
ngx_etcd_snapshot_chunk(ngx_etcd_snapshot_t *snapshot)
{
    ngx_int_t  rc;

    if (snapshot->id != 0 && snapshot->set->object.id != snapshot->id) {
        return ngx_etcd_snapshot_removed(snapshot);
    }

    if (snapshot->pool == NULL || snapshot->commits != snapshot->set->commits)
    {
        if (ngx_etcd_snapshot_restart(snapshot) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (ngx_etcd_zone_lock(snapshot->zone) != NGX_OK) {
        return NGX_BUSY;
    }

    rc = ngx_etcd_zone_owned(snapshot->zone)
         ? ngx_etcd_snapshot_entries(snapshot) : NGX_DECLINED;

    ngx_etcd_zone_unlock(snapshot->zone);

    return rc;
}


ngx_int_t
ngx_etcd_snapshot_step(ngx_etcd_snapshot_t *snapshot)
{
    ngx_int_t   rc;
    ngx_uint_t  n;

    n = 0;

    do {
        rc = ngx_etcd_snapshot_chunk(snapshot);
        n += NGX_ETCD_MEMBER_SET_PIECE;

    } while (rc == NGX_AGAIN && n < snapshot->piece);

    return rc;
}


void
ngx_etcd_snapshot_destroy(ngx_etcd_snapshot_t *snapshot)
{
    if (snapshot->pool != NULL) {
        ngx_destroy_pool(snapshot->pool);
        snapshot->pool = NULL;
    }
}
