
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A worker's own copy of a set: peers to pick from.  Brought up to date in
 * proportion to what changed; picking takes no lock.
 */


#ifndef _NGX_ETCD_TABLE_H_INCLUDED_
#define _NGX_ETCD_TABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_set.h>
#include <ngx_etcd_member.h>


typedef struct ngx_etcd_peer_s  ngx_etcd_peer_t;


/*
 * A member as this worker knows it.  Constant once made, but for the state of
 * balancing: a change makes another object, so that who holds a reference
 * sees what it picked.
 */

struct ngx_etcd_peer_s {
    ngx_uint_t                   refs;
    ngx_uint_t                   gone;             /* from the table */
    ngx_etcd_slot_t             *slot;             /* shared counters */
    uint32_t                     uid;
    ngx_str_t                    name;
    ngx_str_t                    key;              /* empty: a static server */
    struct sockaddr             *sockaddr;
    socklen_t                    socklen;
    uint64_t                     create_revision;
    uint64_t                     mod_revision;
    ngx_etcd_member_attr_t       attr;

    /* state of balancing, of this worker */

    ngx_uint_t                   pos;              /* in its tier */
    ngx_int_t                    current_weight;
    ngx_int_t                    effective_weight;
#if (NGX_SSL)
    ngx_ssl_session_t           *ssl_session;
#endif
};


/* peers that may be picked, in no particular order */

typedef struct {
    ngx_etcd_peer_t            **peers;
    ngx_uint_t                  *sums;             /* Fenwick tree of weights,
                                                      from 1 */
    ngx_uint_t                   n;
    ngx_uint_t                   allocated;
    ngx_uint_t                   weight;           /* of all */
} ngx_etcd_tier_t;


typedef struct {
    ngx_etcd_zone_t             *zone;
    ngx_etcd_set_t              *set;
    uint32_t                     set_id;
    ngx_atomic_uint_t            generation;
    uint64_t                     revision;         /* complete up to here */
    ngx_log_t                   *log;

    ngx_etcd_peer_t            **slots;            /* by slot; or NULL */
    ngx_uint_t                   nslots;
    ngx_uint_t                   nmembers;

    ngx_etcd_tier_t              primary;
    ngx_etcd_tier_t              backup;
} ngx_etcd_table_t;


ngx_int_t ngx_etcd_table_init(ngx_etcd_table_t *table, ngx_etcd_zone_t *zone,
    ngx_etcd_set_t *set, ngx_log_t *log);
void ngx_etcd_table_done(ngx_etcd_table_t *table);

/*
 * Follows the set: NGX_OK, or NGX_AGAIN when that has to be tried again (the
 * table is then as it was).  Costs one comparison if nothing changed.
 */
ngx_int_t ngx_etcd_table_sync(ngx_etcd_table_t *table);

#define ngx_etcd_table_stale(table)                                           \
    ((table)->generation != (table)->set->generation)

#define ngx_etcd_peer_ref(peer)    ((peer)->refs++)
void ngx_etcd_peer_unref(ngx_etcd_peer_t *peer);

/* the peer at a point of 0 .. tier->weight - 1: in proportion to weight */
ngx_etcd_peer_t *ngx_etcd_tier_at(ngx_etcd_tier_t *tier, ngx_uint_t point);


#endif /* _NGX_ETCD_TABLE_H_INCLUDED_ */
