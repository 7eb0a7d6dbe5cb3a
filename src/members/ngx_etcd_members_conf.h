
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The parameters of "etcd_members", the directive "etcd_prefer", and prefixes
 * with variables; common to http and stream.
 */


#ifndef _NGX_ETCD_MEMBERS_CONF_H_INCLUDED_
#define _NGX_ETCD_MEMBERS_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_option.h>
#include <ngx_etcd_pattern.h>
#include <ngx_etcd_service.h>
#include <ngx_etcd_set_map.h>
#include <ngx_etcd_table_cache.h>
#include <ngx_etcd_wait_queue.h>


/* contexts: a prefix with variables only; the other bits are the leader's */

#define NGX_ETCD_MEMBERS_SETS  0x100


/* rows that "etcd_leader" has, too; a JSON pointer is for the last row */

#define NGX_ETCD_MEMBERS_OPTIONS                                              \
                                                                              \
    { .name = ngx_string("cluster="), .type = NGX_ETCD_OPTION_READ,           \
      .min = 1 },                                                             \
                                                                              \
    { .name = ngx_string("limit="), .type = NGX_ETCD_OPTION_NUMBER,           \
      .offset = offsetof(ngx_etcd_catalog_conf_t, limit),                     \
      .min = 1, .max = NGX_ETCD_CATALOG_MAX_LIMIT,                            \
      .contexts = NGX_ETCD_MEMBERS_SETS },                                    \
                                                                              \
    { .name = ngx_string("idle="), .type = NGX_ETCD_OPTION_TIME,              \
      .offset = offsetof(ngx_etcd_catalog_conf_t, idle),                      \
      .min = 1, .contexts = NGX_ETCD_MEMBERS_SETS },                          \
                                                                              \
    { .name = ngx_string("max_conns="), .pointer = 1,                         \
      .set = ngx_etcd_members_conf_value },                                   \
                                                                              \
    { .name = ngx_string("max_fails="), .pointer = 1,                         \
      .set = ngx_etcd_members_conf_value },                                   \
                                                                              \
    { .name = ngx_string("fail_timeout="), .pointer = 1,                      \
      .set = ngx_etcd_members_conf_value },                                   \
                                                                              \
    { .name = ngx_string("lease="), .set = ngx_etcd_members_conf_value },     \
                                                                              \
    { .name = ngx_string("outcomes="), .type = NGX_ETCD_OPTION_ENUM,          \
      .offset = offsetof(ngx_etcd_service_conf_t, rules.outcomes),            \
      .names = ngx_etcd_members_outcomes }


extern ngx_conf_enum_t  ngx_etcd_members_outcomes[];

/*
 * Setters for a format's parameters (ngx_etcd_parameter.h) and the attributes
 * of members, and for JSON pointers.
 */
char *ngx_etcd_members_conf_value(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf);
char *ngx_etcd_members_conf_pointer(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf);

/* Returns NULL, or why the service cannot have the parameter. */
char *ngx_etcd_members_conf_allowed(ngx_etcd_option_t *option, void *conf);

/*
 * Reads all parameters except cluster= into the service, whose prefix is set;
 * logs errors.
 */
char *ngx_etcd_members_conf(ngx_conf_t *cf, ngx_etcd_service_conf_t *service);

/* Reads "etcd_guard" into zeroes; logs errors. */
char *ngx_etcd_members_conf_guard(ngx_conf_t *cf,
    ngx_etcd_guard_conf_t *guard);

/*
 * Sets the format of values that the parameter names, or the default; logs
 * errors.
 */
ngx_int_t ngx_etcd_members_conf_format(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, char *parameter);


/*
 * The directive "etcd_prefer": the members that requests go to first.
 */

#define NGX_ETCD_PREFER_SPILL  70     /* percent */


typedef struct {
    ngx_etcd_tag_t               tag;           /* points into the text
                                                   "TAG:VALUE" */
    ngx_uint_t                   spill;         /* percent; 0: without the
                                                   directive */
} ngx_etcd_prefer_t;


/* Reads the arguments of the directive; logs errors. */
char *ngx_etcd_prefer(ngx_conf_t *cf, ngx_etcd_prefer_t *prefer);

/*
 * Gives the tag, if any, to the service, and adds it to the hash of what
 * values are decoded by.
 */
void ngx_etcd_prefer_use(ngx_etcd_prefer_t *prefer,
    ngx_etcd_service_conf_t *service, uint32_t *hash);

/* Sets the string to "TAG:VALUE", which the tag points into. */
void ngx_etcd_prefer_text(ngx_etcd_tag_t *tag, ngx_str_t *str);

/* Returns NULL, or why the directive cannot be used with one of the lines. */
char *ngx_etcd_prefer_check(ngx_etcd_prefer_t *prefer,
    ngx_etcd_service_conf_t *service);


/*
 * An upstream whose prefix holds variables, as the configuration and the
 * workers know it: its pattern, its map of sets, and a worker's tables.
 */

#define NGX_ETCD_CATALOG_LIMIT  1024         /* sets, by default */
#define NGX_ETCD_CATALOG_MAX_LIMIT  1000000
#define NGX_ETCD_CATALOG_IDLE   600000       /* ms, by default */


/* Returns 1 while a value of the cluster is read for the first time. */

