
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A worker's own copy of a set, from which peers are picked without a lock.
 * An update costs time in proportion to the changes.
 */


#ifndef _NGX_ETCD_TABLE_H_INCLUDED_
#define _NGX_ETCD_TABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_closing.h>
#include <ngx_etcd_health.h>
#include <ngx_etcd_member_set.h>
#include <ngx_etcd_peer.h>
#include <ngx_etcd_peer_group.h>
#include <ngx_etcd_wait_queue.h>


/*
 * The rules of an upstream's tables.  All zero but for the method: those of
 * "etcd_members" without parameters.
 */

typedef struct ngx_etcd_table_s  ngx_etcd_table_t;

typedef struct {
    const ngx_etcd_method_t     *method;           /* of balancing */
    ngx_etcd_table_t            *next;             /* of the next line of the
                                                      upstream; NULL: none */
    ngx_etcd_table_t            *first;            /* of the first line; NULL:
                                                      this is it */
    ngx_msec_t                   max_stale;        /* ms, maximum age of the
                                                      proof; 0: no limit */
    ngx_etcd_closing_conf_t      closing;          /* with "close" */
    ngx_uint_t                   spill;            /* percent of the preferred
                                                      peers' weight that is
                                                      enough; 0: none is
                                                      preferred */
    ngx_uint_t                   close;            /* notify users of peers */
    ngx_uint_t                   failsafe;         /* without a proof, use a
                                                      confirmed leader */
    ngx_uint_t                   outcomes;         /* of single members, too */
    unsigned                     leader:1;         /* clear if the set is
                                                      removed */
    unsigned                     sole:1;           /* max_fails applies to a
                                                      sole peer */
    unsigned                     sids:1;           /* peers have session ids */
    unsigned                     queue:1;          /* requests wait for
                                                      connections, too */
    unsigned                     uncounted:1;      /* a member has no room for
                                                      outcomes: logged */
} ngx_etcd_table_conf_t;


struct ngx_etcd_table_s {
    ngx_etcd_zone_t             *zone;
    ngx_etcd_member_set_t       *set;
    ngx_etcd_table_conf_t       *conf;
    uint32_t                     set_id;
    ngx_etcd_member_set_reader_t reader;
    ngx_uint_t                   unfinished;       /* the last sync was
                                                      incomplete */
    ngx_log_t                   *log;

    ngx_etcd_peer_t            **slots;            /* by slot, or NULL */
    ngx_uint_t                   nslots;
    ngx_uint_t                   nmembers;
    ngx_uint_t                   priority;         /* of near and primary:
                                                      the lowest of
                                                      all peers that may be
                                                      picked */
    ngx_uint_t                   unranked;         /* slots 0 .. unranked - 1
                                                      are not moved to their
                                                      peer group yet */

    ngx_etcd_peer_group_t        near;             /* preferred; empty without
                                                      conf->spill */
    ngx_etcd_peer_group_t        primary;
    ngx_etcd_peer_group_t        backup;
    uint32_t                     spilled;          /* share of the next request
                                                      that goes to others, in
                                                      NGX_ETCD_NEAR_UNIT */

    ngx_etcd_treap_t             sids;             /* peers by session id */

    ngx_queue_t                  left;             /* users to be notified */
    ngx_event_t                  notify;           /* posted event */
    ngx_etcd_closing_t           closing;          /* users to be notified
                                                      later */

    ngx_etcd_wait_queue_t        wait_queue;       /* requests */
    ngx_etcd_wait_queue_t       *conn_queue;       /* of an
                                                      ngx_etcd_conn_queue_t;
                                                      NULL: none yet */

    ngx_uint_t                   users;            /* requests that have the
                                                      table */
    unsigned                     given_up:1;       /* requests do not wait for
                                                      it any more */
};


/* the table of the upstream's first line, for which requests wait */

#define ngx_etcd_table_head(table)                                            \
    ((table)->conf->first ? (table)->conf->first : (table))

/* the number of requests that wait */

#define ngx_etcd_table_waits(table)                                           \
    ((table)->wait_queue.n                                                    \
     + ((table)->conn_queue ? (table)->conn_queue->n : 0))

/* Called after each change of this number: counts the requests in the zone. */
void ngx_etcd_table_waiting(void *data, ngx_uint_t n);

/*
 * Creates a table, to be read.  "set_id" is the set's id when it was declared:
 * a newer configuration may have removed the set since.
 */
void ngx_etcd_table_init(ngx_etcd_table_t *table, ngx_etcd_table_conf_t *conf,
    ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set, uint32_t set_id,
    ngx_log_t *log);

/*
 * us for which first reads wait for the mutex: one, or those of all tables of
 * a starting worker.  A busy machine may keep the holder from running; a lock
 * of nginx's own would have no limit.
 */
#define NGX_ETCD_TABLE_WAIT  1000000

/*
 * Reads the set for the first time by ngx_etcd_table_work(), whose result is
 * returned; a starting process has no time limit.  Goes on as long as the mutex
 * is held and the time "deadline" of ngx_etcd_time_budget_now() has not come:
 * without members, known ones would not be served.
 */
ngx_int_t ngx_etcd_table_start(ngx_etcd_table_t *table, uint64_t until,
    uint64_t deadline);

void ngx_etcd_table_done(ngx_etcd_table_t *table);

