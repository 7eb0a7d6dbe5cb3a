
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The objects of the status as copies, which the tables of
 * ngx_etcd_status_field.h read by offset.  Each function fills an object;
 * texts point into the object, the configuration, or what was passed.
 */


#ifndef _NGX_ETCD_STATUS_OBJECT_H_INCLUDED_
#define _NGX_ETCD_STATUS_OBJECT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_campaign.h>
#include <ngx_etcd_catalog.h>
#include <ngx_etcd_check_result.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_lock_conf.h>
#include <ngx_etcd_lock_table.h>
#include <ngx_etcd_maintenance.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_set_variable.h>
#include <ngx_etcd_status_cluster.h>
#include <ngx_etcd_value_conf.h>
#include <ngx_etcd_view.h>


/* a number that does not exist: neither a field nor a sample */

#define NGX_ETCD_STATUS_ABSENT  INT64_MIN


/*
 * kinds of unused keys: those of ngx_etcd_unused_e without the first one, then
 * the hidden registrations
 */

#define NGX_ETCD_STATUS_UNUSED  (NGX_ETCD_MEMBER_SET_UNUSED - 1)


/* the names of states and kinds; the lists end with an empty name */

extern ngx_str_t  ngx_etcd_status_cluster_states[];
extern ngx_str_t  ngx_etcd_status_member_states[];
extern ngx_str_t  ngx_etcd_status_endpoint_states[];
extern ngx_str_t  ngx_etcd_status_upstream_states[];
extern ngx_str_t  ngx_etcd_status_unused_kinds[];
extern ngx_str_t  ngx_etcd_status_variable_states[];
extern ngx_str_t  ngx_etcd_status_classes[];


typedef struct {
    void                      *elts;
    ngx_uint_t                 nelts;
    size_t                     size;          /* of an element */
} ngx_etcd_status_list_t;


typedef struct {
    int64_t                    pid;
    int64_t                    epoch;
} ngx_etcd_status_agent_t;


typedef struct {
    ngx_str_t                  version;
    ngx_str_t                  nginx;
    int64_t                    build;         /* always 1 */
    ngx_etcd_status_agent_t    agent;
} ngx_etcd_status_nginx_t;


/* Of all clusters. */

typedef struct {
    int64_t                    size;
    int64_t                    used;
    int64_t                    stall;         /* us */
} ngx_etcd_status_zone_t;


typedef struct {
    ngx_str_t                  cluster;
    ngx_str_t                  url;
    ngx_str_t                  state;
    ngx_str_t                  version;       /* no data: unknown */
    ngx_str_t                  error;         /* of the last failure; no data:
                                                 it does not fail */
    int64_t                    failing;       /* for so many seconds */
    int64_t                    learned;
    int64_t                    known;         /* 1: the version */

    u_char                     version_text[NGX_ETCD_SERVER_VERSION_LEN];
} ngx_etcd_status_endpoint_t;


/* In a list, each object begins with its name. */

typedef struct {
    ngx_str_t                  name;
    ngx_str_t                  state;
    ngx_str_t                  reason;        /* of the state; no data: none */
    ngx_str_t                  endpoint;
    ngx_etcd_status_list_t     endpoints;
    uint64_t                   endpoint_states[4];
    ngx_str_t                  id;
    int64_t                    agent_up;
    int64_t                    revision;
    int64_t                    staleness;     /* ms; -1: never proved */
    int64_t                    reconnects;
    int64_t                    resyncs;
    int64_t                    repairs;
    int64_t                    db_size;
    int64_t                    db_quota;
    int64_t                    db_nospace;
    ngx_etcd_histogram_t       visible;
    ngx_etcd_status_zone_t     zone;          /* of this cluster */

    u_char                     id_text[NGX_INT64_LEN];
    u_char                     reason_text[NGX_ETCD_STATUS_REASON];
    ngx_etcd_zone_endpoints_t  known;
    ngx_etcd_status_endpoint_t list[NGX_ETCD_ZONE_MAX_ENDPOINTS];
} ngx_etcd_status_cluster_t;


