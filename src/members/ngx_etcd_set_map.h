
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The sets of an upstream whose prefix holds variables: a set has the members
 * below one prefix, which is found by that prefix.  The owner of the zone adds
 * and removes sets; every worker finds them without a lock, and learns from a
 * ring which sets have changed.
 */


#ifndef _NGX_ETCD_SET_MAP_H_INCLUDED_
#define _NGX_ETCD_SET_MAP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_set.h>
#include <ngx_etcd_shared_map.h>


#define NGX_ETCD_SET_MAP_RING  256           /* changed sets remembered */


/* A set of a map. */

typedef struct {
    ngx_etcd_shared_node_t           node;
    ngx_queue_t                      queue;        /* in map->nodes */
    ngx_etcd_member_set_t           *set;
    uint32_t                         set_id;
    uint32_t                         len;
    u_char                           prefix[1];
} ngx_etcd_set_node_t;


/*
 * Fields after the queue are written by the owner, under the mutex, and read
 * without a lock.
 */

typedef struct {
    ngx_etcd_object_t                object;       /* name: of the upstream;
                                                      prefix: with variables */
    ngx_etcd_shared_map_t            map;
    ngx_queue_t                      nodes;
    ngx_uint_t                       limit;        /* of sets */

    ngx_atomic_t                     state;        /* values of set->state */
    ngx_atomic_t                     listed;       /* 1: all keys were seen
                                                      since the start: etcd has
                                                      no others */
    ngx_etcd_atomic64_t              revision;     /* all sets are complete up
                                                      to it; 0: list */
    ngx_etcd_atomic64_t              verified;     /* ngx_etcd_clock(): all
                                                      sets were equal to
                                                      etcd's data; 0: never */
    ngx_atomic_t                     over;         /* keys of sets beyond the
                                                      limit */
    ngx_atomic_t                     unmatched;    /* keys that belong to no
                                                      set */

    ngx_atomic_t                     asked;        /* number of requests that
                                                      were the first to use a
                                                      set, or the first after
                                                      the idle time */
    ngx_etcd_atomic64_t              requests;     /* of former sets */
    ngx_etcd_atomic64_t              closed;       /* connections closed by
                                                      close_after */

    ngx_atomic_t                     generation;   /* grows with each change,
                                                      and by more than a ring
                                                      if all may be others */
    ngx_atomic_t                     changes;      /* number of changes */
    ngx_etcd_member_set_t           *ring[NGX_ETCD_SET_MAP_RING];
} ngx_etcd_set_map_t;


/* The result of a search. */

typedef struct {
    ngx_etcd_member_set_t           *set;
    uint32_t                         set_id;
} ngx_etcd_set_found_t;


/* A part of all sets of a map. */

typedef struct {
    uint32_t                         id;           /* of the map */
    uint32_t                         after;        /* of the set before them */
    ngx_uint_t                       room;         /* at most so many */
    ngx_etcd_set_found_t            *found;
    ngx_str_t                       *prefixes;
} ngx_etcd_set_list_t;


/*
 * Called by the master: finds the map or makes an empty one.  The sets of a
 * map that exists are kept, also those beyond a lower limit.  NULL: the zone is
 * too small, or its mutex is held.
 */
ngx_etcd_set_map_t *ngx_etcd_set_map_declare(ngx_etcd_zone_t *zone,
    ngx_etcd_object_id_t *id, ngx_uint_t limit);

/*
 * Called by the master: copies the sets of the same map from the zone of the
 * previous configuration, which had another size.  NGX_OK, NGX_AGAIN, or
 * NGX_ERROR (the zone is too small).
 */
ngx_int_t ngx_etcd_set_map_inherit(ngx_etcd_zone_t *zone,
    ngx_etcd_set_map_t *map, ngx_etcd_zone_t *from);

/*
 * Called by the owner, after ngx_etcd_retire_sets(): frees the maps that its
 * configuration has not declared.  NGX_OK or NGX_AGAIN.
 */
ngx_int_t ngx_etcd_set_map_retire_old(ngx_etcd_zone_t *zone);

/* waiting requests are counted; requests wait for connections as well */

