
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Objects of a zone that a configuration declares by name: sets of members,
 * election slots, maps and lock statistics.  A reload finds them again by their
 * names; an object that the newest configuration has not declared is retired.
 *
 * The struct of an object begins with an ngx_etcd_object_t.  It is never
 * freed but used again, since workers of older configurations may still read
 * it: they recognize by the id that it is no longer theirs.
 */


#ifndef _NGX_ETCD_OBJECT_H_INCLUDED_
#define _NGX_ETCD_OBJECT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_zone.h>


/* the identity of an object among those of its type */

typedef struct {
    uint32_t                         variant;
    ngx_str_t                        name;
    ngx_str_t                        prefix;
} ngx_etcd_object_id_t;


typedef struct {
    ngx_queue_t                      queue;
    ngx_atomic_t                     id;           /* 0: retired */
    uint32_t                         epoch;        /* of the last configuration
                                                      that declared it */
    uint32_t                         variant;
    ngx_str_t                        name;
    ngx_str_t                        prefix;       /* in the memory of name */
} ngx_etcd_object_t;


typedef struct {
    ngx_etcd_zone_list_e             list;
    size_t                           size;

    /*
     * Clears a struct that is used again, all but its ngx_etcd_object_t.
     * NULL: objects of this type are never retired.
     */
    void                           (*clear)(void *object);
} ngx_etcd_object_type_t;


/*
 * Called by the master: finds or creates the object; the rest of a new struct
 * is zeroed or cleared.  NULL: the zone is too small, or its mutex is held.
 */
void *ngx_etcd_object_declare(ngx_etcd_zone_t *zone,
    const ngx_etcd_object_type_t *type, ngx_etcd_object_id_t *id);

/*
 * For a set of objects that its user finds by itself: creates an object without
 * a search; the caller holds the mutex.  The stores that make it known are
 * added to the redo log, which the caller writes, together with its own.
 * NULL: the zone is full.
 */
void *ngx_etcd_object_prepare(ngx_etcd_zone_t *zone,
    const ngx_etcd_object_type_t *type, ngx_etcd_object_id_t *id,
    ngx_etcd_redo_t *redo);

/*
 * Returns the object with the identity of another one, which may be in another
 * zone; NULL: there is none.  The caller holds the mutex.
 */
void *ngx_etcd_object_find(ngx_etcd_zone_t *zone,
    const ngx_etcd_object_type_t *type, ngx_etcd_object_t *same);

/*
 * Called by the master: calls the handler, under the mutex, with the object
 * and the one of the same identity in the zone of the previous configuration,
 * which had another size.  NGX_OK, also if there is none, or NGX_AGAIN.
 */
ngx_int_t ngx_etcd_object_inherit(void *object,
    const ngx_etcd_object_type_t *type, ngx_etcd_zone_t *from,
    void (*handler)(void *object, void *old));

/* Returns 1 if the configuration of this process has not declared it. */
#define ngx_etcd_object_old(zone, object)                                     \
    ((object)->epoch < (zone)->epoch)

/* Returns 1 if there are such objects; 0: none, or the mutex was held. */
ngx_uint_t ngx_etcd_object_any_old(ngx_etcd_zone_t *zone,
    const ngx_etcd_object_type_t *type);

/*
 * Called by the owner: retires these objects after the handler, if any, was
 * called for each, under the mutex.  NGX_OK, or NGX_AGAIN (the mutex was held,
 * or another process owns the zone).
 */
ngx_int_t ngx_etcd_object_retire_old(ngx_etcd_zone_t *zone,
    const ngx_etcd_object_type_t *type,
    void (*handler)(void *data, void *object), void *data);

/* Retires one object.  The caller holds the mutex. */
void ngx_etcd_object_retire(ngx_etcd_zone_t *zone,
    const ngx_etcd_object_type_t *type, ngx_etcd_object_t *object);


#endif /* _NGX_ETCD_OBJECT_H_INCLUDED_ */
