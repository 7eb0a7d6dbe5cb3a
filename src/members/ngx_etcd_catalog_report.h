
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The agent reports in the set map what a prefix with variables has.  Keys that
 * are not used are counted, and the first one of each kind is logged.
 */


#ifndef _NGX_ETCD_CATALOG_REPORT_H_INCLUDED_
#define _NGX_ETCD_CATALOG_REPORT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_catalog_conf.h>


typedef struct {
    ngx_etcd_catalog_conf_t     *conf;
    ngx_log_t                   *log;

    /* values of the set map, or to be stored there */

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


/* The report goes on with what the map has; the rest is zeroed. */
void ngx_etcd_catalog_report_init(ngx_etcd_catalog_report_t *report,
    ngx_etcd_catalog_conf_t *conf, ngx_log_t *log);

/* A list begins. */
void ngx_etcd_catalog_report_list(ngx_etcd_catalog_report_t *report);

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


#endif /* _NGX_ETCD_CATALOG_REPORT_H_INCLUDED_ */
