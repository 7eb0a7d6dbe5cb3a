
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A watched prefix as a set of members.  The configuration declares services;
 * the agent runs them: it decodes what a watch reports, compares the members
 * with the set in the zone, and publishes the difference.
 */


#ifndef _NGX_ETCD_SERVICE_H_INCLUDED_
#define _NGX_ETCD_SERVICE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_diff.h>
#include <ngx_etcd_service_conf.h>


/* ms until a set is published again: the mutex was held; the zone was full */

#define NGX_ETCD_SERVICE_BUSY  50
#define NGX_ETCD_SERVICE_FULL  5000


/*
 * The owner that runs services: the agent, or a catalog.  It exists as long as
 * its services.
 */

typedef struct {
    ngx_etcd_watch_stream_t     *stream;        /* NULL: the mirror is fed by
                                                   the owner */

    /*
     * The batch is in the zone, and whether it has changed anything visible;
     * the service must not be destroyed in there.
     */
    void                       (*published)(ngx_etcd_service_t *service,
                                            ngx_uint_t changed);

    /*
     * The owner calls ngx_etcd_service_publish() soon.  NULL: the service has
     * its own event for that.
     */
    void                       (*queue)(ngx_etcd_service_t *service);

    /*
     * The APIs of members are asked only for a service that a request has used
     * within this number of ms; 0: for each.
     */
    ngx_msec_t                   idle;
    time_t                       told_at;       /* of the guards of a catalog */
    uint64_t                     reported;      /* of the key reports of a
                                                   catalog */
    void                       (*dormant)(ngx_etcd_service_t *service);

    /* another process owns the zone */
    void                       (*lost)(void *data);
    void                        *data;
    ngx_log_t                   *log;
} ngx_etcd_service_owner_t;


struct ngx_etcd_service_s {
    ngx_etcd_service_conf_t     *conf;
    ngx_etcd_service_owner_t    *owner;
    ngx_log_t                   *log;
    ngx_etcd_mirror_t            mirror;        /* of the prefix */
    const ngx_etcd_source_t     *source;
    void                        *ctx;           /* of the source */
    ngx_etcd_member_diff_t       diff;         /* between mirror and set */
    ngx_etcd_guard_t             guard;        /* not of leaders */

    uint64_t                     verified;      /* ngx_etcd_clock() of the last
                                                   verification of the watch;
                                                   valid for the set when all
                                                   changes are published */
    uint64_t                     arrived;       /* arrival of the first event
                                                   of the batch, by
                                                   ngx_etcd_time_budget_now();
                                                   0: no event */
    ngx_event_t                  publish;       /* posted */
    ngx_event_t                  retry;         /* the mutex was held */
    void                        *attendants[NGX_ETCD_ATTENDANTS];

    unsigned                     full:1;        /* was logged */
    unsigned                     busy:1;        /* the mutex was held */
    unsigned                     loading:1;     /* the set is not read yet */
    unsigned                     relist:1;      /* the set does not know all
                                                   keys: its watch begins with a
                                                   list */
};


/*
 * Called by the agent, which owns the zone.  Memory is of the pool; NULL: no
 * memory.
 */
ngx_etcd_service_t *ngx_etcd_service_create(ngx_etcd_service_conf_t *conf,
    ngx_etcd_service_owner_t *owner, ngx_pool_t *pool);

/*
 * Called once after that: reads the set, and resumes its watch, unless the
 * owner feeds the mirror.  NGX_OK, NGX_AGAIN: at that
 * ngx_etcd_time_budget_now() (0: no limit) a part of the set is left, call
 * again; or NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_service_load(ngx_etcd_service_t *service, uint64_t until);

/*
 * The revision from which the watch of a set that was read goes on; 0: the
 * watch begins with a list.
 */
int64_t ngx_etcd_service_revision(ngx_etcd_service_t *service);

/* The batch has changed: it is published soon. */
void ngx_etcd_service_post(ngx_etcd_service_t *service);

/* Publishes the batch, or a part of it: for the owner's queue. */
void ngx_etcd_service_publish(ngx_etcd_service_t *service);

/* Returns 1 while reported changes are not in the zone yet. */
ngx_uint_t ngx_etcd_service_pending(ngx_etcd_service_t *service);

/* Returns 1 if a request has used the service within owner->idle ms. */
ngx_uint_t ngx_etcd_service_used(ngx_etcd_service_t *service);

/* Must be called after the watch stream was destroyed. */
void ngx_etcd_service_destroy(ngx_etcd_service_t *service);


#endif /* _NGX_ETCD_SERVICE_H_INCLUDED_ */
