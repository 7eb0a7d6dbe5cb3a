
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A service as the configuration declares it: a prefix whose keys are members,
 * the source that reads them, the rules of its upstream, static servers, and
 * its attendants: checks and ejection, which the agent runs for its set.
 *
 * An upstream may have several, its lines: the members of a line are used only
 * while no member of a former line can be used.  Each line is a service with a
 * set and a table of its own.
 */


#ifndef _NGX_ETCD_SERVICE_CONF_H_INCLUDED_
#define _NGX_ETCD_SERVICE_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_guard.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_member_set.h>
#include <ngx_etcd_mirror.h>
#include <ngx_etcd_outcome.h>
#include <ngx_etcd_table.h>


#define NGX_ETCD_ATTENDANTS  4               /* of a service, at most */

/*
 * Verifications of a leader's watch within max_stale: two of three may be
 * late.  With max_stale=off, within this number of ms.
 */

#define NGX_ETCD_SERVICE_VERIFICATIONS  3
#define NGX_ETCD_SERVICE_STALE          15000


typedef struct ngx_etcd_service_s  ngx_etcd_service_t;
typedef struct ngx_etcd_service_conf_s  ngx_etcd_service_conf_t;


/*
 * Work of the agent while it has the service of a set, as checks of its
 * members.  create() is called before the index is made, and returns NULL if
 * there is no memory; memory is of the pool.
 */

typedef struct {
    void                      *(*create)(ngx_etcd_service_t *service,
                                         void *conf, ngx_pool_t *pool);
    void                       (*destroy)(void *data);

    /* Changes are in the zone.  NULL: does not matter. */
    void                       (*published)(void *data);
    void                        *conf;
    uint32_t                     verdicts;      /* bits that it sets: without
                                                   it they are cleared */
} ngx_etcd_attendant_t;


/* of all zeroes: none */

typedef struct {
    ngx_etcd_attendant_t         list[NGX_ETCD_ATTENDANTS];
    ngx_uint_t                   n;
} ngx_etcd_attendants_t;


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


/* an "etcd_members" or "etcd_leader" among those of its upstream */

typedef struct {
    ngx_str_t                    upstream;      /* the name of the upstream */
    ngx_uint_t                   number;        /* from 1; 0: the only one */
    ngx_uint_t                   backup;        /* a further one */
    ngx_etcd_service_conf_t     *next;          /* NULL: none */
} ngx_etcd_line_t;


/*
 * One "etcd_members" or "etcd_leader": made by configuration, lives as long as
 * the cycle.
 */

struct ngx_etcd_service_conf_s {
    ngx_str_t                    name;          /* of the upstream; of its
                                                   further lines with their
                                                   number: "api (2)" */
    ngx_etcd_line_t              line;
    ngx_uint_t                   stream;
    ngx_str_t                    prefix;
    ngx_etcd_member_conf_t       member;
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
    ngx_str_t                   *observed;      /* checks are shared in that
                                                   zone, len 0: one without a
                                                   name; NULL: they are not */

    ngx_etcd_zone_t             *zone;
    ngx_etcd_member_set_t       *set;           /* from declare() on */
    uint32_t                     set_id;        /* of the set then */
    ngx_etcd_table_t            *table;         /* of each worker */
    ngx_etcd_outcome_t          *outcome;       /* of each worker; NULL: of a
                                                   set alone */
};


/* the service of a table */

#define ngx_etcd_service_of(table)                                            \
    ((ngx_etcd_service_conf_t *) ((u_char *) (table)->conf                    \
                              - offsetof(ngx_etcd_service_conf_t, rules)))

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
 * Returns NULL, or why the line cannot follow those of the upstream; first is
 * NULL: there is none yet.
 */
char *ngx_etcd_lines_refuse(ngx_etcd_service_conf_t *first,
    ngx_etcd_service_conf_t *line);

/* Adds a line to those of the upstream. */
ngx_int_t ngx_etcd_lines_add(ngx_conf_t *cf, ngx_etcd_service_conf_t *first,
    ngx_etcd_service_conf_t *line);

/* Called when the block is complete: has the tables know each other. */
void ngx_etcd_lines_link(ngx_etcd_service_conf_t *first);

/*
 * ms between verifications of the watch of a source that is verified
 * (ngx_etcd_proof.h).
 */
ngx_msec_t ngx_etcd_service_interval(ngx_etcd_service_conf_t *conf);

/* Called while the configuration is read: there is room for them all. */
void ngx_etcd_attendant_add(ngx_etcd_attendants_t *attendants,
    ngx_etcd_attendant_t *attendant);

/* Returns the bits of verdicts that attendants set. */
uint32_t ngx_etcd_attendant_verdicts(ngx_etcd_attendants_t *attendants);

/* Returns 1 if an attendant sets one of these bits of verdicts. */
ngx_uint_t ngx_etcd_attendant_judges(ngx_etcd_attendants_t *attendants,
    uint32_t bits);


#endif /* _NGX_ETCD_SERVICE_CONF_H_INCLUDED_ */
