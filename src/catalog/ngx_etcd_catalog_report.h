
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Keys of a prefix with variables that are not used: they are counted in the
 * set map, and the first one of each kind is logged.
 */


#ifndef _NGX_ETCD_CATALOG_REPORT_H_INCLUDED_
#define _NGX_ETCD_CATALOG_REPORT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_catalog_conf.h>


typedef struct {
    /* set by the owner, the rest zeroed */

    ngx_etcd_catalog_conf_t     *conf;
    ngx_log_t                   *log;

    /* private: was logged */

    unsigned                     over:1;
    unsigned                     full:1;
    unsigned                     unmatched:1;
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
 * All keys of a revision are known.  What the map does not count any more is
 * logged when it comes again.
 */
void ngx_etcd_catalog_report_listed(ngx_etcd_catalog_report_t *report);


#endif /* _NGX_ETCD_CATALOG_REPORT_H_INCLUDED_ */
