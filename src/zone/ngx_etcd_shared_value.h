
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A shared value: the value of one key in shared memory.  The owner of the zone
 * writes the shared value, every worker reads it without a lock.  A shared
 * value has two views: the owner writes the spare one and then makes it
 * current, so that a writer that is killed leaves the former view.
 */


#ifndef _NGX_ETCD_SHARED_VALUE_H_INCLUDED_
#define _NGX_ETCD_SHARED_VALUE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_object.h>


#define NGX_ETCD_SHARED_VALUE_MAX_VALUE  4096
#define NGX_ETCD_SHARED_VALUE_MAX_REASON  256


typedef enum {
    NGX_ETCD_SHARED_VALUE_LOADING = 0,       /* not read yet */
    NGX_ETCD_SHARED_VALUE_SYNCED,
    NGX_ETCD_SHARED_VALUE_DENIED     /* the user may not read the key */
} ngx_etcd_shared_value_state_e;


/* All zero: the value is unknown. */

typedef struct {
    uint64_t                         revision;     /* the view is current as of
                                                      this revision; 0: to be
                                                      read */
    uint64_t                         modified;     /* mod_revision of the
                                                      value; 0: no value */
    uint64_t                         refused;      /* mod_revision of a newer
                                                      value that was refused;
                                                      0: none */
    ngx_etcd_shared_value_state_e    state;
    uint32_t                         len;
    uint32_t                         reason_len;   /* why the newer value was
                                                      refused */
    u_char                           reason[NGX_ETCD_SHARED_VALUE_MAX_REASON];
    u_char                           value[NGX_ETCD_SHARED_VALUE_MAX_VALUE];
} ngx_etcd_shared_value_view_t;


typedef struct {
    ngx_etcd_object_t                object;       /* name: the key */
    ngx_etcd_seqlock_t               lock;         /* of views, a latch */
    ngx_etcd_shared_value_view_t     views[2];
} ngx_etcd_shared_value_t;


/*
 * Called by the master: finds or creates the shared value of the key.  NULL:
 * the zone is too small, or its mutex is held.
 */
ngx_etcd_shared_value_t *ngx_etcd_shared_value_declare(ngx_etcd_zone_t *zone,
    ngx_str_t *key);

/*
 * Called by the master: copies the view of the same key from the zone of the
 * previous configuration, which had another size, into a new shared value.
 * NGX_OK or NGX_AGAIN.
 */
ngx_int_t ngx_etcd_shared_value_inherit(ngx_etcd_shared_value_t *value,
    ngx_etcd_zone_t *from);

/*
 * Called by the owner: releases the shared values that its configuration has
 * not declared.  NGX_OK or NGX_AGAIN.
 */
ngx_int_t ngx_etcd_shared_value_retire_old(ngx_etcd_zone_t *zone);

/*
 * Called by the owner: publishes the view.  A changed value is recorded as an
 * event with that name and key.  Results of ngx_etcd_zone_lock_owned().
 */
ngx_int_t ngx_etcd_shared_value_write(ngx_etcd_zone_t *zone,
    ngx_etcd_shared_value_t *value, ngx_etcd_shared_value_view_t *view,
    ngx_str_t *name, ngx_str_t *key);

/*
 * Publishes the view without the mutex, in a zone that no other process uses.
 */
void ngx_etcd_shared_value_fill(ngx_etcd_shared_value_t *value,
    ngx_etcd_shared_value_view_t *view);

/*
 * Updates *copy, a view of *version (both zero at first), to the current
 * view.  If the shared value no longer has that id, the copy is unchanged.  Any
 * process may call this function.
 */
void ngx_etcd_shared_value_read(ngx_etcd_shared_value_t *value, ngx_uint_t id,
    uint64_t *version, ngx_etcd_shared_value_view_t *copy);


#endif /* _NGX_ETCD_SHARED_VALUE_H_INCLUDED_ */
