
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_seat.h>


/*
 * attempts to read: a write takes less than 1 us unless the writer is
 * preempted
 */

#define NGX_ETCD_SEAT_TRIES  256


static ngx_etcd_seat_t *ngx_etcd_seat_find(ngx_etcd_zone_t *zone,
    ngx_etcd_seat_kind_e kind, ngx_str_t *key);
static ngx_etcd_seat_t *ngx_etcd_seat_create(ngx_etcd_zone_t *zone,
    ngx_etcd_seat_kind_e kind, ngx_str_t *key);
static void ngx_etcd_seat_vacate(ngx_etcd_zone_t *zone,
    ngx_etcd_seat_t *seat);
static ngx_int_t ngx_etcd_seat_lock(ngx_etcd_zone_t *zone);
static void ngx_etcd_seat_copy_view(ngx_etcd_seat_view_t *dst,
    ngx_etcd_seat_view_t *src);
static void ngx_etcd_seat_write_view(ngx_etcd_seat_t *seat,
    ngx_etcd_seat_view_t *view);


ngx_etcd_seat_t *
ngx_etcd_seat_declare(ngx_etcd_zone_t *zone, ngx_etcd_seat_kind_e kind,
    ngx_str_t *key)
{
    ngx_etcd_seat_t  *seat;

    if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return NULL;
    }

    seat = ngx_etcd_seat_find(zone, kind, key);

    if (seat == NULL) {
        seat = ngx_etcd_seat_create(zone, kind, key);
    }

    if (seat != NULL) {
        seat->epoch = zone->epoch;
    }

    ngx_etcd_zone_unlock(zone);

    return seat;
}


static ngx_etcd_seat_t *
ngx_etcd_seat_find(ngx_etcd_zone_t *zone, ngx_etcd_seat_kind_e kind,
    ngx_str_t *key)
{
    ngx_queue_t      *q;
    ngx_etcd_seat_t  *seat;

    for (q = ngx_queue_head(&zone->sh->seats);
         q != ngx_queue_sentinel(&zone->sh->seats);
         q = ngx_queue_next(q))
    {
        seat = ngx_queue_data(q, ngx_etcd_seat_t, queue);

        if (seat->kind == kind
            && seat->key.len == key->len
            && ngx_memcmp(seat->key.data, key->data, key->len) == 0)
        {
            return seat;
        }
    }

    return NULL;
}


static ngx_etcd_seat_t *
ngx_etcd_seat_create(ngx_etcd_zone_t *zone, ngx_etcd_seat_kind_e kind,
    ngx_str_t *key)
{
    u_char           *data;
    ngx_queue_t      *q;
    ngx_etcd_redo_t   redo;
    ngx_etcd_seat_t  *seat;

    redo.n = 0;

    data = ngx_slab_alloc_locked(zone->shpool, ngx_max(key->len, 1));
    if (data == NULL) {
        return NULL;
    }

    if (!ngx_queue_empty(&zone->sh->vacated)) {
        q = ngx_queue_head(&zone->sh->vacated);
        ngx_etcd_redo_remove(&redo, q);
        seat = ngx_queue_data(q, ngx_etcd_seat_t, queue);

        /* keep the links */

        ngx_memzero((u_char *) seat + sizeof(ngx_queue_t),
                    sizeof(ngx_etcd_seat_t) - sizeof(ngx_queue_t));

    } else {
        seat = ngx_slab_calloc_locked(zone->shpool, sizeof(ngx_etcd_seat_t));
        if (seat == NULL) {
            ngx_slab_free_locked(zone->shpool, data);
            return NULL;
        }
    }

    ngx_memcpy(data, key->data, key->len);

    seat->key.data = data;
    seat->key.len = key->len;
    seat->kind = kind;
    seat->id = ++zone->sh->next_id;

    ngx_etcd_redo_insert_tail(&redo, &zone->sh->seats, &seat->queue);
    ngx_etcd_redo_write(&zone->sh->redo, &redo);

    return seat;
}


