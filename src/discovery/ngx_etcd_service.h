
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
#include <ngx_etcd_set.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_member_diff.h>
#include <ngx_etcd_role.h>
#include <ngx_etcd_table.h>


/* a set that could not be published as a whole is read again after, ms */

#define NGX_ETCD_SERVICE_BUSY  50
#define NGX_ETCD_SERVICE_FULL  5000

/*
 * The watch of a leader is verified so often in max_stale: two of three
 * verifications may fail to come in time.  With max_stale=off that is counted
 * of so many ms.
 */

#define NGX_ETCD_SERVICE_VERIFICATIONS  3
#define NGX_ETCD_SERVICE_STALE          15000


typedef struct ngx_etcd_service_s       ngx_etcd_service_t;


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

    /* entries are keys of the index: the mirror goes on from the set's */
    ngx_uint_t                   indexed;

    /* The watch is verified: its last proof is the staleness of the members. */
    ngx_uint_t                   verified;

    /*
     * Members stay valid without a watch: they may be restored from the state
     * file.
     */
    ngx_uint_t                   restorable;

    /* a key whose value is invalid has no member, not even its last one */
    ngx_uint_t                   strict;

    /* service->ctx; memory is of the pool.  NGX_ERROR: no memory */
    ngx_int_t                  (*create)(ngx_etcd_service_t *service,
                                         ngx_pool_t *pool);
    void                       (*destroy)(ngx_etcd_service_t *service);

    /* as of the mirror */
    ngx_uint_t                 (*wants)(ngx_etcd_mirror_t *mirror,
                                        ngx_str_t *key);

    /* as of the mirror, also while the service is broken */
    void                       (*changed)(ngx_etcd_service_t *service,
                                          ngx_etcd_mirror_entry_t *entry);
    void                       (*removed)(ngx_etcd_service_t *service,
                                          ngx_etcd_mirror_entry_t *entry);

    /*
     * After each whole revision, and each list, of a service that is not
     * broken: what is not registered yet.
     */
    void                       (*complete)(ngx_etcd_service_t *service);
} ngx_etcd_source_t;


/*
 * One "etcd_members" or "etcd_leader": made by configuration, lives as long as
 * the cycle
 */

typedef struct {
    ngx_str_t                    name;          /* of the upstream */
    ngx_uint_t                   stream;
    ngx_str_t                    prefix;
    ngx_etcd_member_conf_t       member;
    const ngx_etcd_method_t     *method;        /* of balancing */
    ngx_uint_t                   keep;          /* on_empty=keep */
    ngx_uint_t                   awaited;       /* some may wait for it */
    ngx_array_t                  statics;       /* of ngx_etcd_member_t */
    uint32_t                     params;        /* hash of how values are
                                                   read */
    const ngx_etcd_source_t     *source;        /* of ngx_etcd_source() */
    ngx_etcd_leader_conf_t      *leader;        /* NULL: "etcd_members" */
    uint32_t                     kind;          /* of the set; 0: members */
    ngx_etcd_table_conf_t        rules;         /* of its tables */

    ngx_etcd_zone_t             *zone;
    ngx_etcd_set_t              *set;           /* from declare() on */
    ngx_etcd_table_t             table;         /* of each worker */
} ngx_etcd_service_conf_t;


struct ngx_etcd_service_s {
    ngx_etcd_service_conf_t     *conf;
    ngx_log_t                   *log;
    ngx_etcd_mirror_t            mirror;        /* of the prefix */
    const ngx_etcd_source_t     *source;
    void                        *ctx;           /* the source's */
    ngx_etcd_member_diff_t      diff;          /* between mirror and set */

    uint64_t                     verified;      /* ngx_etcd_clock(): the watch;
                                                   the set when all is
                                                   published */
    uint64_t                     arrived;       /* the first of its events, by
                                                   ngx_etcd_time_budget_now();
                                                   0: there is none */
    ngx_event_t                  publish;       /* posted */
    ngx_event_t                  retry;         /* the mutex was held */

    unsigned                     full:1;        /* was logged */
    unsigned                     busy:1;        /* the mutex was held */

    /* the owner's: the zone is up to date, and whether anything became visible
       by that; the zone was taken over */
    void                       (*published)(void *data, ngx_uint_t changed);
    void                       (*lost)(void *data);
    void                        *data;
};


/*
 * The master, before that: how host names are resolved.  Where that becomes
 * possible, values are to be read again.
 */
void ngx_etcd_service_resolver(ngx_etcd_service_conf_t *conf,
    ngx_resolver_t *resolver, ngx_msec_t timeout);

/*
 * The master, when the zone is there: finds or makes the set, with the static
 * servers in it.  The set of a new zone takes over what the old one, if there
 * is one, has.
 */
ngx_int_t ngx_etcd_service_declare(ngx_etcd_service_conf_t *conf,
    ngx_etcd_zone_t *zone, ngx_etcd_zone_t *old);

/*
 * ms since the last proof: of a leader, that it is the one that etcd has
 * (ngx_etcd_verify.h); of members, that etcd answers (ngx_etcd_fresh.h).  -1:
 * there was none.
 */
int64_t ngx_etcd_service_staleness(ngx_etcd_service_conf_t *conf);

/*
 * The agent, owning the zone: reads the set and starts to watch where it was
 * left.  Memory is from the pool; NULL: no memory.
 */
ngx_etcd_service_t *ngx_etcd_service_create(ngx_etcd_service_conf_t *conf,
    ngx_etcd_watcher_t *watcher, ngx_pool_t *pool,
    void (*published)(void *data, ngx_uint_t changed),
    void (*lost)(void *data), void *data, ngx_log_t *log);

/* 1 while something that the watch has reported is not in the zone yet */
ngx_uint_t ngx_etcd_service_pending(ngx_etcd_service_t *service);

/* after the watcher was destroyed */
void ngx_etcd_service_destroy(ngx_etcd_service_t *service);


#endif /* _NGX_ETCD_SERVICE_H_INCLUDED_ */
