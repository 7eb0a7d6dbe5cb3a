
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Whether etcd can be written: the rights of the user, and the free space of
 * the database.  A worker asks by clients of its own.
 */


#ifndef _NGX_ETCD_WRITABLE_H_INCLUDED_
#define _NGX_ETCD_WRITABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>


#define NGX_ETCD_DB_SPACE_CHECK  60000          /* ms */

#define NGX_ETCD_DB_SPACE_FIRST  1000           /* ms: first check within */


/*
 * The "write_check" directive: asks etcd whether the user may write keys, by a
 * transaction whose condition is never true and which would put the key.  etcd
 * checks the rights of both branches before it looks at the condition, so
 * nothing is written.
 *
 * One worker asks, once after its start; its client is destroyed after the
 * last answer.
 */

/*
 * Called in a worker.  NGX_ERROR: no memory; never because etcd is
 * unreachable.
 */
ngx_int_t ngx_etcd_write_check_start(ngx_cycle_t *cycle,
    ngx_etcd_main_conf_t *conf);

/* Called when the worker exits. */
void ngx_etcd_write_check_stop(void);


/*
 * The free space of etcd's database, for the metrics.
 *
 * If a lock's KEY contains variables, clients cause writes to etcd: each
 * request puts and deletes a key, and etcd keeps both until compaction.
 * Therefore one worker asks etcd at intervals for the size of its database.
 * Its client is no other's, since an endpoint that does not answer this
 * question may well serve the others.
 */

/*
 * Called in a worker.  NGX_ERROR: no memory; never because etcd is
 * unreachable.
 */
ngx_int_t ngx_etcd_db_space_start(ngx_cycle_t *cycle,
    ngx_etcd_main_conf_t *conf);

/*
 * Returns 1 if etcd is asked: "db_check" is not 0, and a KEY has variables.
 * Otherwise the zone may have the answer to a former configuration.
 */
ngx_uint_t ngx_etcd_db_space_wanted(ngx_etcd_conf_t *conf);

/* Called when the worker exits. */
void ngx_etcd_db_space_stop(void);


#endif /* _NGX_ETCD_WRITABLE_H_INCLUDED_ */
