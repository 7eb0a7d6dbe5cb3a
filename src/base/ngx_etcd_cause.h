
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The causes of one outage that the log has: the first failure by each cause is
 * an error, further ones are not, in whatever order they come.
 */


#ifndef _NGX_ETCD_CAUSE_H_INCLUDED_
#define _NGX_ETCD_CAUSE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* causes of one outage that are logged as errors */

#define NGX_ETCD_CAUSES  8


/* Zeroed: there is no outage. */

typedef struct {
    uint32_t                     known[NGX_ETCD_CAUSES];  /* hashes; 0: free */
} ngx_etcd_causes_t;


/*
 * Returns the level for a line about a failure: NGX_LOG_ERR if neither this
 * cause nor too many others were logged since the outage began, or
 * NGX_LOG_INFO.  A cause is a number, as a status, and a text, whose digits do
 * not count: the same cause comes with other addresses and times.
 */
ngx_uint_t ngx_etcd_cause_level(ngx_etcd_causes_t *causes, ngx_uint_t number,
    ngx_str_t *text);

/* 1 during an outage */
#define ngx_etcd_cause_any(causes)  ((causes)->known[0] != 0)

/* The outage is over.  Returns 1 if there was one. */
ngx_uint_t ngx_etcd_cause_forget(ngx_etcd_causes_t *causes);


#endif /* _NGX_ETCD_CAUSE_H_INCLUDED_ */
