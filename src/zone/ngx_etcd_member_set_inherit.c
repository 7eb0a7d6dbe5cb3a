
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_member_set_inherit.h>
#include <ngx_etcd_unused.h>


/* attempts to read the set of another zone */

#define NGX_ETCD_MEMBER_SET_INHERIT_TRIES  32


/* slots at a time under the mutex */

#define NGX_ETCD_MEMBER_SET_INHERIT_PIECE  512


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


/* A member that was in use is not unproven because the zone is another one. */

static void
ngx_etcd_member_set_inherit_verdict(ngx_etcd_slot_t *slot,
    ngx_etcd_slot_t *from)
{
    ngx_etcd_counter_set(&slot->verdict, slot->uid,
                         ngx_etcd_counter_get(&from->verdict, from->uid));
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
        ngx_etcd_member_set_inherit_verdict(ngx_etcd_member_set_slot(set, n),
                                            slot);
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
    reader.any = 1;

    rc = NGX_AGAIN;

    for (i = 0; i < NGX_ETCD_MEMBER_SET_INHERIT_TRIES && rc == NGX_AGAIN; i++) {
        rc = ngx_etcd_member_set_read(from, old, id, &reader, 0,
                                      ngx_etcd_member_set_inherit_slot, &heir);
    }

    if (rc != NGX_OK || ngx_etcd_zone_lock_patient(from) != NGX_OK) {
        return (rc == NGX_ERROR) ? NGX_ERROR : NGX_AGAIN;
    }

    if (old->object.id == id) {
        set->state = old->state;
        set->params = old->params;
        set->verified = old->verified;
        set->held_until = old->held_until;

        ngx_etcd_unused_inherit(zone, set, old);

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
