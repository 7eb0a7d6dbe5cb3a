
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Who holds a lock of this worker, and how many wait for it here, as the
 * status of every worker shows it.  Beyond the rows of a table nothing is
 * shown of them.
 */


#ifndef _NGX_ETCD_LOCK_SHOW_H_INCLUDED_
#define _NGX_ETCD_LOCK_SHOW_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lockers.h>


/* ms until a worker that found no table looks for one again */

#define NGX_ETCD_LOCK_SHOW_AGAIN  1000


/* n more are held by this worker, or wait here: counted, and shown */
void ngx_etcd_lock_show_held(ngx_etcd_lock_t *lock, ngx_int_t n);
void ngx_etcd_lock_show_waiting(ngx_etcd_lock_t *lock, ngx_int_t n);

/* somebody holds it from now on; until then nobody did, or somebody else */
void ngx_etcd_lock_show_holder(ngx_etcd_lock_key_t *key);

/* nobody does, if anybody did */
void ngx_etcd_lock_hide_holder(ngx_etcd_lock_key_t *key);


#endif /* _NGX_ETCD_LOCK_SHOW_H_INCLUDED_ */
