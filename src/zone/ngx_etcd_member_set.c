
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_member_set.h>


/*
 * Keeps the gauge and the queue: like slots, they are never freed, because a
 * process may still count in them.
 */

static void
ngx_etcd_member_set_clear(void *data)
{
    ngx_etcd_member_set_t *set = data;

    ngx_memzero((u_char *) data + offsetof(ngx_etcd_member_set_t, generation),
                sizeof(ngx_etcd_member_set_t)
                - offsetof(ngx_etcd_member_set_t, generation));

    if (set->waiting != NULL) {
        ngx_memzero(set->waiting, sizeof(ngx_etcd_gauge_t));
    }

    if (set->queue != NULL) {
        ngx_memzero(set->queue, sizeof(ngx_etcd_member_set_queue_t));
    }
}


const ngx_etcd_object_type_t  ngx_etcd_member_set_type = {
    NGX_ETCD_ZONE_SETS, sizeof(ngx_etcd_member_set_t), ngx_etcd_member_set_clear
};


ngx_int_t
ngx_etcd_member_set_alloc(ngx_etcd_zone_t *zone, ngx_uint_t force, void *p,
    size_t size)
{
    void **link = p;

    ngx_uint_t  made;

    if (*link != NULL) {
        return NGX_OK;
    }

    if (ngx_etcd_zone_lock_owned(zone, force) != NGX_OK) {
        return NGX_ERROR;
    }

    if (*link == NULL) {
        *link = ngx_slab_calloc_locked(zone->shpool, size);
    }

    made = (*link != NULL);

    ngx_etcd_zone_unlock(zone);

    return made ? NGX_OK : NGX_ERROR;
}


ngx_int_t
ngx_etcd_member_set_count_waiting(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_uint_t force)
{
    return ngx_etcd_member_set_alloc(zone, force, &set->waiting,
                                     sizeof(ngx_etcd_gauge_t));
}


ngx_int_t
ngx_etcd_member_set_add_queue(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_uint_t force)
{
    return ngx_etcd_member_set_alloc(zone, force, &set->queue,
                                     sizeof(ngx_etcd_member_set_queue_t));
}


void
ngx_etcd_member_set_queued(ngx_etcd_member_set_t *set, ngx_uint_t row,
    ngx_uint_t n, ngx_msec_t since)
{
    uint64_t                      bit, value;
    ngx_etcd_member_set_queue_t  *queue;

    queue = set->queue;

    bit = (uint64_t) 1 << row;
    value = n ? (uint64_t) (uint32_t) since << 32 | (uint32_t) n : 0;

    __atomic_store_n(&queue->rows[row], value, __ATOMIC_RELEASE);

    if (n != 0 && !(queue->waits & bit)) {
        (void) __atomic_fetch_or(&queue->waits, bit, __ATOMIC_SEQ_CST);

    } else if (n == 0 && (queue->waits & bit)) {
        (void) __atomic_fetch_and(&queue->waits, ~bit, __ATOMIC_SEQ_CST);
    }
}


ngx_uint_t
ngx_etcd_member_set_queue_sum(ngx_etcd_member_set_t *set)
{
    ngx_uint_t  i, sum;

    sum = 0;

    if (set->queue == NULL) {
        return 0;
    }

    for (i = 0; i < NGX_ETCD_ZONE_ROWS; i++) {
        sum += (uint32_t) set->queue->rows[i];
    }

    return sum;
}


int64_t
ngx_etcd_member_set_staleness(ngx_etcd_member_set_t *set)
{
    return (set->state == NGX_ETCD_MEMBER_SET_SYNCED)
           ? ngx_etcd_zone_since(set->proof ? set->proof : &set->verified)
           : -1;
}


void
ngx_etcd_member_set_confirm(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    uint64_t time)
{
    if (time == 0) {
        if (ngx_etcd_zone_owned(zone)) {
            __atomic_store_n(&set->confirmed, 0, __ATOMIC_RELEASE);
        }

        return;
    }

    if (ngx_etcd_zone_lock_owned(zone, 0) == NGX_OK) {
        __atomic_store_n(&set->confirmed, time, __ATOMIC_RELEASE);
        ngx_etcd_zone_unlock(zone);
    }
}


