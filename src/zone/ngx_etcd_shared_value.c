
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_shared_value.h>


static void ngx_etcd_shared_value_clear(void *data);


static const ngx_etcd_object_type_t  ngx_etcd_shared_value_type = {
    NGX_ETCD_ZONE_SHARED_VALUES, sizeof(ngx_etcd_shared_value_t),
    ngx_etcd_shared_value_clear
};


ngx_etcd_shared_value_t *
ngx_etcd_shared_value_declare(ngx_etcd_zone_t *zone, ngx_str_t *key)
{
    ngx_etcd_object_id_t  id;

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));
    id.name = *key;

    return ngx_etcd_object_declare(zone, &ngx_etcd_shared_value_type, &id);
}


/* The version goes on, so that readers notice. */

static void
ngx_etcd_shared_value_clear(void *data)
{
    ngx_etcd_shared_value_t *value = data;

    ngx_etcd_shared_value_view_t  none;

    ngx_memzero(&none, sizeof(ngx_etcd_shared_value_view_t));
    ngx_etcd_shared_value_fill(value, &none);
}


static ngx_etcd_shared_value_view_t *
ngx_etcd_shared_value_view(ngx_etcd_shared_value_t *value)
{
    return &value->views[value->lock % 2];
}


static void
ngx_etcd_shared_value_take(void *data, void *old)
{
    ngx_etcd_shared_value_fill(data, ngx_etcd_shared_value_view(old));
}


ngx_int_t
ngx_etcd_shared_value_inherit(ngx_etcd_shared_value_t *value,
    ngx_etcd_zone_t *from)
{
    return ngx_etcd_object_inherit(value, &ngx_etcd_shared_value_type, from,
                                   ngx_etcd_shared_value_take);
}


ngx_int_t
ngx_etcd_shared_value_retire_old(ngx_etcd_zone_t *zone)
{
    return ngx_etcd_object_retire_old(zone, &ngx_etcd_shared_value_type, NULL,
                                      NULL);
}


static void
ngx_etcd_shared_value_event(ngx_etcd_zone_t *zone,
    ngx_etcd_shared_value_view_t *old, ngx_etcd_shared_value_view_t *view,
    ngx_str_t *name, ngx_str_t *key)
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


ngx_int_t
ngx_etcd_shared_value_write(ngx_etcd_zone_t *zone,
    ngx_etcd_shared_value_t *value, ngx_etcd_shared_value_view_t *view,
    ngx_str_t *name, ngx_str_t *key)
{
    ngx_int_t  rc;

    rc = ngx_etcd_zone_lock_owned(zone, 0);
    if (rc != NGX_OK) {
        return rc;
    }

    ngx_etcd_shared_value_event(zone, ngx_etcd_shared_value_view(value), view,
                                name, key);
    ngx_etcd_shared_value_fill(value, view);

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}


/* A torn read may contain any length: clamp it before copying. */

static void
ngx_etcd_shared_value_copy(ngx_etcd_shared_value_view_t *dst,
    ngx_etcd_shared_value_view_t *src)
{
    ngx_memcpy(dst, src, offsetof(ngx_etcd_shared_value_view_t, reason));

    dst->len = ngx_min(dst->len, NGX_ETCD_SHARED_VALUE_MAX_VALUE);
    dst->reason_len = ngx_min(dst->reason_len,
                              NGX_ETCD_SHARED_VALUE_MAX_REASON);

    ngx_memcpy(dst->reason, src->reason, dst->reason_len);
    ngx_memcpy(dst->value, src->value, dst->len);
}


void
ngx_etcd_shared_value_fill(ngx_etcd_shared_value_t *value,
    ngx_etcd_shared_value_view_t *view)
{
    ngx_uint_t  spare;

    spare = ngx_etcd_seqlock_spare(&value->lock);

    ngx_etcd_shared_value_copy(&value->views[spare], view);
    ngx_etcd_seqlock_written(&value->lock);
}


void
ngx_etcd_shared_value_read(ngx_etcd_shared_value_t *value, ngx_uint_t id,
    uint64_t *version, ngx_etcd_shared_value_view_t *copy)
{
    ngx_etcd_seqlock_reader_t     reader;
    ngx_etcd_shared_value_view_t  view;

    ngx_etcd_seqlock_read_latch(&reader, &value->lock);

    while (ngx_etcd_seqlock_try(&reader) && reader.seen != *version) {

        ngx_etcd_shared_value_copy(&view, &value->views[reader.seen % 2]);

        if (!ngx_etcd_seqlock_valid(&reader)) {
            continue;
        }

        if (__atomic_load_n(&value->object.id, __ATOMIC_ACQUIRE) == id) {
            ngx_etcd_shared_value_copy(copy, &view);
            *version = reader.seen;
        }

        return;
    }
}
