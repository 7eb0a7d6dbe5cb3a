
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_tally.h>


static ngx_etcd_tally_t *ngx_etcd_tally_find(ngx_etcd_zone_t *zone,
    ngx_str_t *name);
static ngx_etcd_tally_t *ngx_etcd_tally_create(ngx_etcd_zone_t *zone,
    ngx_str_t *name);


ngx_etcd_tally_t *
ngx_etcd_tally_declare(ngx_etcd_zone_t *zone, ngx_str_t *name)
{
    ngx_etcd_tally_t  *tally;

    if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return NULL;
    }

    tally = ngx_etcd_tally_find(zone, name);

    if (tally == NULL) {
        tally = ngx_etcd_tally_create(zone, name);
    }

    if (tally != NULL) {
        tally->epoch = zone->epoch;
    }

    ngx_etcd_zone_unlock(zone);

    return tally;
}


static ngx_etcd_tally_t *
ngx_etcd_tally_find(ngx_etcd_zone_t *zone, ngx_str_t *name)
{
    ngx_queue_t       *q;
    ngx_etcd_tally_t  *tally;

    for (q = ngx_queue_head(&zone->sh->tallies);
         q != ngx_queue_sentinel(&zone->sh->tallies);
         q = ngx_queue_next(q))
    {
        tally = ngx_queue_data(q, ngx_etcd_tally_t, queue);

        if (tally->name.len == name->len
            && ngx_memcmp(tally->name.data, name->data, name->len) == 0)
        {
            return tally;
        }
    }

    return NULL;
}


static ngx_etcd_tally_t *
ngx_etcd_tally_create(ngx_etcd_zone_t *zone, ngx_str_t *name)
{
    u_char            *p;
    ngx_etcd_redo_t    redo;
    ngx_etcd_tally_t  *tally;

    p = ngx_slab_alloc_locked(zone->shpool, name->len);
    if (p == NULL) {
        return NULL;
    }

    tally = ngx_slab_calloc_locked(zone->shpool, sizeof(ngx_etcd_tally_t));
    if (tally == NULL) {
        ngx_slab_free_locked(zone->shpool, p);
        return NULL;
    }

    ngx_memcpy(p, name->data, name->len);

    tally->name.data = p;
    tally->name.len = name->len;

    redo.n = 0;

    ngx_etcd_redo_insert_tail(&redo, &zone->sh->tallies, &tally->queue);
    ngx_etcd_redo_write(&zone->sh->redo, &redo);

    return tally;
}
