
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
#include <ngx_etcd_tier.h>


/* how a table of leaders differs from one of members; zeroed: it does not */

typedef struct {
    ngx_msec_t                   max_stale;        /* no peer without a proof
                                                      that young; 0: always */
    unsigned                     leader:1;         /* none when the set is
                                                      gone */
    unsigned                     sole:1;           /* it may fail, though there
                                                      is no other */
    unsigned                     close:1;          /* tenants are told */
    unsigned                     failsafe:1;       /* one without a proof is
                                                      used on while it is
                                                      confirmed */
} ngx_etcd_table_conf_t;


typedef struct {
    ngx_etcd_zone_t             *zone;
    ngx_etcd_set_t              *set;
    ngx_etcd_table_conf_t       *conf;
    uint32_t                     set_id;
    ngx_etcd_set_reader_t        reader;
    ngx_uint_t                   unfinished;       /* the last sync was */
    ngx_log_t                   *log;

    ngx_etcd_peer_t            **slots;            /* by slot; or NULL */
    ngx_uint_t                   nslots;
    ngx_uint_t                   nmembers;
    ngx_uint_t                   priority;         /* of primary: the lowest
                                                      of peers that may be
                                                      picked */
    ngx_uint_t                   unranked;         /* slots, the first ones,
                                                      where that is not so
                                                      yet */

    ngx_etcd_tier_t              primary;
    ngx_etcd_tier_t              backup;

    ngx_queue_t                  left;             /* tenants to be told */
    ngx_event_t                  tell;             /* posted */

    ngx_queue_t                  held;             /* ngx_etcd_hold_t: until
                                                      there is a peer */
    ngx_uint_t                   nheld;
    ngx_event_t                  wake;             /* posted: there is one */
} ngx_etcd_table_t;


/* reads all of the set, however long that takes: a process starts by it */
ngx_int_t ngx_etcd_table_init(ngx_etcd_table_t *table,
    ngx_etcd_table_conf_t *conf, ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    const ngx_etcd_method_t *method, ngx_log_t *log);
void ngx_etcd_table_done(ngx_etcd_table_t *table);

/*
 * Follows the set.  Costs some comparisons if nothing changed.
 *
 *     NGX_OK     the table is what the set is,
 *     NGX_AGAIN  the time is over: the next call goes on,
 *     NGX_BUSY   nothing can be done now: the mutex was held, a change is half
 *                done, or there was no memory.  The caller waits before it
 *                calls again.
 *
 * It takes no longer than NGX_ETCD_STALL_BUDGET and one step.  Up to as many
 * changes as the set remembers (NGX_ETCD_SET_RING) become visible at once;
 * where a worker missed more than that, or points of a hash ring or members of
 * other priorities are to be moved, that happens piece by piece, and the
 * revision is that of before until the set was read.
 */
ngx_int_t ngx_etcd_table_sync(ngx_etcd_table_t *table);

/*
 * The same, for which it takes at least one step and goes on until a time of
 * ngx_etcd_stall_now(); 0: to the end.
 */
ngx_int_t ngx_etcd_table_work(ngx_etcd_table_t *table, uint64_t until);

#define ngx_etcd_table_stale(table)                                           \
    ((table)->reader.generation != (table)->set->generation)

/* not used while others can be: so it says, or others have a lower priority */
#define ngx_etcd_table_backup(table, attr)                                    \
    ((attr)->backup || (attr)->priority > (table)->priority)

/* a leader's, whose set is gone: that is no change of the set */

#define ngx_etcd_table_orphaned(table)                                        \
    ((table)->conf->leader && (table)->set_id != (table)->set->id)


/*
 * On the way of a request: leaves what takes long to the next sync, and all of
 * it where the mutex is held.
 */

static ngx_inline void
ngx_etcd_table_follow(ngx_etcd_table_t *table)
{
    if (ngx_etcd_table_orphaned(table)
        || (ngx_etcd_table_stale(table) && !table->unfinished))
    {
        (void) ngx_etcd_table_sync(table);
    }
}


/* 1 if too long ago it was proved what the table says: nobody leads then */
ngx_uint_t ngx_etcd_table_expired(ngx_etcd_table_t *table);

/* 1 if a leader is used although that was too long ago: it is confirmed */
ngx_uint_t ngx_etcd_table_failsafe(ngx_etcd_table_t *table);

/*
 * From time to time, for what becomes of leaders without a change: who uses a
 * peer of an expired table is told, and those who are held for one that is
 * usable again go on.
 */
void ngx_etcd_table_tick(ngx_etcd_table_t *table);

/*
 * 1 if there is a peer that may be picked.  What fails is one of them, and so
 * is what has as many connections as it may: it is etcd that decides, and
 * what it said is what somebody is woken by.  A sole leader that fails, or one
 * without a proof, is none; it may be one again when nothing was said.
 */
ngx_uint_t ngx_etcd_table_usable(ngx_etcd_table_t *table);

/*
 * A peer that etcd offers, whether it fails or not: in a table of a sole leader
 * the leader.  NULL: there is none, or the data was not proved for max_stale.
 */
ngx_etcd_peer_t *ngx_etcd_table_first(ngx_etcd_table_t *table);

/* the member as it is now, by any object of it; NULL: it is gone */

#define ngx_etcd_table_current(table, peer)                                   \
    ((peer)->gone ? ngx_etcd_table_successor(table, peer) : (peer))

/* of an object that is gone from the table */
ngx_etcd_peer_t *ngx_etcd_table_successor(ngx_etcd_table_t *table,
    ngx_etcd_peer_t *peer);


#endif /* _NGX_ETCD_TABLE_H_INCLUDED_ */