#define NGX_ETCD_SET_MAP_WAITING  0x01
#define NGX_ETCD_SET_MAP_QUEUE    0x02

#define ngx_etcd_set_map_waits(set)                                           \
    (((set)->waiting ? NGX_ETCD_SET_MAP_WAITING : 0)                          \
     | ((set)->queue ? NGX_ETCD_SET_MAP_QUEUE : 0))

/*
 * Called by the owner, or by the master with "force": adds a set with that
 * prefix, which the map must not have.  "waiting": what is counted of waiting
 * requests.  NGX_OK: *found is set.  NGX_DECLINED: there are "limit" sets;
 * NGX_ERROR: the zone is full; NGX_AGAIN: the mutex was held, or the process
 * does not own the zone.
 */
ngx_int_t ngx_etcd_set_map_add(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map,
    ngx_str_t *prefix, ngx_uint_t waiting, ngx_uint_t force,
    ngx_etcd_set_found_t *found);

/*
 * Called by the owner, or by the master with "force": counts waiting requests
 * of a set that exists.
 */
void ngx_etcd_set_map_count(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t waiting, ngx_uint_t force);

/*
 * Called by the owner: takes a set out of the map, whose sums keep the requests
 * of the set, and frees the node; the caller then frees the set by
 * ngx_etcd_retire_one().  NGX_OK, or NGX_AGAIN: nothing was done.
 */
ngx_int_t ngx_etcd_set_map_remove(ngx_etcd_zone_t *zone,
    ngx_etcd_set_map_t *map, ngx_etcd_member_set_t *set);

/*
 * Called by the owner: the next set of a walk, which ends before any set is
 * removed that it has not reached; *next is 0 at first.  Copies the prefix to
 * prefix->data, which has room for any.  NGX_OK, NGX_DONE: the end, or
 * results of ngx_etcd_zone_lock_owned().
 */
ngx_int_t ngx_etcd_set_map_walk(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map,
    uint32_t *next, ngx_etcd_set_found_t *found, ngx_str_t *prefix);

/*
 * Called by the master for a map that no worker knows: takes all sets out; the
 * first owner frees them.
 */
void ngx_etcd_set_map_drop(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map);

/* The nodes, under the mutex or for the master; NULL: end. */
ngx_etcd_set_node_t *ngx_etcd_set_map_first(ngx_etcd_set_map_t *map);
ngx_etcd_set_node_t *ngx_etcd_set_map_next(ngx_etcd_set_map_t *map,
    ngx_etcd_set_node_t *node);

/*
 * The sets and their prefixes, for any process: copies nodes in the order of
 * their creation, and returns their number; each prefix is allocated from the
 * pool.  A map that no longer has that id has none.  NGX_AGAIN: the mutex was
 * held; NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_set_map_list(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map,
    ngx_etcd_set_list_t *list, ngx_pool_t *pool);

/*
 * Finds the set of a prefix: NGX_OK, NGX_DECLINED, or NGX_AGAIN (the map is
 * being changed, and the mutex was held).
 */
ngx_int_t ngx_etcd_set_map_find(ngx_etcd_zone_t *zone, ngx_etcd_set_map_t *map,
    ngx_str_t *prefix, ngx_etcd_set_found_t *found);

/* Returns 1 if there is a set whose prefix has that hash. */
ngx_uint_t ngx_etcd_set_map_has(ngx_etcd_zone_t *zone,
    ngx_etcd_set_map_t *map, uint64_t hash);

/*
 * Called by the owner, under the mutex: workers read that set again, or all of
 * them (NULL): a former owner may have been killed before it reported a change.
 */
void ngx_etcd_set_map_changed(ngx_etcd_set_map_t *map,
    ngx_etcd_member_set_t *set);

/*
 * Called by a worker: calls the handler for each set that has changed since
 * *generation, which is updated.  NGX_DECLINED: there are too many, and all
 * sets may have changed.
 */
ngx_int_t ngx_etcd_set_map_follow(ngx_etcd_set_map_t *map,
    ngx_atomic_uint_t *generation,
    void (*handler)(void *data, ngx_etcd_member_set_t *set), void *data);


#endif /* _NGX_ETCD_SET_MAP_H_INCLUDED_ */