/* Over the members of an upstream, or of one of its sets. */

typedef struct {
    int64_t                    waiting;
    int64_t                    queued;        /* of those, for connections */
    int64_t                    requests;
    int64_t                    conns;
    int64_t                    fails;
    int64_t                    checks;
    int64_t                    check_failures;
    int64_t                    panic;         /* of a prefix with variables:
                                                 number of sets */
    uint64_t                   states[NGX_ETCD_MEMBER_STATES];
    uint64_t                   unused[NGX_ETCD_STATUS_UNUSED];
} ngx_etcd_status_sums_t;


/* Nearness ("etcd_prefer") of an upstream. */

typedef struct {
    ngx_str_t                  prefer;        /* no data: none */
    int64_t                    percent;
    int64_t                    ratio;         /* millionths */
} ngx_etcd_status_near_t;


/* The observer of an upstream whose checks are shared. */

typedef struct {
    ngx_str_t                  role;          /* of this nginx; no data: checks
                                                 are not shared */
    ngx_str_t                  zone;          /* no data: it has no name */
    int64_t                    heard;         /* ms, since its last verdict */
} ngx_etcd_status_observer_t;


/* The guard of an upstream. */

typedef struct {
    int64_t                    holds;
    int64_t                    would_hold;
    int64_t                    held;          /* s, the rest */
} ngx_etcd_status_guard_t;


/* A set that is not ok. */

typedef struct {
    ngx_str_t                  name;
    ngx_str_t                  state;
    ngx_str_t                  reason;        /* why it is down; no data: it is
                                                 degraded */
} ngx_etcd_status_trouble_t;


/* sets that are named, those that are down and others */

#define NGX_ETCD_STATUS_TROUBLES  8


/* The set map of a prefix with variables. */

typedef struct {
    int64_t                    sets;
    int64_t                    down;          /* of these */
    int64_t                    degraded;
    ngx_etcd_status_list_t     troubles;      /* the first ones; no elements: no
                                                 sets */
    int64_t                    limit;
    int64_t                    over;          /* keys beyond the limit */
    int64_t                    unmatched;     /* keys of no set */
    int64_t                    tables;        /* of this worker */
    int64_t                    requests;
} ngx_etcd_status_map_t;


/* of a fixed prefix */

extern const ngx_etcd_status_map_t  ngx_etcd_status_no_map;


/* of several "etcd_members" */

typedef struct {
    int64_t                    number;
    int64_t                    in_use;        /* requests go to this line now */
} ngx_etcd_status_line_t;


/* of "etcd_leader" */

typedef struct {
    int64_t                    failsafe;
    int64_t                    has_leader;
    int64_t                    terms;         /* number of leaders seen */
} ngx_etcd_status_leader_t;


typedef struct {
    ngx_str_t                  name;
    ngx_str_t                  cluster;
    ngx_str_t                  module;        /* http or stream */
    ngx_str_t                  prefix;
    ngx_str_t                  kind;
    ngx_str_t                  state;
    ngx_str_t                  reason;        /* why it is down, or etcd's data
                                                 do not come; no data: neither
                                                 */
    ngx_str_t                  set;           /* of a prefix with variables: one
                                                 of its sets; no data: all of
                                                 them */
    ngx_etcd_status_line_t     line;
    int64_t                    generation;
    int64_t                    revision;
    int64_t                    staleness;     /* ms; -1: never proved */
    int64_t                    closed;        /* by close_after */
    ngx_etcd_status_leader_t   leader;
    int64_t                    ninvalid;
    int64_t                    ejections;
    ngx_etcd_status_sums_t     sums;
    ngx_etcd_outcomes_t        outcomes;
    ngx_etcd_status_near_t     near;
    ngx_etcd_status_observer_t observer;
    ngx_etcd_status_guard_t    guard;
    ngx_etcd_status_map_t      map;

    ngx_uint_t                 lowest;        /* priority of primary members */

    ngx_etcd_service_conf_t   *service;
    ngx_etcd_catalog_conf_t   *catalog;       /* NULL: a fixed prefix */
} ngx_etcd_status_upstream_t;