ngx_uint_t
ngx_etcd_member_set_confirmed(ngx_etcd_member_set_t *set)
{
    uint64_t  confirmed;

    confirmed = __atomic_load_n(&set->confirmed, __ATOMIC_ACQUIRE);

    return confirmed != 0
           && ngx_etcd_clock() - confirmed <= NGX_ETCD_MEMBER_SET_FAILSAFE;
}


ngx_etcd_slot_t *
ngx_etcd_member_set_slot(ngx_etcd_member_set_t *set, ngx_uint_t n)
{
    ngx_etcd_chunk_t  *chunk;

    if (n >= set->nslots) {
        return NULL;
    }

    chunk = set->chunks ? set->chunks[n / NGX_ETCD_MEMBER_SET_SLOTS]
                        : set->first;

    return &chunk->slots[n % NGX_ETCD_MEMBER_SET_SLOTS];
}


/* The first chunk needs no directory, and the few changed slots no ring. */

static ngx_int_t
ngx_etcd_member_set_remember(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set)
{
    uint32_t         *ring;
    ngx_etcd_redo_t   redo;

    if (set->nslots == 0 || set->ring.slots != NULL) {
        return NGX_OK;
    }

    ring = ngx_slab_alloc_locked(zone->shpool, NGX_ETCD_MEMBER_SET_RING
                                               * sizeof(uint32_t));
    if (ring == NULL) {
        return NGX_ERROR;
    }

    redo.n = 0;

    ngx_etcd_redo_set(&redo, &set->ring.base, set->generation);
    ngx_etcd_redo_set(&redo, &set->ring.slots, ring);

    ngx_etcd_redo_write(&zone->sh->batch.redo, &redo);

    return NGX_OK;
}


/*
 * Makes room for chunk n; a full directory is replaced by one of twice its
 * size.  A process that is killed between two stores leaves some bytes that are
 * not used any more.
 */

