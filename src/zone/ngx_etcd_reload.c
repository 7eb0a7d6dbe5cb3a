
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_reload.h>


/* attempts to read the set of another zone */

#define NGX_ETCD_MEMBER_SET_INHERIT_TRIES  32


/* slots at a time under the mutex */

#define NGX_ETCD_MEMBER_SET_INHERIT_PIECE  512


/* sets that are looked at under the mutex: each may be in a page of its own */

#define NGX_ETCD_RETIRE_SETS  64


/* a set that is filled from another zone */

typedef struct {
    ngx_etcd_zone_t       *zone;
    ngx_etcd_member_set_t *set;
    ngx_etcd_member_set_t *from;              /* the source */
    ngx_uint_t             commits;      /* of the source at the start */
    ngx_uint_t             more;         /* the source has entries that are not
                                            shown */
} ngx_etcd_heir_t;


/* verdicts that are cleared */

typedef struct {
    ngx_etcd_member_set_t *set;
    uint32_t               bits;
    ngx_uint_t             n;            /* next slot */
} ngx_etcd_member_set_pardon_t;


ngx_int_t
ngx_etcd_member_set_inherit(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_zone_t *from)
{
    uint32_t                id;
    ngx_etcd_member_set_t  *old;

    if (ngx_etcd_zone_lock_patient(from) != NGX_OK) {
        return NGX_AGAIN;
    }

    old = ngx_etcd_object_find(from, &ngx_etcd_member_set_type, &set->object);
    id = (old != NULL) ? old->object.id : 0;

    ngx_etcd_zone_unlock(from);

    return (old != NULL)
           ? ngx_etcd_member_set_inherit_from(zone, set, from, old, id)
           : NGX_OK;
}


/*
 * The caller holds the mutex of the source zone; no other process knows the
 * target set.
 */

