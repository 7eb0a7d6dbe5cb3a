
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Active checks of the members of a set, by the agent: what comes of them is in
 * the zone, as the verdicts on members and the notes on them.
 */


#ifndef _NGX_ETCD_CHECK_H_INCLUDED_
#define _NGX_ETCD_CHECK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check_result.h>
#include <ngx_etcd_service.h>


/* checks of an upstream at a time, if there are connections for them */

#define NGX_ETCD_CHECK_PROBES   1024

/*
 * Checks that are begun without other work in between, and ms between: few,
 * since requests wait meanwhile.
 */

#define NGX_ETCD_CHECK_BATCH    4
#define NGX_ETCD_CHECK_TICK     1

/* ms, the shortest interval and timeout */

#define NGX_ETCD_CHECK_TIME     10

/* ms until a set that no request uses is looked at again */

#define NGX_ETCD_CHECK_DORMANT  1000


/* Called while the configuration is read: its members are checked. */
void ngx_etcd_check_attend(ngx_etcd_service_conf_t *service,
    ngx_etcd_check_conf_t *conf);


#endif /* _NGX_ETCD_CHECK_H_INCLUDED_ */
