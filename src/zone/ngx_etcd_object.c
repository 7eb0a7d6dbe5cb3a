
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_object.h>
#include <ngx_etcd_str.h>


static ngx_etcd_object_t *
ngx_etcd_object_search(ngx_etcd_zone_t *zone,
    const ngx_etcd_object_type_t *type, ngx_etcd_object_id_t *id)
{
    ngx_queue_t        *q, *list;
    ngx_etcd_object_t  *object;

    list = &zone->sh->objects[type->list];

    for (q = ngx_queue_head(list);
         q != ngx_queue_sentinel(list);
         q = ngx_queue_next(q))
    {
        object = ngx_queue_data(q, ngx_etcd_object_t, queue);

        /* an object that is being retired has no id */

        if (object->id != 0
            && object->variant == id->variant
            && ngx_etcd_str_equal(&object->name, &id->name)
            && ngx_etcd_str_equal(&object->prefix, &id->prefix))
        {
            return object;
        }
    }

    return NULL;
}


void *
ngx_etcd_object_prepare(ngx_etcd_zone_t *zone,
    const ngx_etcd_object_type_t *type, ngx_etcd_object_id_t *id,
    ngx_etcd_redo_t *redo)
{
    size_t                   len;
    u_char                  *data;
    ngx_queue_t             *unused;
    ngx_etcd_object_t       *object;
    ngx_etcd_zone_shared_t  *sh;

    sh = zone->sh;
    unused = &sh->unused[type->list];

    len = id->name.len + id->prefix.len;

    data = ngx_slab_alloc_locked(zone->shpool, ngx_max(len, 1));
    if (data == NULL) {
        return NULL;
    }

    if (!ngx_queue_empty(unused)) {
        object = ngx_queue_data(ngx_queue_head(unused), ngx_etcd_object_t,
                                queue);

        ngx_etcd_redo_remove(redo, &object->queue);
        type->clear(object);

    } else {
        object = ngx_slab_calloc_locked(zone->shpool, type->size);
        if (object == NULL) {
            ngx_slab_free_locked(zone->shpool, data);
            return NULL;
        }
    }

    object->name.data = data;
    object->name.len = id->name.len;
    object->prefix.data = ngx_cpymem(data, id->name.data, id->name.len);
    object->prefix.len = id->prefix.len;
    object->variant = id->variant;

    if (id->prefix.len != 0) {
        ngx_memcpy(object->prefix.data, id->prefix.data, id->prefix.len);
    }

    /* the id makes the cleared struct valid for readers */

    __atomic_store_n(&object->id, ++sh->next_id, __ATOMIC_RELEASE);

    object->epoch = zone->epoch;

    ngx_etcd_redo_insert_tail(redo, &sh->objects[type->list], &object->queue);

    return object;
}


void *
ngx_etcd_object_declare(ngx_etcd_zone_t *zone,
    const ngx_etcd_object_type_t *type, ngx_etcd_object_id_t *id)
{
    ngx_etcd_redo_t     redo;
    ngx_etcd_object_t  *object;

    if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return NULL;
    }

    object = ngx_etcd_object_search(zone, type, id);

    if (object == NULL) {
        redo.n = 0;

        object = ngx_etcd_object_prepare(zone, type, id, &redo);

        if (object != NULL) {
            ngx_etcd_redo_write(&zone->sh->batch.redo, &redo);
        }
    }

    if (object != NULL) {
        object->epoch = zone->epoch;
    }

    ngx_etcd_zone_unlock(zone);

    return object;
}


void *
ngx_etcd_object_find(ngx_etcd_zone_t *zone, const ngx_etcd_object_type_t *type,
    ngx_etcd_object_t *same)
{
    ngx_etcd_object_id_t  id;

    id.variant = same->variant;
    id.name = same->name;
    id.prefix = same->prefix;

    return ngx_etcd_object_search(zone, type, &id);
}


ngx_int_t
ngx_etcd_object_inherit(void *object, const ngx_etcd_object_type_t *type,
    ngx_etcd_zone_t *from, void (*handler)(void *object, void *old))
{
    void  *old;

    if (ngx_etcd_zone_lock_patient(from) != NGX_OK) {
        return NGX_AGAIN;
    }

    old = ngx_etcd_object_find(from, type, object);

    if (old != NULL) {
        handler(object, old);
    }

    ngx_etcd_zone_unlock(from);

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_object_any_old(ngx_etcd_zone_t *zone,
    const ngx_etcd_object_type_t *type)
{
    ngx_uint_t    old;
    ngx_queue_t  *q, *list;

    if (ngx_etcd_zone_lock(zone) != NGX_OK) {
        return 0;
    }

    old = 0;
    list = &zone->sh->objects[type->list];

    for (q = ngx_queue_head(list);
         q != ngx_queue_sentinel(list) && !old;
         q = ngx_queue_next(q))
    {
        old = ngx_etcd_object_old(zone, ngx_queue_data(q, ngx_etcd_object_t,
                                                       queue));
    }

    ngx_etcd_zone_unlock(zone);

    return old;
}


ngx_int_t
ngx_etcd_object_retire_old(ngx_etcd_zone_t *zone,
    const ngx_etcd_object_type_t *type,
    void (*handler)(void *data, void *object), void *data)
{
    ngx_queue_t        *q, *next, *list;
    ngx_etcd_object_t  *object;

    if (ngx_etcd_zone_lock_owned(zone, 0) != NGX_OK) {
        return NGX_AGAIN;
    }

    list = &zone->sh->objects[type->list];

    for (q = ngx_queue_head(list); q != ngx_queue_sentinel(list); q = next) {
        next = ngx_queue_next(q);
        object = ngx_queue_data(q, ngx_etcd_object_t, queue);

        if (!ngx_etcd_object_old(zone, object)) {
            continue;
        }

        if (handler != NULL) {
            handler(data, object);
        }

        ngx_etcd_object_retire(zone, type, object);
    }

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}


void
ngx_etcd_object_retire(ngx_etcd_zone_t *zone,
    const ngx_etcd_object_type_t *type, ngx_etcd_object_t *object)
{
    ngx_etcd_redo_t  redo;

    if (zone->retiring == ngx_etcd_zone_number(zone, &object->queue)) {
        zone->retiring = ngx_etcd_zone_number(zone,
                                              ngx_queue_next(&object->queue));
    }

    redo.n = 0;

    ngx_etcd_redo_set(&redo, &object->id, 0);
    ngx_etcd_redo_remove(&redo, &object->queue);
    ngx_etcd_redo_insert_tail(&redo, &zone->sh->unused[type->list],
                              &object->queue);

    ngx_etcd_redo_write(&zone->sh->batch.redo, &redo);

    ngx_slab_free_locked(zone->shpool, object->name.data);
}
