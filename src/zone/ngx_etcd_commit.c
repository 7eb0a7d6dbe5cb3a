
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_commit.h>


/* Returns the index of the first operation after the next piece. */

static ngx_uint_t
ngx_etcd_commit_end(ngx_etcd_commit_t *commit)
{
    ngx_uint_t      last, most;
    ngx_etcd_op_t  *op;

    op = commit->ops->elts;
    last = commit->done + NGX_ETCD_ENTRY_PIECE;
    most = ngx_min(last + NGX_ETCD_ENTRY_PIECE, commit->ops->nelts);

    while (last < most && op[last].revision == op[last - 1].revision) {
        last++;
    }

    return ngx_min(last, most);
}


static void
ngx_etcd_commit_occupy(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_slot_t *slot)
{
    uint32_t         uid;
    ngx_etcd_redo_t  redo;

    do {
        uid = ++zone->sh->next_uid;
    } while (uid == 0);

    slot->uid = uid;
    slot->conns = (uint64_t) uid << 32;
    slot->fails = (uint64_t) uid << 32;
    slot->verdict = (uint64_t) uid << 32
                    | (set->checks.mandatory ? NGX_ETCD_VERDICT_UNPROVEN : 0);
    slot->accessed = 0;
    slot->checked = 0;

    redo.n = 0;

    ngx_etcd_redo_set(&redo, &set->counts.requests,
                      set->counts.requests + slot->requests);
    ngx_etcd_redo_set(&redo, &slot->requests, 0);

    ngx_etcd_redo_write(&zone->sh->batch.redo, &redo);

    /* Members of the initial list start without slow start. */

    slot->started = (set->state == NGX_ETCD_MEMBER_SET_LOADING)
                    ? 0 : ngx_etcd_slot_now();

    set->nmembers++;
}


/*
 * Counts the leaders: in a set of leaders each key creation with a higher
 * revision is a new leader.
 */

static void
ngx_etcd_commit_term(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    uint64_t term)
{
    ngx_etcd_redo_t  redo;

    if (term > set->counts.term) {
        redo.n = 0;

        ngx_etcd_redo_set(&redo, &set->counts.term, term);
        ngx_etcd_redo_set(&redo, &set->counts.terms, set->counts.terms + 1);

        ngx_etcd_redo_write(&zone->sh->batch.redo, &redo);
    }
}


static void
ngx_etcd_commit_event(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_op_t *op, ngx_uint_t added, ngx_uint_t removed)
{
    ngx_str_t          key;
    ngx_etcd_entry_t  *entry;
    ngx_etcd_change_e  change;

    if (added) {
        change = NGX_ETCD_CHANGE_ADD;

    } else if (removed) {
        change = NGX_ETCD_CHANGE_REMOVE;

    } else {
        change = NGX_ETCD_CHANGE_UPDATE;
    }

    entry = ngx_etcd_zone_at(zone, (op->op == NGX_ETCD_OP_PUT) ? op->entry
                                                                : op->old);

    key.data = ngx_etcd_entry_key(entry);
    key.len = entry->key_len;

    ngx_etcd_zone_event(zone, &set->object.name, &key, change, op->revision);
}


static ngx_uint_t
ngx_etcd_commit_apply(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_op_t *op)
{
    ngx_uint_t         added, changed;
    ngx_etcd_slot_t   *slot;
    ngx_etcd_entry_t  *before, *entry, *old;

    slot = ngx_etcd_member_set_slot(set, op->slot);
    before = slot->entry;
    entry = ngx_etcd_zone_at(zone, op->entry);
    old = ngx_etcd_zone_at(zone, op->old);
    added = 0;

    switch (op->op) {

    case NGX_ETCD_OP_PUT:

        if (before == NULL) {
            ngx_etcd_commit_occupy(zone, set, slot);
            added = 1;
        }

        /*
         * Must come first: after a kill the next owner does not put an entry
         * that was already published.
         */

        ngx_etcd_commit_term(zone, set, entry->create_revision);

        entry->serial = op->serial;
        ngx_etcd_entry_publish(set, slot, entry);
        break;

    case NGX_ETCD_OP_TOUCH:
        old->mod_revision = op->revision;
        old->lease = op->lease;
        old->serial = op->serial;
        old->gone = 0;
        break;

    case NGX_ETCD_OP_KEEP:
        old->gone = NGX_ETCD_ENTRY_KEPT;
        break;

    case NGX_ETCD_OP_HOLD:
        old->mod_revision = 0;
        old->serial = op->serial;
        old->gone = NGX_ETCD_ENTRY_HELD;
        break;

    case NGX_ETCD_OP_REMOVE:

        if (op->shown == 0) {
            set->nmembers--;
        }

        break;
    }

    slot->entry = ngx_etcd_zone_at(zone, op->shown);

    changed = (slot->entry != before);

    if (changed) {
        ngx_etcd_commit_event(zone, set, op, added, slot->entry == NULL);
    }

    if (old != NULL
        && (op->op == NGX_ETCD_OP_PUT || op->op == NGX_ETCD_OP_REMOVE))
    {
        ngx_etcd_entry_free(zone, set, slot, old);
    }

    return changed;
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
    ngx_etcd_commit_t *commit, ngx_atomic_uint_t generation)
{
    if (commit->state == NGX_ETCD_MEMBER_SET_FULL) {

        /* the next agent lists the prefix */

        set->revision = 0;

    } else if (commit->revision != 0) {
        set->revision = commit->revision;
    }

    ngx_memory_barrier();

    if (set->commit.torn != 0 && commit->revision != 0) {
        set->ring.base = ++generation;
        set->commit.torn = 0;
        commit->changed = 1;
    }

    set->generation = generation;
    set->commit.unfinished = 0;

    ngx_memory_barrier();

    set->commit.dirty = (set->commit.torn != 0);

    ngx_etcd_commit_state(set, commit);
}


