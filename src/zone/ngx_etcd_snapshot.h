
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A consistent copy of a set in private memory, made piece by piece by the
 * owner of its zone.  Static servers are not copied.
 */


#ifndef _NGX_ETCD_SNAPSHOT_H_INCLUDED_
#define _NGX_ETCD_SNAPSHOT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_entry.h>


/* slots and entries; doubled on each restart */

#define NGX_ETCD_SNAPSHOT_PIECE  1024


typedef struct ngx_etcd_copy_s  ngx_etcd_copy_t;

/* a copy of an ngx_etcd_entry_t */

struct ngx_etcd_copy_s {
    ngx_etcd_copy_t          *next;
    uint64_t                  create_revision;
    uint64_t                  mod_revision;
    int64_t                   lease;
    ngx_str_t                 key;
    u_char                   *payload;
    ngx_uint_t                gone;        /* NGX_ETCD_ENTRY_ */
};


typedef struct {
    ngx_etcd_zone_t          *zone;
    ngx_etcd_member_set_t    *set;         /* not used once the copy is
                                              complete */
    ngx_log_t                *log;
    ngx_pool_t               *pool;        /* of the entries */

    ngx_str_t                 name;
    ngx_str_t                 prefix;

    /* of a set that may be removed meanwhile, for a prefix with variables */

    uint32_t                  id;          /* of the set; 0: it stays */
    uint64_t                  since;       /* in place of the set's revision */
    ngx_str_t                 pattern;     /* the prefix with variables */

    ngx_uint_t                stream;
    uint32_t                  params;
    uint64_t                  revision;    /* 0: list the set again */
    uint64_t                  held_until;
    ngx_atomic_uint_t         generation;
    ngx_uint_t                commits;

    ngx_etcd_copy_t          *entries;
    ngx_etcd_entry_walk_t     walk;
    ngx_uint_t                ncopied;     /* slots and entries */
    ngx_uint_t                piece;
} ngx_etcd_snapshot_t;


/*
 * name and prefix must outlive the snapshot.
 */
void ngx_etcd_snapshot_init(ngx_etcd_snapshot_t *snapshot,
    ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set, ngx_str_t *name,
    ngx_str_t *prefix, ngx_log_t *log);

/*
 * Copies the next piece, or restarts if the set has changed:
 *
 *     NGX_OK        the snapshot is complete; that of a set that was removed
 *                   is empty and has no revision,
 *     NGX_AGAIN     pieces are left: call again,
 *     NGX_BUSY      the mutex was held, or the set is partly committed,
 *     NGX_DECLINED  the process no longer owns the zone,
 *     NGX_ERROR     no memory.
 */
ngx_int_t ngx_etcd_snapshot_step(ngx_etcd_snapshot_t *snapshot);

void ngx_etcd_snapshot_destroy(ngx_etcd_snapshot_t *snapshot);


#endif /* _NGX_ETCD_SNAPSHOT_H_INCLUDED_ */
