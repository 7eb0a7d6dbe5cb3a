
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_str.h>


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
ngx_etcd_entry_walk_next(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_entry_walk_t *walk)
{
    ngx_etcd_entry_t  *entry;

    entry = ngx_etcd_zone_at(zone, walk->entry);

    if (entry != NULL && entry->next != ngx_etcd_zone_at(zone, walk->first)) {
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


/*
 * Returns the index of the first operation after the next batch, which ends
 * with a revision if it can.
 */

static ngx_uint_t
ngx_etcd_commit_end(ngx_etcd_commit_t *commit)
{
    ngx_uint_t      last, end;
    ngx_etcd_op_t  *op;

    op = commit->ops->elts;
    last = ngx_min(commit->done + NGX_ETCD_BATCH_STEPS, commit->ops->nelts);

    if (last == commit->ops->nelts) {
        return last;
    }

    for (end = last; end > commit->done; end--) {
        if (op[end].revision != op[end - 1].revision) {
            return end;
        }
    }

    return last;
}


/* Makes a step, and returns 1 if the slot shows another entry. */

static ngx_uint_t
ngx_etcd_commit_step(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set)
{
    ngx_str_t              key;
    ngx_etcd_entry_t      *before, *entry;
    ngx_etcd_change_e      change;
    ngx_etcd_slot_step_t  *step;

    step = &zone->sh->batch.slots[zone->sh->batch.n - 1];
    before = step->slot->entry;

    ngx_etcd_batch_slot(&zone->sh->batch);

    if (step->shown == before) {
        return 0;
    }

    change = (before == NULL) ? NGX_ETCD_CHANGE_ADD
             : (step->shown == NULL) ? NGX_ETCD_CHANGE_REMOVE
             : NGX_ETCD_CHANGE_UPDATE;

    /* Removed entries are freed at the end of the batch. */

    entry = (step->op == NGX_ETCD_OP_PUT) ? step->entry : step->old;

    key.data = ngx_etcd_entry_key(entry);
    key.len = entry->key_len;

    ngx_etcd_zone_event(zone, &set->object.name, &key, change, step->revision);

    return 1;
}


static void
ngx_etcd_commit_state(ngx_etcd_member_set_t *set, ngx_etcd_commit_t *commit)
{
    switch (commit->state) {

    case NGX_ETCD_MEMBER_SET_FULL:
        set->state = NGX_ETCD_MEMBER_SET_FULL;
        break;

    case NGX_ETCD_MEMBER_SET_SYNCED:
        set->params = commit->params;
        set->state = NGX_ETCD_MEMBER_SET_SYNCED;

        ngx_etcd_zone_prove(&set->verified, commit->verified);
        break;
    }
}


static void
ngx_etcd_commit_complete(ngx_etcd_member_set_t *set,
    ngx_etcd_commit_t *commit)
{
    if (commit->state == NGX_ETCD_MEMBER_SET_FULL) {

        /* the next agent lists the prefix */

        set->revision = 0;

    } else if (commit->revision != 0) {
        set->revision = commit->revision;
    }

    ngx_memory_barrier();

    set->commit.unfinished = 0;

    ngx_etcd_commit_state(set, commit);
}


static ngx_uint_t
ngx_etcd_commit_batch(ngx_etcd_zone_t *zone, void *data)
{
    ngx_etcd_commit_t *commit = data;

    ngx_uint_t              n, last, changed;
    ngx_etcd_op_t          *op;
    ngx_etcd_batch_t       *batch;
    ngx_etcd_arrival_t     *arrival;
    ngx_etcd_slot_step_t   *step;
    ngx_etcd_member_set_t  *set;

    set = commit->set;
    batch = &zone->sh->batch;

    set->commit.unfinished = 1;
    set->commit.number++;

    op = commit->ops->elts;
    last = ngx_etcd_commit_end(commit);
    changed = 0;

    /* members of the initial list start without slow start */

    batch->started = (set->state == NGX_ETCD_MEMBER_SET_LOADING)
                     ? 0 : ngx_etcd_slot_now();
    batch->verdict = set->checks.mandatory ? NGX_ETCD_VERDICT_UNPROVEN : 0;

    for (n = last - commit->done; n > 0; n--) {
        step = &batch->slots[n - 1];

        step->op = op[last - n].op;
        step->n = op[last - n].slot;
        step->slot = ngx_etcd_member_set_slot(set, op[last - n].slot);
        step->entry = ngx_etcd_zone_at(zone, op[last - n].entry);
        step->old = ngx_etcd_zone_at(zone, op[last - n].old);
        step->shown = ngx_etcd_zone_at(zone, op[last - n].shown);
        step->revision = op[last - n].revision;
        step->lease = op[last - n].lease;
    }

    batch->generation = &set->generation;
    batch->ring = ngx_etcd_member_set_ring(set, &batch->room);
    batch->set = &set->commit;

    /* from now on all of the steps are made */

    __atomic_store_n(&batch->n, last - commit->done, __ATOMIC_RELEASE);

    for ( /* void */ ; commit->done < last; commit->done++) {
        changed |= ngx_etcd_commit_step(zone, set);
    }

    ngx_etcd_batch_finish(batch, zone->shpool);

    if (changed) {
        arrival = &set->counts.arrivals[set->commit.number
                                        % NGX_ETCD_MEMBER_SET_ARRIVALS];
        arrival->generation = set->generation;
        arrival->time = commit->arrived;

        commit->arrived = 0;
        commit->changed = 1;
    }

    if (last < commit->ops->nelts) {
        return 1;
    }

    ngx_etcd_commit_complete(set, commit);

    return 0;
}


ngx_int_t
ngx_etcd_commit(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_commit_t *commit)
{
    commit->set = set;

    return ngx_etcd_zone_work(zone, commit->force, ngx_etcd_commit_batch,
                              commit, commit->until);
}


/* The next list prepares pending entries again. */

static ngx_uint_t
ngx_etcd_commit_discard(ngx_etcd_zone_t *zone, void *data)
{
    ngx_etcd_member_set_t *set = data;

    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_ENTRY_PIECE && set->commit.pending != NULL; i++) {
        ngx_etcd_entry_free(zone, &set->commit.pending);
    }

    if (set->commit.pending != NULL) {
        return 1;
    }

    if (set->commit.unfinished) {
        set->revision = 0;

        ngx_memory_barrier();

        set->commit.unfinished = 0;
    }

    return 0;
}


ngx_int_t
ngx_etcd_commit_recover(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    uint64_t until)
{
    return ngx_etcd_zone_work(zone, 0, ngx_etcd_commit_discard, set, until);
}


static ngx_etcd_invalid_t *
ngx_etcd_unused_name(ngx_etcd_zone_t *zone, ngx_etcd_unused_row_t *row)
{
    size_t               len;
    ngx_etcd_invalid_t  *named;

    if (row->key.data == NULL || row->key.len > NGX_ETCD_MEMBER_SET_MAX_KEY) {
        return NULL;
    }

    len = offsetof(ngx_etcd_invalid_t, bytes) + row->key.len + row->reason.len;

    named = ngx_slab_alloc_locked(zone->shpool, len);
    if (named == NULL) {
        return NULL;
    }

    named->next = NULL;
    named->mod_revision = row->mod_revision;
    named->key_len = row->key.len;
    named->len = row->reason.len;

    ngx_memcpy(ngx_cpymem(named->bytes, row->key.data, row->key.len),
               row->reason.data, row->reason.len);

    return named;
}


static ngx_uint_t
ngx_etcd_unused_named(ngx_etcd_invalid_t *named, ngx_etcd_unused_row_t *row)
{
    ngx_str_t  key, reason;

    if (named == NULL || row->key.data == NULL) {
        return named == NULL && row->key.data == NULL;
    }

    key.data = named->bytes;
    key.len = named->key_len;
    reason.data = named->bytes + named->key_len;
    reason.len = named->len;

    return named->mod_revision == row->mod_revision
           && ngx_etcd_str_equal(&key, &row->key)
           && ngx_etcd_str_equal(&reason, &row->reason);
}


ngx_int_t
ngx_etcd_unused_write(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_unused_t *unused, ngx_uint_t force)
{
    ngx_int_t                       rc;
    ngx_uint_t                      i, any;
    ngx_etcd_invalid_t             *old;
    ngx_etcd_unused_row_t          *row;
    ngx_etcd_member_set_remarks_t  *remarks;

    rc = ngx_etcd_zone_lock_owned(zone, force);
    if (rc != NGX_OK) {
        return rc;
    }

    any = (unused->told[0] != 0);

    for (i = 0; i < NGX_ETCD_MEMBER_SET_UNUSED; i++) {
        row = &unused->rows[i];
        set->unused[i] = row->keys;
        any |= (row->key.data != NULL);
    }

    if (any && set->remarks == NULL) {
        set->remarks = ngx_slab_calloc_locked(zone->shpool,
                                        sizeof(ngx_etcd_member_set_remarks_t));
    }

    remarks = set->remarks;

    for (i = 0; remarks != NULL && i < NGX_ETCD_MEMBER_SET_UNUSED; i++) {
        row = &unused->rows[i];
        old = remarks->named[i];

        if (ngx_etcd_unused_named(old, row)) {
            continue;
        }

        /* a kill in between loses the block, and no reader finds it freed */

        remarks->named[i] = ngx_etcd_unused_name(zone, row);

        ngx_memory_barrier();

        if (old != NULL) {
            ngx_slab_free_locked(zone->shpool, old);
        }
    }

    if (remarks != NULL) {
        ngx_memcpy(remarks->told, unused->told, sizeof(remarks->told));
    }

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_unused_copy(ngx_etcd_member_set_t *set, ngx_etcd_unused_t *unused,
    ngx_pool_t *pool)
{
    u_char                 *p;
    ngx_uint_t              i;
    ngx_etcd_invalid_t     *named;
    ngx_etcd_unused_row_t  *row;

    ngx_memzero(unused, sizeof(ngx_etcd_unused_t));

    if (set->remarks != NULL) {
        ngx_memcpy(unused->told, set->remarks->told, sizeof(unused->told));
    }

    for (i = 0; i < NGX_ETCD_MEMBER_SET_UNUSED; i++) {
        row = &unused->rows[i];
        named = set->remarks ? set->remarks->named[i] : NULL;

        row->keys = set->unused[i];

        if (named == NULL) {
            continue;
        }

        p = ngx_pnalloc(pool, named->key_len + named->len + 1);
        if (p == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(p, named->bytes, named->key_len + named->len);

        row->mod_revision = named->mod_revision;
        row->key.data = p;
        row->key.len = named->key_len;
        row->reason.data = p + named->key_len;
        row->reason.len = named->len;
    }

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_unused_any(ngx_etcd_member_set_t *set)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_UNUSED_HIDDEN; i++) {
        if (set->unused[i] != 0) {
            return 1;
        }
    }

    return 0;
}