/*
 * An owner that is killed inside a piece, or between pieces of one revision,
 * leaves "dirty" set for the next owner; if killed between other pieces,
 * "unfinished".
 */

static ngx_uint_t
ngx_etcd_commit_piece(ngx_etcd_zone_t *zone, void *data)
{
    ngx_etcd_commit_t *commit = data;

    ngx_uint_t              last, changed;
    ngx_etcd_op_t          *op;
    ngx_atomic_uint_t       generation;
    ngx_etcd_arrival_t     *arrival;
    ngx_etcd_member_set_t  *set;

    set = commit->set;

    set->commit.dirty = 1;

    ngx_memory_barrier();

    set->commit.number++;

    op = commit->ops->elts;
    last = ngx_etcd_commit_end(commit);
    generation = set->generation;
    changed = 0;

    for ( /* void */ ; commit->done < last; commit->done++) {
        if (ngx_etcd_commit_apply(zone, set, &op[commit->done])) {
            *ngx_etcd_member_set_changed(set, ++generation) =
                                                     op[commit->done].slot;
            changed = 1;
        }
    }

    if (changed) {
        arrival = &set->counts.arrivals[set->commit.number
                                        % NGX_ETCD_MEMBER_SET_ARRIVALS];
        arrival->generation = generation;
        arrival->time = commit->arrived;

        commit->arrived = 0;
        commit->changed = 1;
    }

    if (last < commit->ops->nelts) {
        set->generation = generation;
        set->commit.unfinished = 1;

        ngx_memory_barrier();

        set->commit.dirty = (set->commit.torn != 0
                      || op[last].revision == op[last - 1].revision);
        return 1;
    }

    ngx_etcd_commit_complete(set, commit, generation);

    return 0;
}


ngx_int_t
ngx_etcd_commit(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_commit_t *commit)
{
    commit->set = set;

    return ngx_etcd_zone_work(zone, commit->force, ngx_etcd_commit_piece,
                              commit, commit->until);
}


/*
 * Frees entries that were prepared and not published: the next list prepares
 * them again.
 */

static ngx_uint_t
ngx_etcd_commit_discard(ngx_etcd_zone_t *zone, void *data)
{
    ngx_etcd_member_set_t *set = data;

    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_ENTRY_PIECE && set->commit.pending != NULL; i++) {
        ngx_etcd_entry_free_any(zone, set, &set->commit.pending);
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


static void
ngx_etcd_commit_repaired(ngx_etcd_zone_t *zone, ngx_etcd_repair_t *repair)
{
    ngx_etcd_entry_t       *entry;
    ngx_etcd_member_set_t  *set;

    set = repair->set;

    entry = set->commit.moving;
    set->commit.moving = NULL;

    ngx_memory_barrier();

    if (entry != NULL && !repair->found) {
        ngx_slab_free_locked(zone->shpool, entry);
    }

    set->nmembers = repair->nmembers;
    set->revision = 0;

    if (set->commit.torn == 0) {
        set->commit.torn = ngx_max(ngx_current_msec, 1);
    }
}


static void
ngx_etcd_commit_repair_entry(ngx_etcd_zone_t *zone, ngx_etcd_repair_t *repair)
{
    ngx_etcd_entry_t       *entry, *newest;
    ngx_etcd_entry_walk_t  *walk;

    walk = &repair->walk;
    entry = ngx_etcd_zone_at(zone, walk->entry);
    newest = ngx_etcd_zone_at(zone, repair->newest);

    entry->next->prev = entry;

    if (entry == repair->set->commit.moving) {
        repair->found = 1;
    }

    if (walk->entry == walk->first || ngx_etcd_entry_newer(entry, newest)) {
        newest = entry;
        repair->newest = walk->entry;
    }

    if (ngx_etcd_entry_walk_last(zone, walk)) {
        ngx_etcd_member_set_slot(repair->set, walk->n)->entry = newest;
        repair->nmembers++;
    }
}


/*
 * Each slot shows one of its entries at any time: a worker without members
 * may read the set during the repair.  Other workers wait until the set has
 * been listed again.
 */

static ngx_uint_t
ngx_etcd_commit_repair(ngx_etcd_zone_t *zone, void *data)
{
    ngx_etcd_repair_t *repair = data;

    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_ENTRY_PIECE; i++) {

        if (!ngx_etcd_entry_walk_next(zone, repair->set, &repair->walk)) {
            ngx_etcd_commit_repaired(zone, repair);
            return 0;
        }

        if (repair->walk.entry != 0) {
            ngx_etcd_commit_repair_entry(zone, repair);
        }
    }

    return 1;
}


ngx_int_t
ngx_etcd_commit_recover(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_repair_t *repair, uint64_t until)
{
    ngx_int_t  rc;

    if (repair->done) {
        return NGX_OK;
    }

    repair->set = set;

    rc = ngx_etcd_zone_work(zone, 0, ngx_etcd_commit_discard, set, until);

    if (rc == NGX_OK && set->commit.dirty) {
        rc = ngx_etcd_zone_work(zone, 0, ngx_etcd_commit_repair, repair, until);
    }

    repair->done = (rc == NGX_OK);

    return rc;
}
