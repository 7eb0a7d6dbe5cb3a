
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Leaders of sets that no request uses: the API of such a leader is not asked
 * for a confirmation until a request comes.  Workers count such requests in
 * the map.
 */


#ifndef _NGX_ETCD_DORMANT_H_INCLUDED_
#define _NGX_ETCD_DORMANT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_service.h>
#include <ngx_etcd_set_map.h>


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


#endif /* _NGX_ETCD_DORMANT_H_INCLUDED_ */
