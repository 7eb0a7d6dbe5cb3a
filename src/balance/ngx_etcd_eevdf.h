
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A smooth weighted rotation, optionally restricted to the peers with the
 * fewest connections for their weight: EEVDF, "earliest eligible virtual
 * deadline first" (Stoica, Abdel-Wahab 1995).
 *
 * Peers of equal weight form a group, which is a FIFO queue.  The groups,
 * weighted by the sum of their peers' weights, share the turns by EEVDF:
 * virtual time advances by 1/(sum of all weights) per turn; a group is
 * eligible when virtual time has reached its start, and its deadline is the
 * start plus one turn of its share.  The eligible group with the earliest
 * deadline is next.
 *
 * As long as peers and weights do not change, the number of turns of each
 * peer differs from its share by less than one turn at any time (plus 1/1000
 * for rounding, which does not accumulate).  With equal weights this is a
 * plain rotation.
 *
 * A change takes O(log n) steps for n different weights and does not restart
 * the rotation.  A new peer is the last one of its group, and the lag of the
 * group (turns due minus turns had) is unchanged: no peer gets a burst.  The
 * lag of a removed peer stays with its group; if the group becomes empty, its
 * lag is shared by all groups.
 *
 * With connections: the turn goes to a peer with the fewest connections for
 * its weight, by the last numbers reported; equals rotate as above.  Turns
 * that a peer missed because others had fewer connections are not made up
 * for.
 */


#ifndef _NGX_ETCD_EEVDF_H_INCLUDED_
#define _NGX_ETCD_EEVDF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_treap.h>


typedef struct ngx_etcd_eevdf_group_s  ngx_etcd_eevdf_group_t;
typedef struct ngx_etcd_eevdf_bucket_s  ngx_etcd_eevdf_bucket_t;


/* links of one weight with the same number of connections, in FIFO order */

struct ngx_etcd_eevdf_bucket_s {
    ngx_queue_t                  queue;         /* in its group, or spare */
    ngx_queue_t                  links;
    ngx_etcd_eevdf_group_t      *group;
    uint32_t                     conns;
};


/* Embedded in an object that takes turns; zeroed before it is added. */

typedef struct {
    ngx_queue_t                  queue;
    ngx_etcd_eevdf_bucket_t     *bucket;
} ngx_etcd_eevdf_link_t;


typedef struct {
    ngx_etcd_treap_t             groups;        /* ordered by load and start */
    ngx_etcd_treap_t             weights;       /* the same groups, by
                                                   weight */
    uint64_t                     time;          /* virtual time */
    uint64_t                     rest;          /* rounding remainder of
                                                   time */
    uint64_t                     weight;        /* total */

    ngx_queue_t                  spare_groups;
    ngx_queue_t                  spare_buckets;
    ngx_log_t                   *log;
} ngx_etcd_eevdf_t;


#define ngx_etcd_eevdf_taken_by(link)  ((link)->bucket != NULL)

void ngx_etcd_eevdf_init(ngx_etcd_eevdf_t *eevdf, ngx_log_t *log);
void ngx_etcd_eevdf_done(ngx_etcd_eevdf_t *eevdf);

/*
 * Allocates memory for adding a link or changing its connections: NGX_OK or
 * NGX_ERROR.
 */
ngx_int_t ngx_etcd_eevdf_reserve(ngx_etcd_eevdf_t *eevdf);

/*
 * Adds a link with a weight, not 0.  NGX_ERROR: no memory, unless it was
 * reserved.
 */
ngx_int_t ngx_etcd_eevdf_add(ngx_etcd_eevdf_t *eevdf,
    ngx_etcd_eevdf_link_t *link, uint32_t weight, uint32_t conns);
void ngx_etcd_eevdf_remove(ngx_etcd_eevdf_t *eevdf,
    ngx_etcd_eevdf_link_t *link);

/* Changes the weight.  NGX_ERROR: no memory, nothing has changed. */
ngx_int_t ngx_etcd_eevdf_reweigh(ngx_etcd_eevdf_t *eevdf,
    ngx_etcd_eevdf_link_t *link, uint32_t weight);

/* Replaces "old" by another link with the same weight. */
void ngx_etcd_eevdf_replace(ngx_etcd_eevdf_link_t *link,
    ngx_etcd_eevdf_link_t *old);

/*
 * Returns the next link, without using up its turn; NULL: there are no links.
 */
ngx_etcd_eevdf_link_t *ngx_etcd_eevdf_next(ngx_etcd_eevdf_t *eevdf);

/* Uses up a turn of the link. */
void ngx_etcd_eevdf_take(ngx_etcd_eevdf_t *eevdf, ngx_etcd_eevdf_link_t *link);

/*
 * Uses up a turn of a link that was not the next one.  A link whose weight has
 * had its share is not charged again: links of this weight are at most one
 * turn in arrears.
 */
void ngx_etcd_eevdf_charge(ngx_etcd_eevdf_t *eevdf,
    ngx_etcd_eevdf_link_t *link);

/* Sets the number of connections; without memory the former number stays. */
void ngx_etcd_eevdf_load(ngx_etcd_eevdf_t *eevdf, ngx_etcd_eevdf_link_t *link,
    uint32_t conns);
#define ngx_etcd_eevdf_conns(link)  ((link)->bucket->conns)


#endif /* _NGX_ETCD_EEVDF_H_INCLUDED_ */
