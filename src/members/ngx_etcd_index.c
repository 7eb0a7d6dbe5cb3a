
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_drain.h>
#include <ngx_etcd_index.h>
#include <ngx_etcd_member.h>


ngx_int_t
ngx_etcd_index_create(ngx_etcd_index_t *index, ngx_etcd_member_set_t *set,
    ngx_etcd_mirror_t *mirror, ngx_log_t *log)
{
    ngx_etcd_slot_index_t  *slots;

    ngx_memzero(index, sizeof(ngx_etcd_index_t));

    index->mirror = mirror;

    ngx_etcd_hash_table_init(&index->keys, log);
    ngx_queue_init(&index->present);
    ngx_queue_init(&index->gone);
    ngx_queue_init(&index->kept);
    ngx_queue_init(&index->held);

    slots = &index->slots;

    slots->set = set;
    slots->log = log;
    slots->free_head = NGX_ETCD_MEMBER_SET_NO_SLOT;
    slots->free_tail = NGX_ETCD_MEMBER_SET_NO_SLOT;

    ngx_etcd_hash_table_init(&slots->addresses, log);

    return ngx_etcd_slot_index_resize(slots);
}


/* Marks an own key, or a held entry of the mirror, as gone. */

static void
ngx_etcd_index_leave(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    if (key->gone) {
        return;
    }

    key->gone = 1;

    if (key->regs != NULL) {
        index->live--;
    }

    ngx_queue_remove(&key->entry.queue);
    ngx_queue_insert_tail(&index->gone, &key->entry.queue);
}


static void
ngx_etcd_index_revise(ngx_etcd_index_t *index, ngx_etcd_key_t *key,
    int64_t revision)
{
    if (key->entry.mod_revision == revision) {
        return;
    }

    if (index->mirror != NULL
        && ngx_etcd_mirror_find(index->mirror, &key->entry.key) == &key->entry)
    {
        ngx_etcd_mirror_revise(index->mirror, &key->entry, revision);
        return;
    }

    key->entry.mod_revision = revision;
}


/* NULL: no memory */

static ngx_etcd_key_t *
ngx_etcd_index_imported(ngx_etcd_index_t *index, ngx_str_t *name,
    ngx_uint_t gone, int64_t revision)
{
    ngx_uint_t       own;
    ngx_etcd_key_t  *key;

    own = (index->mirror == NULL);
    key = ngx_etcd_index_find(index, name);

    if (index->distrust) {
        revision = 0;
    }

    if (key == NULL) {
        own |= gone;

        key = own ? ngx_etcd_index_key(index, name)
                  : (ngx_etcd_key_t *) ngx_etcd_mirror_seed(index->mirror,
                                                            name, revision);
        if (key == NULL) {
            return NULL;
        }
    }

    /* a key of the mirror is present, even if one of its entries is gone */

    if (own && gone) {
        ngx_etcd_index_leave(index, key);
    }

    ngx_etcd_index_revise(index, key,
                          ngx_max(key->entry.mod_revision, revision));

    return key;
}


/*
 * A member that the operator's key drains tells of this key: a list that does
 * not have it removes it.  Sources with own keys register all members again
 * after a list.
 */

