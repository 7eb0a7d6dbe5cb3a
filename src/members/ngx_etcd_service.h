
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
#include <ngx_etcd_attendant.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_member_diff.h>
#include <ngx_etcd_member_set.h>
#include <ngx_etcd_table.h>


/* ms until a set is published again: the mutex was held; the zone was full */

#define NGX_ETCD_SERVICE_BUSY  50
#define NGX_ETCD_SERVICE_FULL  5000

/*
 * Verifications of a leader's watch within max_stale: two of three may be
 * late.  With max_stale=off, within this number of ms.
 */

#define NGX_ETCD_SERVICE_VERIFICATIONS  3
#define NGX_ETCD_SERVICE_STALE          15000


typedef struct ngx_etcd_service_conf_s  ngx_etcd_service_conf_t;


/*
 * A source tells which members the keys of a service's mirror are.  A service
 * is a mirror and a source: all differences between kinds of services are in
 * this table.  A handler may be NULL.
 */

typedef struct {
    char                        *kind;          /* in the status */

    /* of the mirror */
    size_t                       keep;
    size_t                       entry_size;

    /*
     * Entries are keys of the index: the mirror resumes at the set's revision.
     */
    ngx_uint_t                   indexed;

    /* The watch is verified: its last proof is the staleness of the members. */
    ngx_uint_t                   verified;

    /*
     * Members stay valid without a watch: they may be restored from the state
     * file.
     */
    ngx_uint_t                   restorable;

    /*
     * A key whose value is invalid has no members, not even its last valid
     * ones.
     */
    ngx_uint_t                   strict;

    /*
     * Gives a set of a catalog what is its own, below its prefix; memory is of
     * the pool.  NGX_ERROR: no memory.  NULL: there is nothing of the kind.
     */
    ngx_int_t                  (*join)(ngx_etcd_service_conf_t *conf,
                                       ngx_pool_t *pool);

    /* Called when the service is used again after the owner's dormant(). */
    void                       (*wake)(ngx_etcd_service_t *service);

    /* Sets service->ctx; memory is of the pool.  NGX_ERROR: no memory. */
    ngx_int_t                  (*create)(ngx_etcd_service_t *service,
                                         ngx_pool_t *pool);
    void                       (*destroy)(ngx_etcd_service_t *service);

    /*
     * Returns 0 if the key is ignored.  NULL: no key is.  If the prefix of a
     * leader has variables, the keys are relative (ngx_etcd_leader_keys.h).
     */
    ngx_uint_t                 (*wants)(ngx_etcd_service_conf_t *conf,
                                        ngx_str_t *key);

    /* Handlers of the mirror; called also while the service is broken. */
    void                       (*changed)(ngx_etcd_service_t *service,
                                          ngx_etcd_mirror_entry_t *entry);
    void                       (*removed)(ngx_etcd_service_t *service,
                                          ngx_etcd_mirror_entry_t *entry);

    /*
     * Called after each whole revision, and each list, unless the service is
     * broken: registers what has changed.
     */
    void                       (*complete)(ngx_etcd_service_t *service);

    /*
     * Called before changes are published, after the former handlers, unless
     * the service is broken: registers what has changed, if complete() has not
     * done it.  NGX_OK, or NGX_AGAIN: at that ngx_etcd_time_budget_now() a part
     * of it is left.
     */
    ngx_int_t                  (*proceed)(ngx_etcd_service_t *service,
                                          uint64_t until);
} ngx_etcd_source_t;


/*
 * One "etcd_members" or "etcd_leader": made by configuration, lives as long as
 * the cycle.
 */

struct ngx_etcd_service_conf_s {
    ngx_str_t                    name;          /* of the upstream */
    ngx_uint_t                   stream;
    ngx_str_t                    prefix;
    ngx_etcd_member_conf_t       member;
    const ngx_etcd_method_t     *method;        /* of balancing */
    ngx_uint_t                   keep;          /* on_empty=keep */
    ngx_etcd_guard_conf_t        guard;         /* of members */
    ngx_msec_t                   awaited;       /* longest wait of "etcd_wait"
                                                   for it; 0: none */
    ngx_array_t                  statics;       /* of ngx_etcd_member_t */
    ngx_uint_t                   catalog;       /* 1: of an
                                                   ngx_etcd_catalog_conf_t */
    uint32_t                     params;        /* hash of how values are
                                                   read */
    const ngx_etcd_source_t     *source;        /* of the format */
    ngx_etcd_leader_conf_t      *leader;        /* NULL: "etcd_members" */
    uint32_t                     kind;          /* of the set; 0: members */
    ngx_etcd_table_conf_t        rules;         /* of the tables */

    ngx_etcd_attendants_t        attendants;
    ngx_uint_t                   mandatory;     /* a new member is unproven
                                                   until a check succeeds */

    ngx_etcd_zone_t             *zone;
    ngx_etcd_member_set_t       *set;           /* from declare() on */
    uint32_t                     set_id;        /* of the set then */
    ngx_etcd_table_t            *table;         /* of each worker */
};


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
 * Called by the master before declare(): sets the resolver of host names.  A
 * resolver that is new causes all values to be read again.
 */
void ngx_etcd_service_resolver(ngx_etcd_service_conf_t *conf,
    ngx_resolver_t *resolver, ngx_msec_t timeout);

/*
 * Called by the master when the zone exists: finds or makes the set, with the
 * static servers.  The set of a new zone is copied from the old zone, if there
 * is one.
 */
ngx_int_t ngx_etcd_service_declare(ngx_etcd_service_conf_t *conf,
    ngx_etcd_zone_t *zone, ngx_etcd_zone_t *old);

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

/*
 * Wakes the workers as if members had changed: requests that wait for a member
 * look again.
 */
void ngx_etcd_service_touch(ngx_etcd_service_t *service);

/* Returns 1 while reported changes are not in the zone yet. */
ngx_uint_t ngx_etcd_service_pending(ngx_etcd_service_t *service);

/* Returns 1 if a request has used the service within owner->idle ms. */
ngx_uint_t ngx_etcd_service_used(ngx_etcd_service_t *service);

/*
 * ms between verifications of the watch of a source that is verified
 * (ngx_etcd_proof.h).
 */
ngx_msec_t ngx_etcd_service_interval(ngx_etcd_service_conf_t *conf);

/* Must be called after the watch stream was destroyed. */
void ngx_etcd_service_destroy(ngx_etcd_service_t *service);


#endif /* _NGX_ETCD_SERVICE_H_INCLUDED_ */
