
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Changing a set by the owner of its zone: entries are prepared one by one,
 * then everything becomes visible at once.
 */


#ifndef _NGX_ETCD_COMMIT_H_INCLUDED_
#define _NGX_ETCD_COMMIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_set.h>


typedef enum {
    NGX_ETCD_OP_PUT = 0,             /* entry into slot, instead of old */
    NGX_ETCD_OP_TOUCH,               /* only old's mod_revision */
    NGX_ETCD_OP_GONE,                /* old's key is gone, it stays */
    NGX_ETCD_OP_REMOVE               /* old from slot */
} ngx_etcd_op_e;


typedef struct {
    ngx_etcd_op_e                    op;
    uint32_t                         slot;
    ngx_etcd_entry_t                *entry;
    ngx_etcd_entry_t                *old;          /* or NULL */
    uint64_t                         revision;
} ngx_etcd_op_t;


/* NULL: the zone is full (*rc is NGX_ERROR) or the mutex held (NGX_AGAIN) */
ngx_etcd_entry_t *ngx_etcd_entry_create(ngx_etcd_zone_t *zone,
    ngx_etcd_set_t *set, ngx_str_t *key, u_char *payload, size_t len,
    ngx_int_t *rc);

/*
 * Publishes all: NGX_OK, NGX_AGAIN (the mutex was held; nothing was done), or
 * NGX_DECLINED (this process is not the owner any more).  *changed says
 * whether anything changed that a worker would see.  A revision of 0 leaves
 * the set's as it was.  The master passes force while no owner can know of
 * the set.
 */
ngx_int_t ngx_etcd_set_commit(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_array_t *ops, uint64_t revision, ngx_uint_t force,
    ngx_uint_t *changed);

/*
 * The owner, on taking over: counts again what a dead owner left half changed.
 * The set is "dirty" then until a commit says that all of it was listed, by a
 * revision; who knows it by the revisions of its entries knows it no more.
 */
ngx_int_t ngx_etcd_set_recover(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set);

/*
 * The owner: replaces what is recorded of a key that could not be read; a
 * NULL reason: it is valid or gone.  A key that is too long is not recorded.
 * NGX_OK, NGX_AGAIN, or NGX_ERROR (the zone is full).
 */
ngx_int_t ngx_etcd_set_invalid(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_str_t *key, ngx_str_t *reason, uint64_t revision);


#endif /* _NGX_ETCD_COMMIT_H_INCLUDED_ */
