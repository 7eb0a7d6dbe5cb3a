
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_reload.h>
#include <ngx_etcd_set_map.h>
#include <ngx_etcd_str.h>


/*
 * Sets of a map are objects of the zone like those of a fixed prefix.  This
 * bit of the variant tells them apart.
 */

#define NGX_ETCD_SET_MAP_VARIANT  0x80000000

/* sets that are copied or freed at a time */

#define NGX_ETCD_SET_MAP_PIECE    128


#define ngx_etcd_set_map_node(q)                                              \
    (ngx_queue_data(q, ngx_etcd_set_node_t, queue))


static void ngx_etcd_set_map_clear(void *data);


/* a search for a prefix */

typedef struct {
    ngx_slab_pool_t       *shpool;
    ngx_str_t             *prefix;
    ngx_etcd_set_found_t  *found;
} ngx_etcd_set_map_search_t;


static const ngx_etcd_object_type_t  ngx_etcd_set_map_type = {
    NGX_ETCD_ZONE_SET_MAPS, sizeof(ngx_etcd_set_map_t), ngx_etcd_set_map_clear
};


static void
ngx_etcd_set_map_clear(void *data)
{
    u_char *p = data;

    ngx_memzero(p + offsetof(ngx_etcd_set_map_t, map),
                sizeof(ngx_etcd_set_map_t) - offsetof(ngx_etcd_set_map_t,
                                                      map));
}


ngx_etcd_set_map_t *
ngx_etcd_set_map_declare(ngx_etcd_zone_t *zone, ngx_etcd_object_id_t *id,
    ngx_uint_t limit)
{
    ngx_int_t            rc;
    ngx_etcd_set_map_t  *map;

    /* workers inherit the key of the hashes */

    if (ngx_etcd_siphash_init(ngx_cycle->log) != NGX_OK) {
        return NULL;
    }

    map = ngx_etcd_object_declare(zone, &ngx_etcd_set_map_type, id);

    if (map == NULL || ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return NULL;
    }

    if (map->nodes.next == NULL) {
        ngx_queue_init(&map->nodes);
    }

    rc = ngx_etcd_shared_map_size(zone->shpool, &map->map,
                                  ngx_max(limit, map->map.n));

    if (rc == NGX_OK) {
        map->limit = limit;
    }

    ngx_etcd_zone_unlock(zone);

    return (rc == NGX_OK) ? map : NULL;
}


/* Returns the number of sets, or an error. */

static ngx_int_t
ngx_etcd_set_map_inherit_some(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map,
    ngx_etcd_zone_t *from, ngx_etcd_set_map_t *old, uint32_t *after,
    ngx_pool_t *pool)
{
    ngx_int_t              i, n, rc;
    ngx_str_t              prefixes[NGX_ETCD_SET_MAP_PIECE];
    ngx_etcd_set_list_t    list;
    ngx_etcd_set_found_t   added;
    ngx_etcd_set_found_t   found[NGX_ETCD_SET_MAP_PIECE];

    list.id = old->object.id;
    list.after = *after;
    list.room = NGX_ETCD_SET_MAP_PIECE;
    list.found = found;
    list.prefixes = prefixes;

    n = ngx_etcd_set_map_list(from, old, &list, pool);

    for (i = 0; i < n; i++) {
        *after = found[i].set_id;

        rc = ngx_etcd_set_map_add(zone, map, &prefixes[i],
                                  ngx_etcd_set_map_waits(found[i].set), 1,
                                  &added);

        if (rc == NGX_OK) {
            rc = ngx_etcd_member_set_inherit_from(zone, added.set, from,
                                                  found[i].set,
                                                  found[i].set_id);
        }

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }

        if (rc != NGX_OK) {

            /* the set has just been removed, or changes: it is listed */

            map->revision = 0;
            map->listed = 0;
        }
    }

    return n;
}


/*
 * The former owner may still change its map: the sets are listed under the
 * mutex, and each is copied if it still exists.
 */

ngx_int_t
ngx_etcd_set_map_inherit(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map,
    ngx_etcd_zone_t *from)
{
    ngx_int_t            n, rc;
    uint32_t             after;
    ngx_pool_t          *pool;
    ngx_etcd_set_map_t  *old;

    if (ngx_etcd_zone_lock_patient(from) != NGX_OK) {
        return NGX_AGAIN;
    }

    old = ngx_etcd_object_find(from, &ngx_etcd_set_map_type, &map->object);

    ngx_etcd_zone_unlock(from);

    if (old == NULL) {
        return NGX_OK;
    }

    map->state = old->state;
    map->listed = old->listed;
    map->revision = old->revision;
    map->verified = old->verified;

    after = 0;

    do {
        pool = ngx_create_pool(4096, ngx_cycle->log);
        if (pool == NULL) {
            return NGX_ERROR;
        }

        n = ngx_etcd_set_map_inherit_some(zone, map, from, old, &after, pool);

        ngx_destroy_pool(pool);

    } while (n > 0);

    rc = n;

    if (rc != NGX_OK) {
        map->revision = 0;
        map->listed = 0;
    }

    return rc;
}


