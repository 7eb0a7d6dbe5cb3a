
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A watched prefix as a set of members.  The configuration declares services;
 * the agent runs them: it decodes what a watch reports, compares it with the
 * set in the zone, and publishes what is different.
 */


#ifndef _NGX_ETCD_SERVICE_H_INCLUDED_
#define _NGX_ETCD_SERVICE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_watch.h>
#include <ngx_etcd_set.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_index.h>
#include <ngx_etcd_table.h>


/* a set that could not be published as a whole is read again after, ms */

#define NGX_ETCD_SERVICE_BUSY  50
#define NGX_ETCD_SERVICE_FULL  5000


/* one "etcd_members": made by configuration, lives as long as the cycle */

typedef struct {
    ngx_str_t                    name;          /* of the upstream */
    ngx_uint_t                   stream;
    ngx_str_t                    prefix;
    ngx_etcd_member_conf_t       member;
    ngx_uint_t                   keep;          /* on_empty=keep */
    ngx_array_t                  statics;       /* of ngx_etcd_member_t */
    uint32_t                     params;        /* hash of how values are
                                                   read */

    ngx_etcd_zone_t             *zone;
    ngx_etcd_set_t              *set;           /* from declare() on */
    ngx_etcd_table_t             table;         /* of each worker */
} ngx_etcd_service_conf_t;


typedef struct ngx_etcd_service_s  ngx_etcd_service_t;

struct ngx_etcd_service_s {
    ngx_etcd_service_conf_t     *conf;
    ngx_etcd_zone_t             *zone;
    ngx_etcd_set_t              *set;
    ngx_log_t                   *log;
    ngx_etcd_watch_t             watch;
    ngx_etcd_index_t             index;

    /* what is to be published next */

    ngx_pool_t                  *pool;
    ngx_array_t                 *ops;           /* of ngx_etcd_op_t */
    uint64_t                     revision;
    ngx_event_t                  publish;       /* posted */
    ngx_event_t                  retry;         /* the mutex was held */

    ngx_uint_t                   mark;          /* of the present list */
    ngx_uint_t                   skipped;       /* members without room */
    ngx_etcd_grpc_status_e       refused;       /* by etcd, and logged */
    unsigned                     indexed:1;
    unsigned                     full:1;        /* was logged */
    unsigned                     kept:1;        /* was logged */
    unsigned                     broken:1;      /* index and set may differ */

    /* the owner's: changes became visible; the zone was taken over */
    void                       (*published)(void *data);
    void                       (*lost)(void *data);
    void                        *data;
};


/*
 * The master, when the zone is there: finds or makes the set, with the static
 * servers in it.  The set of a new zone takes over what the old one, if there
 * is one, has.
 */
ngx_int_t ngx_etcd_service_declare(ngx_etcd_service_conf_t *conf,
    ngx_etcd_zone_t *zone, ngx_etcd_zone_t *old);

/*
 * The agent, owning the zone: reads the set and starts to watch where it was
 * left.  Memory is from the pool; NULL: no memory.
 */
ngx_etcd_service_t *ngx_etcd_service_create(ngx_etcd_service_conf_t *conf,
    ngx_etcd_watcher_t *watcher, ngx_pool_t *pool,
    void (*published)(void *data), void (*lost)(void *data), void *data,
    ngx_log_t *log);

/* after the watcher was destroyed */
void ngx_etcd_service_destroy(ngx_etcd_service_t *service);


#endif /* _NGX_ETCD_SERVICE_H_INCLUDED_ */
