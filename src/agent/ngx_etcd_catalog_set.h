
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
#include <ngx_etcd_members_conf.h>
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

/* Frees a set whose service is destroyed. */
void ngx_etcd_catalog_set_free(ngx_etcd_hash_table_t *sets,
    ngx_etcd_catalog_set_t *set);

/* The leader of a set is not asked for its confirmation until it is used. */
void ngx_etcd_catalog_set_sleep(ngx_etcd_service_t *service);

/* Returns 1 if there are no keys, and no members that are kept. */
ngx_uint_t ngx_etcd_catalog_set_empty(ngx_etcd_catalog_set_t *set);


/*
 * The agent reports in the set map what a prefix with variables has.  Keys that
 * are not used are counted, and the first one of each kind is logged.
 */

typedef struct {
    ngx_etcd_catalog_conf_t     *conf;
    ngx_log_t                   *log;

    /* values of the set map, at first as it has them, or to be stored there */

    ngx_uint_t                   state;
    ngx_uint_t                   nover;
    ngx_uint_t                   nunmatched;

    unsigned                     missed:1;     /* the map does not say which
                                                  sets have changed */

    /* private: was logged */

    unsigned                     over:1;
    unsigned                     full:1;
    unsigned                     unmatched:1;
    unsigned                     listed:1;     /* once */
} ngx_etcd_catalog_report_t;


/* The key does not match the pattern. */
void ngx_etcd_catalog_report_unmatched(ngx_etcd_catalog_report_t *report,
    ngx_str_t *key);

/* The set of that prefix would be one more than "limit=" allows. */
void ngx_etcd_catalog_report_over(ngx_etcd_catalog_report_t *report,
    ngx_str_t *prefix);

/* The zone has no room for the set of that prefix. */
void ngx_etcd_catalog_report_full(ngx_etcd_catalog_report_t *report,
    ngx_str_t *prefix);

/*
 * All keys of a revision are known.  What is not counted any more is
 * logged when it comes again.
 */
void ngx_etcd_catalog_report_listed(ngx_etcd_catalog_report_t *report);

/* Workers are to read a set again. */
void ngx_etcd_catalog_report_changed(ngx_etcd_catalog_report_t *report,
    ngx_etcd_member_set_t *set);

/* The zone has all keys as of that revision, which was verified at a time. */
void ngx_etcd_catalog_report_settled(ngx_etcd_catalog_report_t *report,
    int64_t revision, uint64_t verified);

/*
 * Stores what is not in the map yet.  Results of ngx_etcd_zone_lock_owned():
 * call again.
 */
ngx_int_t ngx_etcd_catalog_report_store(ngx_etcd_catalog_report_t *report);


#endif /* _NGX_ETCD_CATALOG_SET_H_INCLUDED_ */