typedef struct {
    ngx_str_t                  name;
    ngx_str_t                  state;
    ngx_str_t                  reason;        /* no data: it is not down */
    ngx_uint_t                 lowest;        /* priority of primary members */
    int64_t                    members;
    int64_t                    up;
    ngx_etcd_status_sums_t     sums;
} ngx_etcd_status_set_t;


/* Attributes of a member besides its weight; those by default are absent. */

typedef struct {
    int64_t                    max_conns;
    int64_t                    max_fails;
    int64_t                    fail_timeout;  /* s */
    int64_t                    slow_start;    /* ms */
    int64_t                    priority;
    ngx_str_t                  route;         /* no data: none */
    ngx_str_t                  drained_by;    /* no data: it does not drain */
} ngx_etcd_status_read_t;


typedef struct {
    ngx_etcd_view_member_t     view;
    ngx_str_t                  address;
    ngx_str_t                  host;          /* and port; no data: none */
    ngx_str_t                  reason;        /* why addresses of the host are
                                                 not used; no data: none */
    ngx_str_t                  state;
    ngx_str_t                  lease;         /* hexadecimal; no data: none */
    int64_t                    weight;
    int64_t                    near;
    ngx_etcd_status_read_t     read;
    int64_t                    failed;        /* s since the last failure */
    int64_t                    ejected;       /* s, the rest */
    ngx_str_t                  check;         /* the last result; no data: not
                                                 checked */
    int64_t                    check_for;     /* s */
    int64_t                    check_took;    /* us */
    int64_t                    check_row;
    int64_t                    check_up;

    ngx_str_t                  cluster;
    ngx_str_t                  module;
    ngx_str_t                  upstream;
    ngx_str_t                  set;           /* no data: none */
    ngx_str_t                  name;          /* address, or why there is
                                                 none */

    u_char                     host_text[NGX_ETCD_MEMBER_MAX_HOST
                                         + sizeof(":65535")];
    u_char                     reason_text[128];
    u_char                     lease_text[2 * sizeof(int64_t)];
    u_char                     check_text[NGX_ETCD_CHECK_RESULT_TEXT];
} ngx_etcd_status_member_t;


typedef ngx_etcd_view_invalid_t  ngx_etcd_status_invalid_t;


/* Unused keys of one kind. */

typedef struct {
    ngx_str_t                  kind;
    int64_t                    keys;
    ngx_str_t                  key;           /* no data: none is named */
    ngx_str_t                  reason;
    int64_t                    mod_revision;
} ngx_etcd_status_unused_t;


typedef struct {
    ngx_str_t                  name;
    ngx_str_t                  cluster;
    ngx_str_t                  prefix;
    ngx_str_t                  leader;        /* no data: none */
    ngx_str_t                  leader_key;    /* no data: none */
    int64_t                    revision;
    int64_t                    is_leader;
    int64_t                    has_leader;
    int64_t                    remaining;     /* ms; -1: unknown */
    int64_t                    leaders;       /* number of leaders seen */

    ngx_etcd_election_slot_view_t  view;
} ngx_etcd_status_election_t;


/* The counters of a lock, over all processes. */

typedef struct {
    ngx_str_t                  name;
    ngx_str_t                  cluster;
    int64_t                    held;
    int64_t                    waiting;
    int64_t                    acquired;
    int64_t                    timeouts;
    uint64_t                   refused[NGX_ETCD_REFUSALS_OF_LOCK];
    int64_t                    lost;
    int64_t                    handoffs;

    ngx_etcd_lock_name_t      *lock;
} ngx_etcd_status_lock_t;


/* A holder of a lock, or the waiters of one worker for a key. */

typedef struct {
    ngx_str_t                  key;
    int64_t                    pid;
    int64_t                    token;
    int64_t                    shared;
    int64_t                    waiting;
    int64_t                    since;         /* ms ago */
} ngx_etcd_status_lock_row_t;