static ngx_int_t
ngx_etcd_member_set_directory(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t n)
{
    ngx_uint_t          room;
    ngx_etcd_chunk_t  **old, **new;

    old = set->chunks;
    room = NGX_ETCD_MEMBER_SET_CHUNKS;

    if (old != NULL) {
        if (n < room || (n & (n - 1)) != 0) {
            return NGX_OK;
        }

        room = 2 * n;

    } else if (n == 0) {
        return NGX_OK;
    }

    new = ngx_slab_alloc_locked(zone->shpool,
                                room * sizeof(ngx_etcd_chunk_t *));
    if (new == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(new, old ? old : &set->first, n * sizeof(ngx_etcd_chunk_t *));

    __atomic_store_n(&set->chunks, new, __ATOMIC_RELEASE);

    if (old != NULL) {
        ngx_slab_free_locked(zone->shpool, old);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_member_set_add(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set)
{
    ngx_uint_t         i, n;
    ngx_etcd_redo_t    redo;
    ngx_etcd_chunk_t  *chunk, **place;

    n = set->nslots / NGX_ETCD_MEMBER_SET_SLOTS;

    if (set->nslots >= NGX_ETCD_MEMBER_SET_MAX_SLOTS
        || ngx_etcd_member_set_remember(zone, set) != NGX_OK
        || ngx_etcd_member_set_directory(zone, set, n) != NGX_OK)
    {
        return NGX_ERROR;
    }

    redo.n = 0;
    place = set->chunks ? &set->chunks[n] : &set->first;
    chunk = zone->sh->chunks;

    if (chunk != NULL) {

        /* requests of the set that had the chunk before */

        for (i = 0; i < NGX_ETCD_MEMBER_SET_SLOTS; i++) {
            chunk->slots[i].requests = 0;
        }

        ngx_etcd_redo_set(&redo, &zone->sh->chunks,
                          (void *) chunk->slots[0].entry);
        ngx_etcd_redo_set(&redo, &chunk->slots[0].entry, NULL);

    } else {
        chunk = ngx_slab_calloc_locked(zone->shpool, sizeof(ngx_etcd_chunk_t));
        if (chunk == NULL) {
            return NGX_ERROR;
        }
    }

    ngx_etcd_redo_set(&redo, place, chunk);
    ngx_etcd_redo_set(&redo, &set->nslots,
                      set->nslots + NGX_ETCD_MEMBER_SET_SLOTS);

    ngx_etcd_redo_write(&zone->sh->batch.redo, &redo);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_member_set_grow(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t force)
{
    ngx_uint_t  n;

    if (ngx_etcd_zone_lock_owned(zone, force) != NGX_OK) {
        return NGX_AGAIN;
    }

    n = set->nslots;

    while (ngx_etcd_member_set_add(zone, set) == NGX_OK
           && n != 0
           && set->nslots % NGX_ETCD_MEMBER_SET_PIECE != 0)
    {
        /* void */
    }

    n = set->nslots - n;

    ngx_etcd_zone_unlock(zone);

    return n ? NGX_OK : NGX_ERROR;
}


ngx_etcd_note_t *
ngx_etcd_member_set_note(ngx_etcd_slot_t *slot, ngx_uint_t n)
{
    ngx_etcd_note_t   *notes;
    ngx_etcd_chunk_t  *chunk;

    n %= NGX_ETCD_MEMBER_SET_SLOTS;

    chunk = (ngx_etcd_chunk_t *) (slot - n);
    notes = __atomic_load_n(&chunk->notes, __ATOMIC_ACQUIRE);

    return notes ? &notes[n] : NULL;
}


ngx_etcd_chunk_t *
ngx_etcd_member_set_chunk(ngx_etcd_member_set_t *set, ngx_uint_t n)
{
    return (ngx_etcd_chunk_t *)
               ngx_etcd_member_set_slot(set,
                                        n - n % NGX_ETCD_MEMBER_SET_SLOTS);
}


ngx_etcd_note_t *
ngx_etcd_member_set_own_note(ngx_etcd_member_set_t *set, ngx_uint_t n)
{
    ngx_etcd_note_t  *note;
    ngx_etcd_slot_t  *slot;

    slot = ngx_etcd_member_set_slot(set, n);
    note = slot ? ngx_etcd_member_set_note(slot, n) : NULL;

    if (note == NULL || slot->entry == NULL) {
        return NULL;
    }

    if (note->uid != slot->uid) {
        ngx_memzero(note, sizeof(ngx_etcd_note_t));

        note->answers = (uint64_t) slot->uid << 32;
        note->errors = (uint64_t) slot->uid << 32;
        note->uid = slot->uid;
    }

    return note;
}


void
ngx_etcd_member_set_suspect(ngx_etcd_member_set_t *set, ngx_etcd_slot_t *slot,
    ngx_uint_t n, uint32_t uid)
{
    uint64_t          bit;
    ngx_etcd_note_t  *note;

    note = ngx_etcd_member_set_note(slot, n);

    if (note == NULL || note->uid != uid) {
        return;
    }

    note->suspect = 1;

    bit = (uint64_t) 1 << n / NGX_ETCD_MEMBER_SET_PIECE % 64;

    (void) __atomic_fetch_or(&set->checks.suspects, bit, __ATOMIC_RELEASE);
}


uint64_t
ngx_etcd_member_set_suspects(ngx_etcd_member_set_t *set)
{
    if (__atomic_load_n(&set->checks.suspects, __ATOMIC_RELAXED) == 0) {
        return 0;
    }

    return __atomic_exchange_n(&set->checks.suspects, 0, __ATOMIC_ACQUIRE);
}


ngx_uint_t
ngx_etcd_member_set_suspected(ngx_etcd_member_set_t *set, ngx_uint_t n)
{
    ngx_etcd_note_t  *note;

    note = ngx_etcd_member_set_own_note(set, n);

    if (note == NULL || !note->suspect) {
        return 0;
    }

    note->suspect = 0;

    return 1;
}


/*
 * Makes the notes of a chunk.  A process that is killed between the two stores
 * leaves a page that is not used any more.
 */

static ngx_int_t
ngx_etcd_member_set_notes(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t n)
{
    ngx_int_t          rc;
    ngx_etcd_note_t   *notes;
    ngx_etcd_chunk_t  *chunk;

    rc = ngx_etcd_zone_lock_owned(zone, 0);
    if (rc != NGX_OK) {
        return rc;
    }

    chunk = ngx_etcd_member_set_chunk(set, n);

    if (chunk->notes == NULL) {
        notes = ngx_slab_calloc_locked(zone->shpool, NGX_ETCD_MEMBER_SET_SLOTS
                                                     * sizeof(ngx_etcd_note_t));
        if (notes != NULL) {
            __atomic_store_n(&chunk->notes, notes, __ATOMIC_RELEASE);

        } else {
            rc = NGX_ERROR;
        }
    }

    ngx_etcd_zone_unlock(zone);

    return rc;
}


ngx_int_t
ngx_etcd_member_set_annotate(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set)
{
    ngx_int_t   rc;
    ngx_uint_t  n;

    rc = NGX_OK;

    for (n = 0;
         n < set->nslots && rc == NGX_OK;
         n += NGX_ETCD_MEMBER_SET_SLOTS)
    {
        rc = ngx_etcd_member_set_notes(zone, set, n);
    }

    return rc;
}


uint32_t *
ngx_etcd_member_set_ring(ngx_etcd_member_set_t *set, uint32_t *room)
{
    if (set->ring.slots == NULL) {
        *room = NGX_ETCD_MEMBER_SET_FEW;
        return set->ring.few;
    }

    *room = NGX_ETCD_MEMBER_SET_RING;
    return set->ring.slots;
}


uint32_t
ngx_etcd_member_set_changed(ngx_etcd_member_set_t *set,
    ngx_atomic_uint_t generation)
{
    uint32_t  *ring, room;

    ring = ngx_etcd_member_set_ring(set, &room);

    return ring[generation % room];
}


ngx_uint_t
ngx_etcd_member_set_remembers(ngx_etcd_member_set_t *set,
    ngx_atomic_uint_t generation)
{
    uint32_t  room;

    (void) ngx_etcd_member_set_ring(set, &room);

    return generation >= set->ring.base && set->generation - generation <= room;
}


static ngx_int_t
ngx_etcd_member_set_lock(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    uint32_t id, ngx_etcd_member_set_reader_t *reader)
{
    ngx_int_t  rc;

    rc = reader->any ? ngx_etcd_zone_lock_patient(zone)
                     : ngx_etcd_zone_lock(zone);

    reader->held = (rc != NGX_OK);

    if (rc != NGX_OK) {
        return NGX_BUSY;
    }

    if (set->object.id != id) {
        ngx_etcd_zone_unlock(zone);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/*
 * Reads all slots; the mutex is released after each chunk.  Changes in
 * between are in the ring.  On return the mutex is held unless NGX_BUSY,
 * NGX_AGAIN or NGX_DECLINED is returned.
 */

static ngx_int_t
ngx_etcd_member_set_read_all(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    uint32_t id, ngx_etcd_member_set_reader_t *reader, uint64_t until)
{
    ngx_int_t  rc;

    if (!reader->all) {
        reader->all = 1;
        reader->next = 0;
        reader->from = set->generation;
    }

    while (reader->next < set->nslots) {

        if (reader->handler(reader->data, reader->next,
                            ngx_etcd_member_set_slot(set, reader->next))
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (++reader->next % NGX_ETCD_MEMBER_SET_PIECE != 0) {
            continue;
        }

        ngx_etcd_zone_unlock(zone);

        if (until != 0 && ngx_etcd_time_budget_now() >= until) {
            return NGX_AGAIN;
        }

        rc = ngx_etcd_member_set_lock(zone, set, id, reader);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    reader->all = 0;

    return NGX_OK;
}


/*
 * Records how long each commit that is being read took to reach this reader.
 */

static void
ngx_etcd_member_set_visible(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_etcd_member_set_reader_t *reader, ngx_atomic_uint_t to)
{
    uint64_t             now;
    ngx_uint_t           i;
    ngx_etcd_arrival_t  *arrival;

    if (reader->generation == to) {
        return;
    }

    now = ngx_etcd_time_budget_now();

    for (i = 0; i < NGX_ETCD_MEMBER_SET_ARRIVALS; i++) {
        arrival = &set->counts.arrivals[i];

        if (arrival->generation > reader->generation
            && arrival->generation <= to
            && arrival->time != 0 && arrival->time >= reader->since)
        {
            ngx_etcd_histogram_add(&zone->sh->visible,
                                   now - ngx_min(now, arrival->time));
        }
    }
}


ngx_int_t
ngx_etcd_member_set_read(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    uint32_t id, ngx_etcd_member_set_reader_t *reader, uint64_t until)
{
    uint32_t           n;
    ngx_int_t          rc;
    ngx_atomic_uint_t  from;

    rc = ngx_etcd_member_set_lock(zone, set, id, reader);
    if (rc != NGX_OK) {
        return rc;
    }

    from = reader->generation;

    while (rc == NGX_OK && (reader->all || from != set->generation)) {

        if (reader->all || !ngx_etcd_member_set_remembers(set, from)) {
            rc = ngx_etcd_member_set_read_all(zone, set, id, reader, until);

            if (rc != NGX_OK && rc != NGX_ERROR) {
                return rc;
            }

            from = reader->from;
            continue;
        }

        n = ngx_etcd_member_set_changed(set, ++from);

        /* read a slot that changed several times in a row once */

        if (from != set->generation
            && n == ngx_etcd_member_set_changed(set, from + 1))
        {
            continue;
        }

        rc = reader->handler(reader->data, n,
                             ngx_etcd_member_set_slot(set, n));
    }

    if (rc == NGX_OK) {
        ngx_etcd_member_set_visible(zone, set, reader, from);

        reader->generation = from;
        reader->revision = set->revision;
    }

    ngx_etcd_zone_unlock(zone);

    return rc;
}


ngx_int_t
ngx_etcd_member_set_invalid(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_str_t *key, ngx_str_t *reason, uint64_t revision, ngx_uint_t partly)
{
    size_t               len, key_len;
    ngx_int_t            rc;
    ngx_uint_t           known;
    ngx_etcd_redo_t      redo;
    ngx_etcd_invalid_t  *invalid, **p;

    if (reason == NULL && set->invalid == NULL) {
        return NGX_OK;
    }

    key_len = ngx_min(key->len, NGX_ETCD_MEMBER_SET_MAX_KEY);

    if (ngx_etcd_zone_lock_owned(zone, 0) != NGX_OK) {
        return NGX_AGAIN;
    }

    known = 0;

    for (p = &set->invalid; *p != NULL; p = &(*p)->next) {
        invalid = *p;

        if (invalid->key_len == key_len
            && ngx_memcmp(invalid->bytes, key->data, key_len) == 0)
        {
            known = 1;
            redo.n = 0;

            ngx_etcd_redo_set(&redo, p, invalid->next);
            ngx_etcd_redo_set(&redo, &set->ninvalid, set->ninvalid - 1);

            ngx_etcd_redo_write(&zone->sh->batch.redo, &redo);

            ngx_slab_free_locked(zone->shpool, invalid);
            break;
        }
    }

    rc = NGX_OK;

    if (reason != NULL && set->ninvalid < NGX_ETCD_MEMBER_SET_MAX_INVALID) {
        len = offsetof(ngx_etcd_invalid_t, bytes) + key_len + reason->len;
        invalid = ngx_slab_alloc_locked(zone->shpool, len);

        if (invalid != NULL) {
            invalid->mod_revision = revision;
            invalid->key_len = key_len;
            invalid->len = reason->len;
            invalid->partly = partly;

            ngx_memcpy(ngx_cpymem(invalid->bytes, key->data, key_len),
                       reason->data, reason->len);

            invalid->next = set->invalid;

            redo.n = 0;

            ngx_etcd_redo_set(&redo, &set->invalid, invalid);
            ngx_etcd_redo_set(&redo, &set->ninvalid, set->ninvalid + 1);

            ngx_etcd_redo_write(&zone->sh->batch.redo, &redo);

            if (!known) {
                ngx_etcd_zone_event(zone, &set->object.name, key,
                                    NGX_ETCD_CHANGE_INVALID, revision);
            }

        } else {
            rc = NGX_ERROR;
        }
    }

    ngx_etcd_zone_unlock(zone);

    return rc;
}