static ngx_int_t
ngx_etcd_member_set_inherit_slot(void *data, ngx_uint_t n,
    ngx_etcd_slot_t *slot)
{
    ngx_etcd_heir_t *heir = data;

    ngx_array_t             ops;
    ngx_etcd_op_t           op;
    ngx_etcd_slot_t        *copied;
    ngx_etcd_entry_t       *entry;
    ngx_etcd_member_set_t  *set;
    ngx_etcd_commit_t       commit;
    ngx_etcd_entry_data_t   copy;

    set = heir->set;
    entry = slot->entry;

    while (n >= set->nslots) {
        if (ngx_etcd_member_set_grow(heir->zone, set, 1) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    ngx_memzero(&op, sizeof(ngx_etcd_op_t));
    ngx_memzero(&commit, sizeof(ngx_etcd_commit_t));

    op.op = NGX_ETCD_OP_REMOVE;
    op.slot = n;
    op.old = ngx_etcd_zone_number(heir->zone,
                                  ngx_etcd_member_set_slot(set, n)->entry);

    if (entry == NULL && op.old == 0) {
        return NGX_OK;
    }

    if (entry != NULL) {
        heir->more |= (entry->next != entry);

        copy.key.data = ngx_etcd_entry_key(entry);
        copy.key.len = entry->key_len;
        copy.payload = ngx_etcd_entry_payload(entry);
        copy.len = entry->len;
        copy.create_revision = entry->create_revision;
        copy.mod_revision = entry->mod_revision;
        copy.lease = entry->lease;
        copy.gone = entry->gone;

        if (ngx_etcd_entry_create(heir->zone, set, &copy, 1, &op.entry)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        op.op = NGX_ETCD_OP_PUT;
        op.shown = op.entry;
        op.revision = entry->mod_revision;
    }

    ops.elts = &op;
    ops.nelts = 1;

    commit.ops = &ops;
    commit.force = 1;

    if (ngx_etcd_commit(heir->zone, set, &commit) != NGX_OK) {
        return NGX_ERROR;
    }

    if (entry != NULL) {

        /* a member that was in use is not unproven in another zone */

        copied = ngx_etcd_member_set_slot(set, n);

        ngx_etcd_counter_set(&copied->verdict, copied->uid,
                             ngx_etcd_counter_get(&slot->verdict, slot->uid));
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_member_set_inherit_from(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_etcd_zone_t *from,
    ngx_etcd_member_set_t *old, uint32_t id)
{
    ngx_int_t                      rc;
    ngx_uint_t                     i;
    ngx_etcd_heir_t                heir;
    ngx_etcd_member_set_reader_t   reader;

    ngx_memzero(&heir, sizeof(ngx_etcd_heir_t));
    ngx_memzero(&reader, sizeof(ngx_etcd_member_set_reader_t));

    heir.zone = zone;
    heir.set = set;
    heir.from = old;
    heir.commits = old->commit.number;
    reader.handler = ngx_etcd_member_set_inherit_slot;
    reader.data = &heir;
    reader.any = 1;

    rc = NGX_AGAIN;

    for (i = 0; i < NGX_ETCD_MEMBER_SET_INHERIT_TRIES && rc == NGX_AGAIN; i++) {
        rc = ngx_etcd_member_set_read(from, old, id, &reader, 0);
    }

    if (rc != NGX_OK || ngx_etcd_zone_lock_patient(from) != NGX_OK) {
        return (rc == NGX_ERROR) ? NGX_ERROR : NGX_AGAIN;
    }

    if (old->object.id == id) {
        set->state = old->state;
        set->params = old->params;
        set->verified = old->verified;
        set->held_until = old->held_until;

        /* hashes of what the log has, as far as there is room */

        if (old->remarks != NULL
            && ngx_etcd_member_set_alloc(zone, 1, &set->remarks,
                                         sizeof(ngx_etcd_member_set_remarks_t))
               == NGX_OK)
        {
            ngx_memcpy(set->remarks->told, old->remarks->told,
                       sizeof(set->remarks->told));
        }

        /* a part of a commit, whose entries are not trusted */

        set->commit.unfinished = (old->commit.unfinished
                                  || old->commit.number != heir.commits);

        set->revision = (heir.more || set->commit.unfinished
                         || ngx_etcd_unused_any(old))
                        ? 0 : old->revision;
    }

    ngx_etcd_zone_unlock(from);

    return NGX_OK;
}


/* Clears bits of the verdicts on members. */

static ngx_uint_t
ngx_etcd_member_set_inherit_pardon(ngx_etcd_zone_t *zone, void *data)
{
    ngx_etcd_member_set_pardon_t *pardon = data;

    ngx_uint_t              last;
    ngx_etcd_note_t        *note;
    ngx_etcd_slot_t        *slot;
    ngx_etcd_member_set_t  *set;

    set = pardon->set;

    if (pardon->bits & NGX_ETCD_VERDICT_FAILED) {
        set->checks.panic = 0;
    }

    last = ngx_min(pardon->n + NGX_ETCD_MEMBER_SET_INHERIT_PIECE, set->nslots);

    for ( /* void */ ; pardon->n < last; pardon->n++) {
        slot = ngx_etcd_member_set_slot(set, pardon->n);

        if (!ngx_etcd_counter_bits(&slot->verdict, slot->uid, 0, pardon->bits))
        {
            continue;
        }

        note = ngx_etcd_member_set_note(slot, pardon->n);

        if (note != NULL && (pardon->bits & NGX_ETCD_VERDICT_EJECTED)) {
            note->until = 0;
            note->level = 0;
        }
    }

    return last < set->nslots;
}


ngx_int_t
ngx_etcd_member_set_inherit_adopt(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_etcd_member_set_adopt_t *adopt)
{
    ngx_int_t                     rc;
    ngx_etcd_member_set_pardon_t  pardon;

    rc = ngx_etcd_zone_lock_owned(zone, 0);
    if (rc != NGX_OK) {
        return rc;
    }

    set->checks.mandatory = adopt->mandatory;
    adopt->relist = ngx_etcd_unused_any(set);
    adopt->distrust = (set->commit.unfinished || adopt->relist);

    if (set->params != adopt->params) {
        set->revision = 0;
        adopt->distrust = 1;
    }

    ngx_etcd_zone_unlock(zone);

    pardon.set = set;
    pardon.n = 0;
    pardon.bits = (NGX_ETCD_VERDICT_CHECKS|NGX_ETCD_VERDICT_EJECTED)
                  & ~adopt->verdicts;

    if (!adopt->mandatory) {
        pardon.bits |= NGX_ETCD_VERDICT_UNPROVEN;
    }

    if (pardon.bits == 0) {
        return NGX_OK;
    }

    return ngx_etcd_zone_work(zone, 0, ngx_etcd_member_set_inherit_pardon,
                              &pardon, 0);
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
    ngx_uint_t           i;
    ngx_etcd_redo_t      redo;
    ngx_etcd_invalid_t  *invalid;

    ngx_etcd_zone_free(zone, &set->chunks);
    ngx_etcd_zone_free(zone, &set->ring.slots);

    for (i = 0; set->remarks != NULL && i < NGX_ETCD_MEMBER_SET_UNUSED; i++) {
        ngx_etcd_zone_free(zone, &set->remarks->named[i]);
    }

    ngx_etcd_zone_free(zone, &set->remarks);

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
    uint32_t                epoch;
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

        /* a set of a map is declared with the map, unless it was taken out */

        epoch = set->object.epoch;

        if (epoch != 0 && set->declared != NULL) {
            epoch = *set->declared;
        }

        if (epoch >= zone->epoch) {
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