/* Of a key with variables: SET, unless the map is UNKNOWN or DENIED. */

typedef enum {
    NGX_ETCD_STATUS_VARIABLE_UNKNOWN = 0,
    NGX_ETCD_STATUS_VARIABLE_DEFAULT,
    NGX_ETCD_STATUS_VARIABLE_SET,
    NGX_ETCD_STATUS_VARIABLE_KEPT,   /* the newest value is invalid: the last
                                        valid one applies */
    NGX_ETCD_STATUS_VARIABLE_INVALID,          /* likewise, and there is none */
    NGX_ETCD_STATUS_VARIABLE_DENIED
} ngx_etcd_status_variable_state_e;


typedef struct {
    ngx_str_t                  name;
    ngx_str_t                  cluster;
    ngx_str_t                  key;
    ngx_str_t                  value;         /* no data: none */
    ngx_str_t                  otherwise;
    ngx_str_t                  state;
    int64_t                    revision;
    ngx_str_t                  reason;        /* no data: nothing is refused */
    int64_t                    refused;       /* revision of what is refused */

    /* of a key with variables: of all keys in its map */

    int64_t                    values;
    int64_t                    limit;
    int64_t                    unused;
    int64_t                    invalid;

    u_char                     reason_text[NGX_ETCD_VALUE_REASON];
} ngx_etcd_status_variable_t;


typedef struct {
    ngx_str_t                  time;
    ngx_str_t                  upstream;
    ngx_str_t                  key;
    ngx_str_t                  change;
    int64_t                    revision;

    u_char                     time_text[sizeof("2026-11-20T12:00:00.000Z")];
} ngx_etcd_status_event_t;


void ngx_etcd_status_object_cluster(ngx_etcd_status_cluster_t *cluster,
    ngx_etcd_conf_t *ecf);

/* Makes what is counted absent. */
void ngx_etcd_status_object_uncounted(ngx_etcd_answers_t *answers);

/*
 * Zeroes the sums; sets all else but what a view of the set says, and nearness.
 */
void ngx_etcd_status_object_upstream(ngx_etcd_status_upstream_t *upstream,
    ngx_etcd_conf_t *ecf, ngx_etcd_service_conf_t *service);

/*
 * Sets what is known of a prefix with variables as a whole; and its state, when
 * all of its sets were counted.
 */
void ngx_etcd_status_object_catalog(ngx_etcd_status_upstream_t *upstream);
void ngx_etcd_status_object_sets(ngx_etcd_status_upstream_t *upstream,
    ngx_uint_t nsets);

/* Sets state and reason of a set, from the states of its members. */
void ngx_etcd_status_object_set(ngx_etcd_status_set_t *one,
    ngx_etcd_service_conf_t *service, ngx_etcd_member_set_t *set);

/* Sets what the view says, and what changes meanwhile. */
void ngx_etcd_status_object_update(ngx_etcd_status_upstream_t *upstream,
    ngx_etcd_view_t *view);

/* Sets the numbers of unused keys by kind. */
void ngx_etcd_status_object_unused(ngx_etcd_status_sums_t *sums,
    ngx_etcd_view_t *view);

/*
 * "remaining" is set only if "ask" is 1: to know it, the owner of the zone asks
 * etcd.
 */
void ngx_etcd_status_object_election(ngx_etcd_status_election_t *election,
    ngx_etcd_campaign_t *campaign, ngx_uint_t ask);
void ngx_etcd_status_object_lock(ngx_etcd_status_lock_t *lock,
    ngx_etcd_lock_name_t *name);
void ngx_etcd_status_object_variable(ngx_etcd_status_variable_t *variable,
    ngx_etcd_set_variable_t *sv);
void ngx_etcd_status_object_event(ngx_etcd_status_event_t *event,
    ngx_etcd_zone_event_t *change);


#endif /* _NGX_ETCD_STATUS_OBJECT_H_INCLUDED_ */
