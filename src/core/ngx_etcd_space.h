
/*
 * Copyright (C) nginx-etcd contributors
 *
 * How much room the database of etcd has left.
 *
 * Where a lock's KEY has variables, clients write to etcd: each request puts
 * and deletes a key, and etcd keeps all of that until it compacts.  So etcd is
 * asked at intervals how full it is, by one worker for all, and each change of
 * the answer is logged once.
 */


#ifndef _NGX_ETCD_SPACE_H_INCLUDED_
#define _NGX_ETCD_SPACE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_module.h>


#define NGX_ETCD_SPACE_QUOTA   2147483648     /* etcd's own default */
#define NGX_ETCD_SPACE_CHECK   60000          /* ms */

#define NGX_ETCD_SPACE_FIRST   1000           /* ms: the first time within */

/* percent of the quota: LOW from there on, ENOUGH again below that */

#define NGX_ETCD_SPACE_LOW     80
#define NGX_ETCD_SPACE_ENOUGH  75


/* of the zone's space */

typedef enum {
    NGX_ETCD_SPACE_UNKNOWN = 0,               /* nobody has said yet */
    NGX_ETCD_SPACE_REFUSED,                   /* etcd does not say it */
    NGX_ETCD_SPACE_IS_ENOUGH,
    NGX_ETCD_SPACE_IS_LOW,
    NGX_ETCD_SPACE_NONE                       /* etcd takes no writes */
} ngx_etcd_space_state_e;


/* in a worker: NGX_ERROR for lack of memory, never because etcd is away */
ngx_int_t ngx_etcd_space_start(ngx_cycle_t *cycle, ngx_etcd_main_conf_t *conf);

/* it exits */
void ngx_etcd_space_stop(void);


#endif /* _NGX_ETCD_SPACE_H_INCLUDED_ */
