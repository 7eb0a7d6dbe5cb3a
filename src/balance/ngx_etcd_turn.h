
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Whose turn it is: a smooth, weighted rotation, optionally among those with
 * the fewest connections for their weight.
 *
 * Those of one weight are a group and take turns in it as a queue does.
 * Groups, weighted by the sum of theirs, share the turns by "earliest eligible
 * virtual deadline first": virtual time passes by 1/(sum of all weights) with
 * every turn; a group may have its next turn from the virtual time at which
 * its share comes to it, and has to by the time of the one after.
 *
 * Promised, while nobody comes, goes, or is weighed anew: after any number of
 * turns each has had its share of them but for less than one turn (and 1/1000
 * for rounding, which does not add up).  With equal weights this is a plain
 * rotation.
 *
 * Changes take O(log of the number of different weights) steps and start
 * nothing anew.  Who comes is the last of its group, which is owed as much
 * after as before: nobody gets a burst.  What somebody who leaves was owed, or
 * had too early, is its group's, or, if it was alone, everybody's.
 *
 * With connections: the turn is one of those with the fewest connections for
 * their weight, by what was said of them last; equals take turns as above.
 * What they did not get while others had fewer is not made up for.
 */


#ifndef _NGX_ETCD_TURN_H_INCLUDED_
#define _NGX_ETCD_TURN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_treap.h>


typedef struct ngx_etcd_group_s   ngx_etcd_group_t;
typedef struct ngx_etcd_bucket_s  ngx_etcd_bucket_t;


/* those of one weight with one number of connections, next turn first */

struct ngx_etcd_bucket_s {
    ngx_queue_t                  queue;         /* of its group, or spare */
    ngx_queue_t                  links;
    ngx_etcd_group_t            *group;
    uint32_t                     conns;
};


/* part of what takes turns; zeroed before that */

typedef struct {
    ngx_queue_t                  queue;
    ngx_etcd_bucket_t           *bucket;
} ngx_etcd_turn_link_t;


typedef struct {
    ngx_etcd_treap_t             groups;        /* by load and start */
    ngx_etcd_treap_t             weights;       /* the same, by weight */
    uint64_t                     time;          /* virtual */
    uint64_t                     rest;          /* of its last step */
    uint64_t                     weight;        /* of all */

    ngx_queue_t                  spare_groups;
    ngx_queue_t                  spare_buckets;
    ngx_log_t                   *log;
} ngx_etcd_turn_t;


#define ngx_etcd_turn_taken_by(link)  ((link)->bucket != NULL)

void ngx_etcd_turn_init(ngx_etcd_turn_t *turn, ngx_log_t *log);
void ngx_etcd_turn_done(ngx_etcd_turn_t *turn);

/* memory for one that comes, or whose connections change: OK or ERROR */
ngx_int_t ngx_etcd_turn_reserve(ngx_etcd_turn_t *turn);

/*
 * From now on it takes turns, in proportion to the weight (which is not 0).
 * NGX_ERROR: no memory, and nothing was reserved.
 */
ngx_int_t ngx_etcd_turn_add(ngx_etcd_turn_t *turn, ngx_etcd_turn_link_t *link,
    uint32_t weight, uint32_t conns);
void ngx_etcd_turn_remove(ngx_etcd_turn_t *turn, ngx_etcd_turn_link_t *link);

/* another weight, for the next turns: NGX_OK, or NGX_ERROR: it is as it was */
ngx_int_t ngx_etcd_turn_reweigh(ngx_etcd_turn_t *turn,
    ngx_etcd_turn_link_t *link, uint32_t weight);

/* another in the place of one, of the same weight */
void ngx_etcd_turn_replace(ngx_etcd_turn_link_t *link,
    ngx_etcd_turn_link_t *old);

/* whose turn it is; NULL: there is nobody */
ngx_etcd_turn_link_t *ngx_etcd_turn_next(ngx_etcd_turn_t *turn);

/* it has had its turn */
void ngx_etcd_turn_take(ngx_etcd_turn_t *turn, ngx_etcd_turn_link_t *link);

/* its connections; without memory it goes on with those it was said to have */
void ngx_etcd_turn_load(ngx_etcd_turn_t *turn, ngx_etcd_turn_link_t *link,
    uint32_t conns);
#define ngx_etcd_turn_conns(link)  ((link)->bucket->conns)


#endif /* _NGX_ETCD_TURN_H_INCLUDED_ */