static uint64_t
ngx_etcd_set_map_requests(ngx_etcd_member_set_t *set)
{
    uint64_t          requests;
    ngx_uint_t        n;
    ngx_etcd_slot_t  *slot;

    requests = set->commit.requests;

    for (n = 0; /* void */ ; n++) {
        slot = ngx_etcd_member_set_slot(set, n);

        if (slot == NULL) {
            break;
        }

        requests += slot->requests;
    }

    return requests;
}


/* "old": the set has to be retired, and its requests are kept. */

static void
ngx_etcd_set_map_unlink(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map,
    ngx_etcd_set_node_t *node, ngx_uint_t old)
{
    ngx_etcd_redo_t  redo;

    redo.n = 0;

    if (old) {
        ngx_etcd_redo_set(&redo, &node->set->object.epoch, 0);
        ngx_etcd_redo_set(&redo, &map->requests,
                          map->requests
                          + ngx_etcd_set_map_requests(node->set));
    }

    ngx_etcd_redo_remove(&redo, &node->queue);
    ngx_etcd_shared_map_replace(&map->map, &node->node, NULL, &redo);
    ngx_etcd_shared_map_write(&map->map, &zone->sh->batch.redo, &redo);

    ngx_slab_free_locked(zone->shpool, node);
}


/* Frees nodes of maps whose sets were retired. */

static ngx_uint_t
ngx_etcd_set_map_retire_piece(ngx_etcd_zone_t *zone, void *data)
{
    ngx_uint_t            left;
    ngx_queue_t          *q, *list;
    ngx_etcd_set_map_t   *map;
    ngx_etcd_set_node_t  *node;

    left = NGX_ETCD_SET_MAP_PIECE;
    list = &zone->sh->objects[NGX_ETCD_ZONE_SET_MAPS];

    for (q = ngx_queue_head(list);
         q != ngx_queue_sentinel(list);
         q = ngx_queue_next(q))
    {
        map = ngx_queue_data(q, ngx_etcd_set_map_t, object.queue);

        if (!ngx_etcd_object_old(zone, &map->object)) {
            continue;
        }

        for (node = ngx_etcd_set_map_first(map);
             node != NULL;
             node = ngx_etcd_set_map_first(map))
        {
            if (left-- == 0) {
                return 1;
            }

            ngx_etcd_set_map_unlink(zone, map, node, 0);
        }
    }

    return 0;
}


/* Called under the mutex. */

static void
ngx_etcd_set_map_free(void *data, void *object)
{
    ngx_etcd_zone_t *zone = data;

    ngx_etcd_set_map_t  *map;

    map = object;

    ngx_etcd_shared_map_done(zone->shpool, &map->map, &zone->sh->batch.redo);
}


ngx_int_t
ngx_etcd_set_map_retire_old(ngx_etcd_zone_t *zone)
{
    if (ngx_etcd_zone_work(zone, 0, ngx_etcd_set_map_retire_piece, NULL, 0)
        != NGX_OK)
    {
        return NGX_AGAIN;
    }

    return ngx_etcd_object_retire_old(zone, &ngx_etcd_set_map_type,
                                      ngx_etcd_set_map_free, zone);
}


/* Set and node become known together, also if the process is killed. */

static ngx_etcd_set_node_t *
ngx_etcd_set_map_create(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map,
    ngx_str_t *prefix)
{
    ngx_etcd_redo_t        redo;
    ngx_etcd_set_node_t   *node;
    ngx_etcd_object_id_t   id;

    node = ngx_slab_alloc_locked(zone->shpool,
                                 offsetof(ngx_etcd_set_node_t, prefix)
                                 + prefix->len);
    if (node == NULL) {
        return NULL;
    }

    id.variant = map->object.variant ^ NGX_ETCD_SET_MAP_VARIANT;
    id.name = map->object.name;
    id.prefix = *prefix;

    redo.n = 0;

    node->set = ngx_etcd_object_prepare(zone, &ngx_etcd_member_set_type, &id,
                                        &redo);
    if (node->set == NULL) {
        ngx_slab_free_locked(zone->shpool, node);
        return NULL;
    }

    node->set->proof = &map->verified;
    node->set->declared = &map->object.epoch;
    node->set->used = 0;
    node->set_id = node->set->object.id;
    node->node.hash = ngx_etcd_shared_map_hash(prefix);
    node->len = prefix->len;
    ngx_memcpy(node->prefix, prefix->data, prefix->len);

    ngx_etcd_redo_insert_tail(&redo, &map->nodes, &node->queue);
    ngx_etcd_shared_map_add(&map->map, &node->node, &redo);
    ngx_etcd_shared_map_write(&map->map, &zone->sh->batch.redo, &redo);

    return node;
}