static ngx_int_t
ngx_etcd_index_drain(ngx_etcd_index_t *index, ngx_etcd_entry_t *entry)
{
    ngx_etcd_mirror_t       *mirror;
    ngx_etcd_member_pack_t   record;

    mirror = index->mirror;

    ngx_etcd_member_pack_read(&record, ngx_etcd_entry_payload(entry));

    if (!record.attr.ordered || mirror == NULL) {
        return NGX_OK;
    }

    index->drains = 1;

    return ngx_etcd_drain_find(mirror, &mirror->watch.range.prefix,
                               &record.name, 1)
           ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_etcd_index_import(ngx_etcd_index_t *index, ngx_etcd_zone_t *zone,
    uint32_t slot, ngx_etcd_entry_t *entry)
{
    ngx_str_t               name;
    ngx_etcd_key_t         *key;
    ngx_etcd_reg_t         *reg;
    ngx_etcd_slot_entry_t   known;

    ngx_etcd_slot_index_entry(&known, zone, entry);

    if (entry->key_len == 0) {
        return (ngx_etcd_index_add(index, NULL, &known, slot) != NULL)
               ? NGX_OK : NGX_ERROR;
    }

    name.data = ngx_etcd_entry_key(entry);
    name.len = entry->key_len;

    key = ngx_etcd_index_imported(index, &name, entry->gone,
                                  entry->mod_revision);
    if (key == NULL) {
        return NGX_ERROR;
    }

    /* the walk returns the entries of one slot in a row */

    if (key->regs != NULL && key->regs->slot == slot) {
        key->twice = 1;
    }

    if (key->twice) {
        ngx_etcd_index_revise(index, key, 0);
    }

    reg = ngx_etcd_index_add(index, key, &known, slot);

    if (reg == NULL || ngx_etcd_index_drain(index, entry) != NGX_OK) {
        return NGX_ERROR;
    }

    key->entry.create_revision = entry->create_revision;
    key->entry.lease = entry->lease;

    reg->gone = entry->gone;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_index_piece(ngx_etcd_index_t *index, ngx_etcd_zone_t *zone)
{
    ngx_uint_t              i;
    ngx_etcd_entry_t       *entry;
    ngx_etcd_entry_walk_t  *walk;

    walk = &index->walk;

    for (i = 0; i < NGX_ETCD_MEMBER_SET_PIECE; i++) {

        if (!ngx_etcd_entry_walk_next(zone, index->slots.set, walk)) {
            return NGX_OK;
        }

        entry = ngx_etcd_zone_at(zone, walk->entry);

        if (entry == NULL) {
            ngx_etcd_slot_index_free(&index->slots, walk->n);

        } else if (ngx_etcd_index_import(index, zone, walk->n, entry)
                   != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_AGAIN;
}


static ngx_int_t
ngx_etcd_index_invalid(ngx_etcd_index_t *index)
{
    ngx_str_t            name;
    ngx_etcd_key_t      *key;
    ngx_etcd_invalid_t  *invalid;

    for (invalid = index->slots.set->invalid;
         invalid != NULL;
         invalid = invalid->next)
    {
        name.data = invalid->bytes;
        name.len = invalid->key_len;

        /* a key that was cut is no key of etcd: it is reported again */

        if (name.len == NGX_ETCD_MEMBER_SET_MAX_KEY) {
            continue;
        }

        key = ngx_etcd_index_imported(index, &name, 0, invalid->mod_revision);
        if (key == NULL) {
            return NGX_ERROR;
        }

        key->invalid = 1;
        key->reason = ngx_crc32_long(invalid->bytes + invalid->key_len,
                                     invalid->len)
                      ^ (uint32_t) invalid->partly;
    }

    return NGX_OK;
}


/* Reads the set under the mutex, in pieces: checks the owner for each piece. */

ngx_int_t
ngx_etcd_index_read(ngx_etcd_index_t *index, ngx_etcd_zone_t *zone,
    ngx_uint_t force, uint64_t until)
{
    ngx_int_t               rc;
    ngx_etcd_hash_table_t  *keys;

    keys = (index->mirror != NULL) ? &index->mirror->entries.table
                                   : &index->keys;

    for ( ;; ) {
        if (ngx_etcd_hash_table_reserve(keys,
                                        NGX_ETCD_MEMBER_SET_PIECE) != NGX_OK
            || ngx_etcd_hash_table_reserve(&index->slots.addresses,
                                           NGX_ETCD_MEMBER_SET_PIECE)
               != NGX_OK)
        {
            return NGX_ERROR;
        }

        rc = ngx_etcd_zone_lock_owned(zone, force);
        if (rc != NGX_OK) {
            return rc;
        }

        rc = ngx_etcd_index_piece(index, zone);

        if (rc == NGX_OK) {
            rc = ngx_etcd_index_invalid(index);
            index->complete = (rc == NGX_OK);
        }

        ngx_etcd_zone_unlock(zone);

        if (rc != NGX_AGAIN
            || (until != 0 && ngx_etcd_time_budget_now() >= until))
        {
            return rc;
        }

        ngx_etcd_zone_pause();
    }
}


/* Frees the registrations of a key, with their slots, and its host names. */

static void
ngx_etcd_index_clear(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    while (key->regs != NULL) {
        ngx_etcd_index_remove(index, key, &key->regs);
    }

    ngx_etcd_member_host_mark(key->hosts);
    ngx_etcd_member_host_sweep(&key->hosts);

    key->invalid = 0;
    key->twice = 0;
}


void
ngx_etcd_index_destroy(ngx_etcd_index_t *index)
{
    ngx_queue_t     *q;
    ngx_etcd_key_t  *key;

    index->complete = 0;

    ngx_etcd_index_unkeep(index);

    while (!ngx_queue_empty(&index->held)) {
        q = ngx_queue_head(&index->held);
        ngx_etcd_index_forget(index, ngx_etcd_index_key_at(q));
    }

    while (!ngx_queue_empty(&index->gone)) {
        q = ngx_queue_head(&index->gone);
        ngx_etcd_index_forget(index, ngx_etcd_index_key_at(q));
    }

    while (!ngx_queue_empty(&index->present)) {
        q = ngx_queue_head(&index->present);
        ngx_etcd_index_forget(index, ngx_etcd_index_key_at(q));
    }

    for (key = ngx_etcd_index_first(index);
         key != NULL;
         key = ngx_etcd_index_next(index, key))
    {
        ngx_etcd_index_clear(index, key);
    }

    while (index->statics != NULL) {
        ngx_etcd_index_remove(index, NULL, &index->statics);
    }

    ngx_etcd_hash_table_done(&index->keys);
    ngx_etcd_hash_table_done(&index->slots.addresses);

    if (index->slots.next_free != NULL) {
        ngx_free(index->slots.next_free);
        index->slots.next_free = NULL;
    }
}


ngx_etcd_key_t *
ngx_etcd_index_find(ngx_etcd_index_t *index, ngx_str_t *key)
{
    ngx_etcd_mirror_entry_t  *entry;

    entry = (index->mirror != NULL) ? ngx_etcd_mirror_find(index->mirror, key)
                                    : NULL;

    return (entry != NULL) ? (ngx_etcd_key_t *) entry
                           : ngx_etcd_hash_table_find(&index->keys, key);
}


ngx_etcd_key_t *
ngx_etcd_index_key(ngx_etcd_index_t *index, ngx_str_t *name)
{
    ngx_etcd_key_t  *key;

    key = ngx_etcd_index_find(index, name);

    if (key != NULL) {
        return key;
    }

    key = ngx_etcd_hash_table_add(&index->keys, name, sizeof(ngx_etcd_key_t));
    if (key == NULL) {
        return NULL;
    }

    ngx_queue_insert_tail(&index->present, &key->entry.queue);

    return key;
}


static void
ngx_etcd_index_unhold(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    if (key->held) {
        key->held = 0;
        index->nheld--;
    }
}


void
ngx_etcd_index_forget(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    ngx_etcd_index_clear(index, key);
    ngx_etcd_index_unhold(index, key);

    ngx_queue_remove(&key->entry.queue);
    ngx_etcd_hash_table_remove(&index->keys, &key->entry.key);
    ngx_free(key);
}


ngx_etcd_key_t *
ngx_etcd_index_first(ngx_etcd_index_t *index)
{
    if (index->mirror != NULL) {
        return (ngx_etcd_key_t *) ngx_etcd_mirror_first(index->mirror);
    }

    return ngx_queue_empty(&index->present)
           ? NULL : ngx_etcd_index_key_at(ngx_queue_head(&index->present));
}


ngx_etcd_key_t *
ngx_etcd_index_next(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    ngx_queue_t  *q;

    if (index->mirror != NULL) {
        return (ngx_etcd_key_t *) ngx_etcd_mirror_next(index->mirror,
                                                       &key->entry);
    }

    q = ngx_queue_next(&key->entry.queue);

    return (q != ngx_queue_sentinel(&index->present)) ? ngx_etcd_index_key_at(q)
                                                      : NULL;
}


ngx_int_t
ngx_etcd_index_gone(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    if (index->mirror == NULL) {
        ngx_etcd_index_leave(index, key);
        return NGX_OK;
    }

    if (key->regs == NULL && key->hosts == NULL && !key->invalid) {
        return NGX_OK;
    }

    if (ngx_etcd_hash_table_reserve(&index->keys, 1) != NGX_OK) {
        ngx_etcd_index_clear(index, key);
        return NGX_ERROR;
    }

    ngx_etcd_mirror_hold(index->mirror, &key->entry);

    (void) ngx_etcd_hash_table_insert(&index->keys, &key->entry.key);
    ngx_queue_insert_tail(&index->present, &key->entry.queue);

    ngx_etcd_index_leave(index, key);

    return NGX_OK;
}


/* Keys with the mark are behind all others: they came to the end. */

ngx_int_t
ngx_etcd_index_sweep(ngx_etcd_index_t *index, ngx_uint_t mark, uint64_t until)
{
    ngx_etcd_key_t  *key;

    for ( ;; ) {
        key = ngx_etcd_index_first(index);

        if (key == NULL || key->mark == mark) {
            return NGX_OK;
        }

        if (until != 0 && ngx_etcd_time_budget_now() >= until) {
            return NGX_AGAIN;
        }

        (void) ngx_etcd_index_gone(index, key);
    }
}


void
ngx_etcd_index_unkeep(ngx_etcd_index_t *index)
{
    if (!ngx_queue_empty(&index->kept)) {
        ngx_queue_add(&index->gone, &index->kept);
        ngx_queue_init(&index->kept);
    }
}


void
ngx_etcd_index_release(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    ngx_etcd_index_unhold(index, key);

    key->freed = 1;

    ngx_queue_remove(&key->entry.queue);
    ngx_queue_insert_tail(&index->gone, &key->entry.queue);
}


/* A new entry of the mirror takes over what the key had before it was gone. */

static void
ngx_etcd_index_inherit(ngx_etcd_index_t *index, ngx_etcd_key_t *key,
    ngx_etcd_key_t *gone)
{
    ngx_etcd_reg_t          *reg;
    ngx_etcd_member_host_t  *host;

    ngx_etcd_slot_index_select(&index->slots, NULL);

    key->regs = gone->regs;
    gone->regs = NULL;

    key->hosts = gone->hosts;
    key->reason = gone->reason;
    key->invalid = gone->invalid;

    if (key->regs != NULL) {
        index->live++;
    }

    for (reg = key->regs; reg != NULL; reg = reg->next) {
        reg->key = key;
    }

    for (host = key->hosts; host != NULL; host = host->next) {
        host->owner = key;
    }

    gone->hosts = NULL;

    ngx_etcd_index_forget(index, gone);
}


void
ngx_etcd_index_present(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    ngx_etcd_key_t  *gone;

    if (index->mirror != NULL) {
        gone = ngx_etcd_hash_table_find(&index->keys, &key->entry.key);

        if (gone != NULL) {
            ngx_etcd_index_inherit(index, key, gone);
        }

        return;
    }

    if (key->gone) {
        ngx_etcd_index_unhold(index, key);

        key->gone = 0;
        key->freed = 0;

        if (key->regs != NULL) {
            index->live++;
        }
    }

    ngx_queue_remove(&key->entry.queue);
    ngx_queue_insert_tail(&index->present, &key->entry.queue);
}


/* The members of a kept or held key, as of a host name, may change. */

static void
ngx_etcd_index_touch(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    if (key->gone) {
        ngx_queue_remove(&key->entry.queue);
        ngx_queue_insert_head(&index->gone, &key->entry.queue);
    }
}


ngx_etcd_reg_t *
ngx_etcd_index_add(ngx_etcd_index_t *index, ngx_etcd_key_t *key,
    ngx_etcd_slot_entry_t *known, uint32_t slot)
{
    ngx_uint_t       first;
    ngx_etcd_reg_t  *reg;

    if (key == NULL) {
        return ngx_etcd_slot_index_add(&index->slots, NULL, &index->statics,
                                       known, slot);
    }

    first = (key->regs == NULL && !key->gone);

    reg = ngx_etcd_slot_index_add(&index->slots, key, &key->regs, known, slot);

    if (reg != NULL) {
        index->live += first;
        ngx_etcd_index_touch(index, key);
    }

    return reg;
}


ngx_etcd_reg_t *
ngx_etcd_index_reg(ngx_etcd_index_t *index, ngx_etcd_key_t *key,
    u_char *sockaddr, socklen_t socklen)
{
    return ngx_etcd_slot_index_find(&index->slots,
                                    key ? &key->regs : &index->statics,
                                    sockaddr, socklen);
}


void
ngx_etcd_index_renew(ngx_etcd_index_t *index, ngx_etcd_key_t *key,
    ngx_etcd_reg_t *reg, uint64_t revision)
{
    ngx_etcd_slot_index_renew(&index->slots, reg, revision);

    if (key != NULL) {
        ngx_etcd_index_touch(index, key);
    }
}


uint32_t
ngx_etcd_index_remove(ngx_etcd_index_t *index, ngx_etcd_key_t *key,
    ngx_etcd_reg_t **link)
{
    uint32_t  shown;

    shown = ngx_etcd_slot_index_remove(&index->slots, link);

    if (key == NULL) {
        return shown;
    }

    if (key->regs == NULL && !key->gone) {
        index->live--;
    }

    ngx_etcd_index_touch(index, key);

    return shown;
}
