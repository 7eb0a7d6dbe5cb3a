
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The keys of a set that are valid, but not used: how many there are of each
 * kind, and one of them.  The zone does not interpret kinds, but for the
 * last one.
 */


#ifndef _NGX_ETCD_UNUSED_H_INCLUDED_
#define _NGX_ETCD_UNUSED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_set.h>


/*
 * The registrations that a newer one of the same address hides.  They are
 * counted only: the entries of a slot name them.
 */
#define NGX_ETCD_UNUSED_HIDDEN  (NGX_ETCD_MEMBER_SET_UNUSED - 1)


typedef struct {
    ngx_uint_t                 keys;
    ngx_str_t                  key;          /* one of them; no data: none */
    ngx_str_t                  reason;
    uint64_t                   mod_revision;
} ngx_etcd_unused_row_t;


typedef struct {
    ngx_etcd_unused_row_t      rows[NGX_ETCD_MEMBER_SET_UNUSED];
    uint32_t                   told[NGX_ETCD_MEMBER_SET_TOLD];
                                             /* hashes of what the log has; 0:
                                                free */
} ngx_etcd_unused_t;


/*
 * Called by the owner; "force": by the master, in a set that no owner knows.
 * Writes all rows and hashes.  A row is written without its key if that is too
 * long, or the zone has no room for it; without room hashes are not written,
 * too.  Results of ngx_etcd_zone_lock_owned().
 */
ngx_int_t ngx_etcd_unused_write(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_etcd_unused_t *unused, ngx_uint_t force);

/* Copies rows and hashes from a set; the caller holds the mutex. */
ngx_int_t ngx_etcd_unused_copy(ngx_etcd_member_set_t *set,
    ngx_etcd_unused_t *unused, ngx_pool_t *pool);

/*
 * Returns 1 if a process that resumes the watch of the set would not know all
 * keys that are counted: the prefix is to be listed.
 */
ngx_uint_t ngx_etcd_unused_any(ngx_etcd_member_set_t *set);


#endif /* _NGX_ETCD_UNUSED_H_INCLUDED_ */