static void
ngx_etcd_set_map_found(ngx_etcd_set_node_t *node, ngx_etcd_set_found_t *found)
{
    found->set = node->set;
    found->set_id = node->set_id;
}


ngx_int_t
ngx_etcd_set_map_add(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map,
    ngx_str_t *prefix, ngx_uint_t waiting, ngx_uint_t force,
    ngx_etcd_set_found_t *found)
{
    ngx_etcd_set_node_t  *node;

    if (map->map.n >= map->limit) {
        return NGX_DECLINED;
    }

    if (ngx_etcd_zone_lock_owned(zone, force) != NGX_OK) {
        return NGX_AGAIN;
    }

    node = ngx_etcd_set_map_create(zone, map, prefix);

    if (node != NULL) {
        ngx_etcd_set_map_found(node, found);
    }

    ngx_etcd_zone_unlock(zone);

    if (node == NULL) {
        return NGX_ERROR;
    }

    ngx_etcd_set_map_count(zone, found->set, waiting, force);

    return NGX_OK;
}


void
ngx_etcd_set_map_count(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t waiting, ngx_uint_t force)
{
    if (((waiting & NGX_ETCD_SET_MAP_WAITING)
         && ngx_etcd_member_set_count_waiting(zone, set, force) != NGX_OK)
        || ((waiting & NGX_ETCD_SET_MAP_QUEUE)
            && ngx_etcd_member_set_add_queue(zone, set, force) != NGX_OK))
    {
        ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                      "etcd: waiting requests of a set are not counted: "
                      "the zone is full");
    }
}


static ngx_uint_t
ngx_etcd_set_map_match(void *data, ngx_etcd_shared_node_t *node)
{
    ngx_etcd_set_map_search_t *search = data;

    ngx_etcd_set_node_t  *sn;

    sn = (ngx_etcd_set_node_t *) node;

    if (!ngx_etcd_shared_map_inside(search->shpool, sn,
                                    offsetof(ngx_etcd_set_node_t, prefix)
                                    + search->prefix->len)
        || sn->len != search->prefix->len
        || ngx_memcmp(sn->prefix, search->prefix->data, sn->len) != 0)
    {
        return 0;
    }

    ngx_etcd_set_map_found(sn, search->found);

    return 1;
}


ngx_int_t
ngx_etcd_set_map_remove(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map,
    ngx_etcd_member_set_t *set)
{
    ngx_etcd_set_found_t        found;
    ngx_etcd_shared_node_t     *node;
    ngx_etcd_set_map_search_t   search;

    if (ngx_etcd_zone_lock_owned(zone, 0) != NGX_OK) {
        return NGX_AGAIN;
    }

    search.shpool = zone->shpool;
    search.prefix = &set->object.prefix;
    search.found = &found;

    node = ngx_etcd_shared_map_find_locked(zone->shpool, &map->map,
                                       ngx_etcd_shared_map_hash(search.prefix),
                                           ngx_etcd_set_map_match, &search);
    if (node != NULL) {
        ngx_etcd_set_map_unlink(zone, map, (ngx_etcd_set_node_t *) node, 1);
    }

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_set_map_walk(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map,
    uint32_t *next, ngx_etcd_set_found_t *found, ngx_str_t *prefix)
{
    ngx_int_t             rc;
    ngx_queue_t          *q;
    ngx_etcd_set_node_t  *node;

    rc = ngx_etcd_zone_lock_owned(zone, 0);
    if (rc != NGX_OK) {
        return rc;
    }

    q = (*next != 0) ? ngx_etcd_zone_at(zone, *next)
                     : ngx_queue_head(&map->nodes);

    if (q == ngx_queue_sentinel(&map->nodes)) {
        rc = NGX_DONE;

    } else {
        node = ngx_etcd_set_map_node(q);

        ngx_etcd_set_map_found(node, found);

        prefix->len = node->len;
        ngx_memcpy(prefix->data, node->prefix, node->len);

        q = ngx_queue_next(q);
    }

    *next = ngx_etcd_zone_number(zone, q);

    ngx_etcd_zone_unlock(zone);

    return rc;
}


void
ngx_etcd_set_map_drop(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map)
{
    ngx_etcd_set_node_t  *node;

    if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return;
    }

    for (node = ngx_etcd_set_map_first(map);
         node != NULL;
         node = ngx_etcd_set_map_first(map))
    {
        ngx_etcd_set_map_unlink(zone, map, node, 1);
    }

    ngx_etcd_zone_unlock(zone);
}


