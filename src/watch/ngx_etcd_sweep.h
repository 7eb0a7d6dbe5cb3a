
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A search for the keys of a lease that nobody knows of.
 *
 * etcd may process a put long after its client gave it up: a member that was
 * stopped does so when it goes on, whether the connection is still there or
 * not.  The key then lives as long as its lease.  So from the first put of
 * an unknown outcome on, etcd is asked for the keys of the lease, by one small
 * read every NGX_ETCD_SWEEP_INTERVAL, until the lease is given up.
 */


#ifndef _NGX_ETCD_SWEEP_H_INCLUDED_
#define _NGX_ETCD_SWEEP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lease_ttl.h>


#define NGX_ETCD_SWEEP_INTERVAL  1000     /* ms */

/* ms after the last put of an unknown outcome */

#define NGX_ETCD_SWEEP_LONG      10000


typedef struct {
    /* set by the caller, the rest zeroed */

    ngx_etcd_cluster_t          *cluster;

    /*
     * A key of the lease, with the namespace, whose number was not added.
     * It existed when the endpoint was at that revision; it is valid until
     * this returns, and the number may be added in here.
     */
    void                       (*found)(void *data, ngx_str_t *key,
                                        ngx_uint_t number, int64_t revision);

    /* one search is over; ngx_etcd_sweep_end() may be called in here */
    void                       (*swept)(void *data);
    void                        *data;

    /* private */

    ngx_rbtree_t                 numbers;      /* of keys that there may be */
    ngx_rbtree_node_t            sentinel;
    int64_t                      lease;        /* 0: nothing is searched for */
    uint64_t                     since;        /* ngx_etcd_clock(): the last
                                                  unknown outcome */
    ngx_event_t                  timer;
    ngx_etcd_lease_ttl_t         lease_ttl;
    unsigned                     answered:1;   /* this question */
} ngx_etcd_sweep_t;


void ngx_etcd_sweep_init(ngx_etcd_sweep_t *sweep);

/* a key LEASE-NUMBER is known from now on; the node is the caller's */
void ngx_etcd_sweep_add(ngx_etcd_sweep_t *sweep, ngx_rbtree_node_t *node,
    ngx_uint_t number);

/* it is not known any more; does nothing where it was not added */
void ngx_etcd_sweep_remove(ngx_etcd_sweep_t *sweep, ngx_rbtree_node_t *node);

/* a put with that lease may be processed late; calls no handler */
void ngx_etcd_sweep_begin(ngx_etcd_sweep_t *sweep, int64_t lease);

/* the lease is gone, or given up: no handler is called any more */
void ngx_etcd_sweep_end(ngx_etcd_sweep_t *sweep);

/*
 * 1: no key is known, and the last unknown outcome is NGX_ETCD_SWEEP_LONG ago:
 * the lease may be replaced, which ends the search.
 */
ngx_uint_t ngx_etcd_sweep_over(ngx_etcd_sweep_t *sweep);


#endif /* _NGX_ETCD_SWEEP_H_INCLUDED_ */
