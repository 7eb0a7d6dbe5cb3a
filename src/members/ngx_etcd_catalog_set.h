
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A set of a catalog as the agent has it, with the service of its members.
 */


#ifndef _NGX_ETCD_CATALOG_SET_H_INCLUDED_
#define _NGX_ETCD_CATALOG_SET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_fanout.h>
#include <ngx_etcd_hash_table.h>
#include <ngx_etcd_service.h>
#include <ngx_etcd_set_map.h>


/*
 * Leaders of sets that no request uses: the API of such a leader is not asked
 * for a confirmation until a request comes.  Workers count such requests in
 * the map.
 */

/* ms between looks at the map, while there are dormant leaders */

#define NGX_ETCD_DORMANT_INTERVAL  50


typedef struct {
    ngx_queue_t                  sets;
    ngx_event_t                  look;
    ngx_atomic_uint_t            asked;        /* of the map, when it was last
                                                  looked at */
    ngx_etcd_set_map_t          *map;
} ngx_etcd_dormant_t;


/* Embedded in the owner's object of a set; the owner sets the list. */

typedef struct {
    ngx_etcd_dormant_t          *list;
    ngx_queue_t                  queue;
    ngx_etcd_service_t          *service;      /* NULL: awake */
} ngx_etcd_dormant_set_t;


void ngx_etcd_dormant_init(ngx_etcd_dormant_t *dormant,
    ngx_etcd_set_map_t *map, ngx_log_t *log);
void ngx_etcd_dormant_done(ngx_etcd_dormant_t *dormant);

/* The leader selects again when a request uses the set. */
void ngx_etcd_dormant_add(ngx_etcd_dormant_set_t *set,
    ngx_etcd_service_t *service);

/* Has no effect on a set that is awake. */
void ngx_etcd_dormant_remove(ngx_etcd_dormant_set_t *set);


typedef struct {
    ngx_str_t                    prefix;       /* must be the first field
                                                  (ngx_etcd_hash_table.h) */
    ngx_etcd_fanout_part_t       part;
    void                        *catalog;      /* set by the catalog */
    ngx_pool_t                  *pool;         /* of the service */
    ngx_etcd_service_conf_t      conf;
    ngx_etcd_service_t          *service;
    ngx_etcd_dormant_set_t       dormant;      /* list is set by the catalog */

    /* of the catalog */

    ngx_queue_t                  queue;        /* sets to be published, or
                                                  empty sets */
    ngx_msec_t                   emptied;      /* ngx_current_msec */
    unsigned                     queued:1;     /* to be published */
    unsigned                     pending:1;    /* not in the zone yet */
    unsigned                     empty:1;      /* in the queue of empty sets */
} ngx_etcd_catalog_set_t;


#define ngx_etcd_catalog_set_at(q)                                            \
    (ngx_queue_data(q, ngx_etcd_catalog_set_t, queue))

/* the set of a service */

#define ngx_etcd_catalog_set_of(service)                                      \
    ((ngx_etcd_catalog_set_t *)                                               \
     ((u_char *) (service)->conf - offsetof(ngx_etcd_catalog_set_t, conf)))


/*
 * Adds a set of the map to the table, with a service that differs from the
 * template in its prefix, its set, and the keys of its leader.  The mirror of
 * part is that of the service.  NULL: no memory.
 */
ngx_etcd_catalog_set_t *ngx_etcd_catalog_set_create(
    ngx_etcd_hash_table_t *sets, ngx_str_t *prefix,
    ngx_etcd_set_found_t *found, ngx_etcd_service_conf_t *template,
    ngx_etcd_service_owner_t *owner);
void ngx_etcd_catalog_set_destroy(ngx_etcd_hash_table_t *sets,
    ngx_etcd_catalog_set_t *set);

/* The leader of a set is not asked for its confirmation until it is used. */
void ngx_etcd_catalog_set_sleep(ngx_etcd_service_t *service);

/* Returns 1 if there are no keys, and no members that are kept. */
ngx_uint_t ngx_etcd_catalog_set_empty(ngx_etcd_catalog_set_t *set);


#endif /* _NGX_ETCD_CATALOG_SET_H_INCLUDED_ */
