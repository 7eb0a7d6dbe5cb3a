
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cell.h>


static void ngx_etcd_cell_clear(void *data);
static void ngx_etcd_cell_take(void *data, void *old);
static ngx_etcd_cell_view_t *ngx_etcd_cell_view(ngx_etcd_cell_t *cell);
static void ngx_etcd_cell_copy(ngx_etcd_cell_view_t *dst,
    ngx_etcd_cell_view_t *src);
static void ngx_etcd_cell_event(ngx_etcd_zone_t *zone,
    ngx_etcd_cell_view_t *old, ngx_etcd_cell_view_t *view, ngx_str_t *name,
    ngx_str_t *key);


static const ngx_etcd_object_type_t  ngx_etcd_cell_type = {
    NGX_ETCD_ZONE_CELLS, sizeof(ngx_etcd_cell_t), ngx_etcd_cell_clear
};


ngx_etcd_cell_t *
ngx_etcd_cell_declare(ngx_etcd_zone_t *zone, ngx_str_t *key)
{
    ngx_etcd_object_id_t  id;

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));
    id.name = *key;

    return ngx_etcd_object_declare(zone, &ngx_etcd_cell_type, &id);
}


/* The version goes on, so that readers notice. */

static void
ngx_etcd_cell_clear(void *data)
{
    ngx_etcd_cell_t *cell = data;

    ngx_etcd_cell_view_t  none;

    ngx_memzero(&none, sizeof(ngx_etcd_cell_view_t));
    ngx_etcd_cell_fill(cell, &none);
}


ngx_int_t
ngx_etcd_cell_inherit(ngx_etcd_cell_t *cell, ngx_etcd_zone_t *from)
{
    return ngx_etcd_object_inherit(cell, &ngx_etcd_cell_type, from,
                                   ngx_etcd_cell_take);
}


static void
ngx_etcd_cell_take(void *data, void *old)
{
    ngx_etcd_cell_fill(data, ngx_etcd_cell_view(old));
}


ngx_int_t
ngx_etcd_cell_retire_old(ngx_etcd_zone_t *zone)
{
    return ngx_etcd_object_retire_old(zone, &ngx_etcd_cell_type, NULL, NULL);
}


ngx_int_t
ngx_etcd_cell_write(ngx_etcd_zone_t *zone, ngx_etcd_cell_t *cell,
    ngx_etcd_cell_view_t *view, ngx_str_t *name, ngx_str_t *key)
{
    if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return NGX_AGAIN;
    }

    if (!ngx_etcd_zone_owned(zone)) {
        ngx_etcd_zone_unlock(zone);
        return NGX_DECLINED;
    }

    ngx_etcd_cell_event(zone, ngx_etcd_cell_view(cell), view, name, key);
    ngx_etcd_cell_fill(cell, view);

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}


void
ngx_etcd_cell_fill(ngx_etcd_cell_t *cell, ngx_etcd_cell_view_t *view)
{
    ngx_etcd_cell_copy(&cell->views[ngx_etcd_seqlock_spare(&cell->lock)],
                       view);
    ngx_etcd_seqlock_written(&cell->lock);
}


static ngx_etcd_cell_view_t *
ngx_etcd_cell_view(ngx_etcd_cell_t *cell)
{
    return &cell->views[cell->lock % 2];
}


/* A torn read may contain any length: clamp it before copying. */

static void
ngx_etcd_cell_copy(ngx_etcd_cell_view_t *dst, ngx_etcd_cell_view_t *src)
{
    ngx_memcpy(dst, src, offsetof(ngx_etcd_cell_view_t, reason));

    dst->len = ngx_min(dst->len, NGX_ETCD_CELL_MAX_VALUE);
    dst->reason_len = ngx_min(dst->reason_len, NGX_ETCD_CELL_MAX_REASON);

    ngx_memcpy(dst->reason, src->reason, dst->reason_len);
    ngx_memcpy(dst->value, src->value, dst->len);
}


static void
ngx_etcd_cell_event(ngx_etcd_zone_t *zone, ngx_etcd_cell_view_t *old,
    ngx_etcd_cell_view_t *view, ngx_str_t *name, ngx_str_t *key)
{
    ngx_etcd_change_e  change;

    if (view->refused != 0 && view->refused != old->refused) {
        ngx_etcd_zone_event(zone, name, key, NGX_ETCD_CHANGE_INVALID,
                            view->refused);
    }

    if (view->modified == old->modified) {
        return;
    }

    if (old->modified == 0) {
        change = NGX_ETCD_CHANGE_ADD;

    } else if (view->modified == 0) {
        change = NGX_ETCD_CHANGE_REMOVE;

    } else {
        change = NGX_ETCD_CHANGE_UPDATE;
    }

    ngx_etcd_zone_event(zone, name, key, change,
                        view->modified ? view->modified : view->revision);
}


void
ngx_etcd_cell_read(ngx_etcd_cell_t *cell, ngx_uint_t id, uint64_t *version,
    ngx_etcd_cell_view_t *copy)
{
    ngx_etcd_cell_view_t       view;
    ngx_etcd_seqlock_reader_t  reader;

    ngx_etcd_seqlock_read_latch(&reader, &cell->lock);

    while (ngx_etcd_seqlock_try(&reader) && reader.seen != *version) {

        ngx_etcd_cell_copy(&view, &cell->views[reader.seen % 2]);

        if (!ngx_etcd_seqlock_valid(&reader)) {
            continue;
        }

        if (__atomic_load_n(&cell->object.id, __ATOMIC_ACQUIRE) == id) {
            ngx_etcd_cell_copy(copy, &view);
            *version = reader.seen;
        }

        return;
    }
}