typedef ngx_uint_t (*ngx_etcd_catalog_conf_reading_pt)(
    ngx_etcd_conf_t *cluster);


/* Made by the configuration, lives as long as the cycle. */

typedef struct {
    ngx_etcd_service_conf_t      service;      /* must be the first field: of
                                                  each set, but for prefix, set
                                                  and leader */
    ngx_etcd_pattern_t           pattern;
    ngx_int_t                    variables[NGX_ETCD_PATTERN_VARIABLES];
                                               /* indices in nginx */
    ngx_uint_t                   limit;        /* of sets */
    ngx_msec_t                   idle;         /* of a worker's tables */
    ngx_msec_t                   linger;       /* of a set without members:
                                                  for etcd_wait, and for
                                                  close_after */

    ngx_etcd_set_map_t          *map;          /* from declare() on */
    ngx_uint_t                   map_id;

    /* of each worker */

    ngx_etcd_table_cache_t       cache;
    ngx_etcd_conf_t             *cluster;
    ngx_etcd_catalog_conf_reading_pt
                                 reading;      /* NULL: all values were read */
    ngx_etcd_wait_queue_t        loading;      /* wait until the set, or that
                                                  there is none, is known */
    ngx_etcd_wait_queue_t        known;        /* go on, since it is */
    uint64_t                     missed;       /* hash of the last set that was
                                                  not found; 0: none */
} ngx_etcd_catalog_conf_t;


/* The catalog of a service's configuration; NULL: the prefix is fixed. */

#define ngx_etcd_catalog_of(conf)                                             \
    ((conf)->catalog ? (ngx_etcd_catalog_conf_t *) (conf) : NULL)


/* The waiting requests that sets count, as for ngx_etcd_set_map_add(). */

#define ngx_etcd_catalog_conf_waits(conf)                                     \
    (((conf)->service.awaited ? NGX_ETCD_SET_MAP_WAITING : 0)                 \
     | ((conf)->service.rules.queue ? NGX_ETCD_SET_MAP_QUEUE : 0))

/*
 * Called by the master when the zone exists: finds or makes the map of sets.
 * The map of a new zone is copied from the old zone, if there is one.
 */
ngx_int_t ngx_etcd_catalog_conf_declare(ngx_etcd_catalog_conf_t *conf,
    ngx_etcd_zone_t *zone, ngx_etcd_zone_t *old);

/*
 * Called in each worker: makes its cache of tables.  A prefix may have
 * variables of "etcd_set", which have no set until they were read.  "sync" is
 * posted to have ngx_etcd_table_cache_sync() called soon.
 */
void ngx_etcd_catalog_conf_worker(ngx_etcd_catalog_conf_t *conf,
    ngx_etcd_conf_t *cluster, ngx_etcd_catalog_conf_reading_pt reading,
    ngx_event_t *sync, ngx_log_t *log);

/*
 * Called when the worker was woken, and periodically (values are read without a
 * wake-up): resumes requests whose sets are known now.
 */
void ngx_etcd_catalog_conf_wake(ngx_etcd_catalog_conf_t *conf);

/*
 * The table of the set with these values of the variables, as
 * ngx_etcd_table_cache_get(); *rc is NGX_DECLINED if no set can have them.
 * NGX_BUSY: there is no such set, but what etcd has is not known yet.
 */
ngx_etcd_table_t *ngx_etcd_catalog_conf_table(ngx_etcd_catalog_conf_t *conf,
    ngx_str_t *values, ngx_int_t *rc);

/*
 * Returns 0 if the set with a prefix of that length, of the key, ignores the
 * key.
 */
ngx_uint_t ngx_etcd_catalog_conf_wants(ngx_etcd_catalog_conf_t *conf,
    ngx_str_t *key, size_t len);


/*
 * The variables of a pattern in http or stream: their indices, and the values
 * that they have in a request.
 */

/* The index of a variable of http or stream; NGX_ERROR: logged. */

typedef ngx_int_t (*ngx_etcd_pattern_index_pt)(ngx_conf_t *cf,
    ngx_str_t *name);

/* Evaluates the variable for a request or session; NULL: an error. */

typedef ngx_variable_value_t *(*ngx_etcd_pattern_value_pt)(void *request,
    ngx_uint_t index);


/* Finds the variables, at most NGX_ETCD_PATTERN_VARIABLES. */
ngx_int_t ngx_etcd_pattern_values_find(ngx_conf_t *cf,
    ngx_etcd_pattern_t *pattern, ngx_etcd_pattern_index_pt find,
    ngx_int_t *indices);

/* Reads the values; that of a variable which is not found is empty. */
ngx_int_t ngx_etcd_pattern_values_read(ngx_etcd_pattern_t *pattern,
    ngx_int_t *indices, ngx_etcd_pattern_value_pt get, void *request,
    ngx_str_t *values);

/*
 * The table of the upstream for this request.  NULL: there is no such set
 * (*rc is NGX_DECLINED), or an error (see ngx_etcd_table_cache_get()).
 */
ngx_etcd_table_t *ngx_etcd_pattern_values_table(
    ngx_etcd_service_conf_t *service, ngx_etcd_pattern_value_pt get,
    void *request, ngx_int_t *rc);


#endif /* _NGX_ETCD_MEMBERS_CONF_H_INCLUDED_ */