ngx_int_t
ngx_etcd_seat_inherit(ngx_etcd_zone_t *zone, ngx_etcd_seat_t *seat,
    ngx_etcd_zone_t *from)
{
    ngx_etcd_seat_t  *old;

    if (ngx_etcd_zone_lock_patient(from) != NGX_OK) {
        return NGX_AGAIN;
    }

    old = ngx_etcd_seat_find(from, seat->kind, &seat->key);

    if (old != NULL) {
        seat->hold = old->hold;
        seat->until = old->until;
        ngx_etcd_seat_write_view(seat, &old->view);
    }

    ngx_etcd_zone_unlock(from);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_seat_vacate_old(ngx_etcd_zone_t *zone,
    void (*handler)(void *data, ngx_etcd_seat_hold_t *hold), void *data)
{
    ngx_queue_t           *q, *next;
    ngx_etcd_seat_t       *seat;
    ngx_etcd_seat_hold_t   hold;

    if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return NGX_AGAIN;
    }

    for (q = ngx_queue_head(&zone->sh->seats);
         q != ngx_queue_sentinel(&zone->sh->seats);
         q = next)
    {
        next = ngx_queue_next(q);
        seat = ngx_queue_data(q, ngx_etcd_seat_t, queue);

        if (seat->epoch >= zone->epoch) {
            continue;
        }

        hold = seat->hold;
        ngx_etcd_seat_vacate(zone, seat);

        if (hold.lease != 0) {
            handler(data, &hold);
        }
    }

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_seat_old(ngx_etcd_zone_t *zone)
{
    ngx_uint_t        old;
    ngx_queue_t      *q;
    ngx_etcd_seat_t  *seat;

    if (ngx_etcd_zone_lock(zone) != NGX_OK) {
        return 0;
    }

    old = 0;

    for (q = ngx_queue_head(&zone->sh->seats);
         q != ngx_queue_sentinel(&zone->sh->seats);
         q = ngx_queue_next(q))
    {
        seat = ngx_queue_data(q, ngx_etcd_seat_t, queue);

        if (seat->epoch < zone->epoch) {
            old = 1;
        }
    }

    ngx_etcd_zone_unlock(zone);

    return old;
}


/*
 * Workers of older configurations may still read the seat: the struct is kept
 * for reuse.
 */

static void
ngx_etcd_seat_vacate(ngx_etcd_zone_t *zone, ngx_etcd_seat_t *seat)
{
    ngx_etcd_redo_t  redo;

    redo.n = 0;

    ngx_etcd_redo_set(&redo, &seat->id, 0);
    ngx_etcd_redo_set(&redo, &seat->until, 0);
    ngx_etcd_redo_remove(&redo, &seat->queue);
    ngx_etcd_redo_insert_tail(&redo, &zone->sh->vacated, &seat->queue);

    ngx_etcd_redo_write(&zone->sh->redo, &redo);

    ngx_slab_free_locked(zone->shpool, seat->key.data);
}


/*
 * Only the holder of the mutex can check its ownership: a process that was
 * stopped may have lost the zone to another one.
 */

static ngx_int_t
ngx_etcd_seat_lock(ngx_etcd_zone_t *zone)
{
    if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return NGX_AGAIN;
    }

    if (!ngx_etcd_zone_owned(zone)) {
        ngx_etcd_zone_unlock(zone);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_seat_load(ngx_etcd_zone_t *zone, ngx_etcd_seat_t *seat,
    ngx_etcd_seat_hold_t *hold)
{
    ngx_int_t  rc;

    rc = ngx_etcd_seat_lock(zone);

    if (rc == NGX_OK) {
        *hold = seat->hold;
        ngx_etcd_zone_unlock(zone);
    }

    return rc;
}


ngx_int_t
ngx_etcd_seat_store(ngx_etcd_zone_t *zone, ngx_etcd_seat_t *seat,
    ngx_etcd_seat_hold_t *hold)
{
    ngx_int_t        rc;
    ngx_etcd_redo_t  redo;

    rc = ngx_etcd_seat_lock(zone);

    if (rc == NGX_OK) {
        redo.n = 0;

        ngx_etcd_redo_set(&redo, &seat->hold.lease, hold->lease);
        ngx_etcd_redo_set(&redo, &seat->hold.ttl, hold->ttl);
        ngx_etcd_redo_set(&redo, &seat->hold.deadline, hold->deadline);
        ngx_etcd_redo_set(&redo, &seat->hold.created, hold->created);

        ngx_etcd_redo_write(&zone->sh->redo, &redo);
        ngx_etcd_zone_unlock(zone);
    }

    return rc;
}


ngx_int_t
ngx_etcd_seat_show(ngx_etcd_zone_t *zone, ngx_etcd_seat_t *seat,
    ngx_etcd_seat_view_t *view)
{
    ngx_int_t        rc;
    ngx_etcd_redo_t  redo;

    rc = ngx_etcd_seat_lock(zone);

    if (rc == NGX_OK) {

        if (view->created > seat->term) {
            redo.n = 0;

            ngx_etcd_redo_set(&redo, &seat->term, view->created);
            ngx_etcd_redo_set(&redo, &seat->leaders, seat->leaders + 1);

            ngx_etcd_redo_write(&zone->sh->redo, &redo);
        }

        ngx_etcd_seat_write_view(seat, view);
        ngx_etcd_zone_unlock(zone);
    }

    return rc;
}


/* A seqlock write.  The number may be odd already: a writer was killed. */

static void
ngx_etcd_seat_write_view(ngx_etcd_seat_t *seat, ngx_etcd_seat_view_t *view)
{
    uint64_t  sequence;

    sequence = seat->sequence | 1;

    __atomic_store_n(&seat->sequence, sequence, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);

    ngx_etcd_seat_copy_view(&seat->view, view);

    __atomic_store_n(&seat->sequence, sequence + 1, __ATOMIC_RELEASE);
}


/* A torn read may contain any length: clamp it before copying. */

static void
ngx_etcd_seat_copy_view(ngx_etcd_seat_view_t *dst, ngx_etcd_seat_view_t *src)
{
    ngx_memcpy(dst, src, offsetof(ngx_etcd_seat_view_t, key));

    dst->key_len = ngx_min(dst->key_len, NGX_ETCD_SEAT_MAX_KEY);
    dst->value_len = ngx_min(dst->value_len, NGX_ETCD_SEAT_MAX_VALUE);

    ngx_memcpy(dst->key, src->key, dst->key_len);
    ngx_memcpy(dst->value, src->value, dst->value_len);
}


ngx_int_t
ngx_etcd_seat_extend(ngx_etcd_seat_t *seat, uint64_t *known, uint64_t until)
{
    if (!__atomic_compare_exchange_n(&seat->until, known, until, 0,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    {
        return NGX_DECLINED;
    }

    *known = until;

    return NGX_OK;
}


uint64_t
ngx_etcd_seat_until(ngx_etcd_seat_t *seat, ngx_uint_t id)
{
    uint64_t  until;

    until = __atomic_load_n(&seat->until, __ATOMIC_ACQUIRE);

    return (__atomic_load_n(&seat->id, __ATOMIC_ACQUIRE) == id) ? until : 0;
}


int64_t
ngx_etcd_seat_term(ngx_etcd_seat_t *seat, ngx_uint_t id)
{
    int64_t     created, own;
    uint64_t    sequence;
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_SEAT_TRIES; i++) {

        sequence = __atomic_load_n(&seat->sequence, __ATOMIC_ACQUIRE);

        if (sequence & 1) {
            ngx_cpu_pause();
            continue;
        }

        created = __atomic_load_n(&seat->view.created, __ATOMIC_RELAXED);
        own = __atomic_load_n(&seat->hold.created, __ATOMIC_RELAXED);

        __atomic_thread_fence(__ATOMIC_SEQ_CST);

        if (__atomic_load_n(&seat->sequence, __ATOMIC_RELAXED) == sequence) {
            return (created == own
                    && __atomic_load_n(&seat->id, __ATOMIC_ACQUIRE) == id)
                   ? created : 0;
        }
    }

    return 0;
}


ngx_int_t
ngx_etcd_seat_view(ngx_etcd_seat_t *seat, ngx_uint_t id,
    ngx_etcd_seat_view_t *view)
{
    uint64_t    sequence;
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_SEAT_TRIES; i++) {

        sequence = __atomic_load_n(&seat->sequence, __ATOMIC_ACQUIRE);

        if (sequence & 1) {
            ngx_cpu_pause();
            continue;
        }

        ngx_etcd_seat_copy_view(view, &seat->view);

        __atomic_thread_fence(__ATOMIC_SEQ_CST);

        if (__atomic_load_n(&seat->sequence, __ATOMIC_RELAXED) == sequence) {
            return (__atomic_load_n(&seat->id, __ATOMIC_ACQUIRE) == id)
                   ? NGX_OK : NGX_DECLINED;
        }
    }

    return NGX_DECLINED;
}