ngx_etcd_set_node_t *
ngx_etcd_set_map_first(ngx_etcd_set_map_t *map)
{
    /* a map whose declaration has failed has no queue */

    if (map->nodes.next == NULL || ngx_queue_empty(&map->nodes)) {
        return NULL;
    }

    return ngx_etcd_set_map_node(ngx_queue_head(&map->nodes));
}


ngx_etcd_set_node_t *
ngx_etcd_set_map_next(ngx_etcd_set_map_t *map, ngx_etcd_set_node_t *node)
{
    ngx_queue_t  *q;

    q = ngx_queue_next(&node->queue);

    return (q != ngx_queue_sentinel(&map->nodes)) ? ngx_etcd_set_map_node(q)
                                                  : NULL;
}


ngx_int_t
ngx_etcd_set_map_list(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map,
    ngx_etcd_set_list_t *list, ngx_pool_t *pool)
{
    ngx_str_t            *prefix;
    ngx_uint_t            i;
    ngx_etcd_set_node_t  *node;

    if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return NGX_AGAIN;
    }

    i = 0;
    node = (map->object.id == list->id) ? ngx_etcd_set_map_first(map) : NULL;

    for ( /* void */ ;
         node != NULL && i < list->room;
         node = ngx_etcd_set_map_next(map, node))
    {
        if (node->set_id <= list->after) {
            continue;
        }

        prefix = &list->prefixes[i];
        prefix->len = node->len;
        prefix->data = ngx_pnalloc(pool, node->len);

        if (prefix->data == NULL) {
            ngx_etcd_zone_unlock(zone);
            return NGX_ERROR;
        }

        ngx_memcpy(prefix->data, node->prefix, node->len);

        ngx_etcd_set_map_found(node, &list->found[i]);
        i++;
    }

    ngx_etcd_zone_unlock(zone);

    return i;
}


ngx_int_t
ngx_etcd_set_map_find(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map,
    ngx_str_t *prefix, ngx_etcd_set_found_t *found)
{
    uint64_t                   version;
    ngx_etcd_set_map_search_t  search;

    search.shpool = zone->shpool;
    search.prefix = prefix;
    search.found = found;

    return ngx_etcd_zone_find(zone, &map->map, ngx_etcd_shared_map_hash(prefix),
                              ngx_etcd_set_map_match, &search, &version);
}


static ngx_uint_t
ngx_etcd_set_map_any(void *data, ngx_etcd_shared_node_t *node)
{
    return 1;
}


ngx_uint_t
ngx_etcd_set_map_has(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map,
    uint64_t hash)
{
    uint64_t  version;

    return ngx_etcd_zone_find(zone, &map->map, hash, ngx_etcd_set_map_any, NULL,
                              &version)
           == NGX_OK;
}


void
ngx_etcd_set_map_changed(ngx_etcd_set_map_t *map, ngx_etcd_member_set_t *set)
{
    ngx_atomic_uint_t  generation;

    generation = map->generation;

    if (set != NULL) {
        map->ring[generation % NGX_ETCD_SET_MAP_RING] = set;
        map->changes++;
        generation++;

    } else {
        generation += NGX_ETCD_SET_MAP_RING + 1;
    }

    __atomic_store_n(&map->generation, generation, __ATOMIC_RELEASE);
}


/*
 * A place of the ring is written before the generation: of the oldest places
 * one may be overwritten while it is read.
 */

ngx_int_t
ngx_etcd_set_map_follow(ngx_etcd_set_map_t *map,
    ngx_atomic_uint_t *generation,
    void (*handler)(void *data, ngx_etcd_member_set_t *set), void *data)
{
    ngx_atomic_uint_t       from, to, i;
    ngx_etcd_member_set_t  *set;

    from = *generation;
    to = __atomic_load_n(&map->generation, __ATOMIC_ACQUIRE);

    *generation = to;

    for (i = from; i != to; i++) {

        if (to - i >= NGX_ETCD_SET_MAP_RING) {
            return NGX_DECLINED;
        }

        set = map->ring[i % NGX_ETCD_SET_MAP_RING];

        __atomic_thread_fence(__ATOMIC_ACQUIRE);

        if (map->generation - i >= NGX_ETCD_SET_MAP_RING) {
            return NGX_DECLINED;
        }

        handler(data, set);
    }

    return NGX_OK;
}