/*
 * Updates the table from the set; cheap if nothing has changed.
 *
 *     NGX_OK     the table is up to date,
 *     NGX_AGAIN  the time is over: call again,
 *     NGX_BUSY   the mutex was held, a commit is incomplete, or there was no
 *                memory: wait before calling again.
 *
 * The update takes at most NGX_ETCD_TIME_BUDGET us and one step.  Up to
 * NGX_ETCD_MEMBER_SET_RING changes, which the set remembers, become visible at
 * once. If the worker has missed more changes, or if points of a hash ring or
 * members of other priorities have to be moved, the update proceeds piece by
 * piece, and the revision changes only when the whole set was read.
 */
ngx_int_t ngx_etcd_table_sync(ngx_etcd_table_t *table);

/*
 * Like ngx_etcd_table_sync(), with at least one step, until a time of
 * ngx_etcd_time_budget_now(); 0: no limit.
 */
ngx_int_t ngx_etcd_table_work(ngx_etcd_table_t *table, uint64_t until);

#define ngx_etcd_table_stale(table)                                           \
    ((table)->reader.generation != (table)->set->generation)

/*
 * 1 if a peer is a backup: by its flag, or because another peer has a lower
 * priority
 */
#define ngx_etcd_table_backup(table, attr)                                    \
    ((attr)->backup || (attr)->priority > (table)->priority)


/* the number of peers that requests may try */
#define ngx_etcd_table_tries(table)                                           \
    (ngx_etcd_peer_group_tries(&(table)->near)                                \
     + ngx_etcd_peer_group_tries(&(table)->primary)                           \
     + ngx_etcd_peer_group_tries(&(table)->backup))


/*
 * 1 if a further line of the upstream has members that requests may try, and
 * that are not in a panic of checks if "calm" is 1
 */
static ngx_inline ngx_uint_t
ngx_etcd_table_spare(ngx_etcd_table_t *table, ngx_uint_t calm)
{
    ngx_etcd_table_t  *line;

    /* while a worker starts, tables of later lines have no "conf" yet */

    for (line = table->conf->next;
         line != NULL && line->conf != NULL;
         line = line->conf->next)
    {
        if (ngx_etcd_table_tries(line) != 0
            && (!calm || !line->set->checks.panic))
        {
            return 1;
        }
    }

    return 0;
}


/*
 * 1 if so many checks fail that they keep no requests off: another line takes
 * these requests, if it can
 */
#define ngx_etcd_table_panic(table)                                           \
    ((table)->set->checks.panic && !ngx_etcd_table_spare(table, 1))

/*
 * The bits (NGX_ETCD_HEALTH_) that count: failures, unless the member is the
 * sole one, as in nginx; and failed checks, unless there is a panic.
 */

#define ngx_etcd_table_counts(table)                                          \
    ((((table)->nmembers > 1 || (table)->conf->sole                           \
       || ngx_etcd_table_spare(table, 0))                                     \
      ? NGX_ETCD_HEALTH_FAILURES : 0)                                         \
     | (ngx_etcd_table_panic(table) ? 0 : NGX_ETCD_HEALTH_CHECKS))


/* 1 if the set of a leader was removed, which is not a change of the set */

#define ngx_etcd_table_orphaned(table)                                        \
    ((table)->conf->leader && (table)->set_id != (table)->set->object.id)


/*
 * Called for a request: starts an update, but leaves a longer one to the next
 * ngx_etcd_table_sync().
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


/*
 * Returns 1 if the last proof is older than max_stale: no peer is used then.
 */
ngx_uint_t ngx_etcd_table_expired(ngx_etcd_table_t *table);

/* Returns the same of a set without a table. */
ngx_uint_t ngx_etcd_table_set_expired(ngx_etcd_table_conf_t *conf,
    ngx_etcd_member_set_t *set);

/*
 * The set is gone for good: requests that wait go on, and users of a leader
 * are notified.
 */
void ngx_etcd_table_give_up(ngx_etcd_table_t *table);

/*
 * Called periodically, for transitions of leaders that are not changes:
 * notifies users of a peer in an expired table, and resumes requests that
 * wait for a peer if one is usable again.
 */
void ngx_etcd_table_tick(ngx_etcd_table_t *table);

/*
 * Returns 1 if no request has to wait for a member: there is one, and so many
 * "more".  It need not be usable now (ngx_etcd_peer_group_usable()): failing
 * peers and peers with max_conns connections count (see ngx_etcd_conn_queue.h
 * for those), peers that need a first check that succeeds do not.
 * A sole leader does not count while it fails or has no proof; it may count
 * again without a change in etcd.
 */
ngx_uint_t ngx_etcd_table_has(ngx_etcd_table_t *table, ngx_uint_t more);

#define ngx_etcd_table_ready(table)  ngx_etcd_table_has(table, 0)

/* Returns 1 if a table has, of this line or of a further one. */
ngx_uint_t ngx_etcd_table_any_has(ngx_etcd_table_t *table, ngx_uint_t more);

/*
 * Returns a peer that etcd offers, failing or not; in a table of a sole
 * leader, the leader.  NULL: there is none, or the last proof is older than
 * max_stale.
 */
ngx_etcd_peer_t *ngx_etcd_table_first(ngx_etcd_table_t *table);


/*
 * Returns the current object of a member, from any object of it; NULL: the
 * member is gone.
 */

static ngx_inline ngx_etcd_peer_t *
ngx_etcd_table_current(ngx_etcd_table_t *table, ngx_etcd_peer_t *peer)
{
    ngx_etcd_peer_t  *current;

    if (!peer->gone) {
        return peer;
    }

    if (peer->index >= table->nslots) {
        return NULL;
    }

    current = table->slots[peer->index];

    /* members of another line, in another zone, may have the same uid */

    return (current != NULL && current->uid == peer->uid
            && current->slot == peer->slot) ? current : NULL;
}


#endif /* _NGX_ETCD_TABLE_H_INCLUDED_ */
