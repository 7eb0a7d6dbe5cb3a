
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A search for unknown keys of a lease.
 *
 * etcd may process a put long after the client has given it up: a stopped
 * member does so when it continues, whether the connection still exists or not.
 * The key then lives as long as its lease.  A key that a watch reports as
 * deleted may exist, too, if the watch has not noticed another history of etcd.
 * So from the first such key on, the keys of the lease are read
 * (LeaseTimeToLive of etcd's v3 API) every NGX_ETCD_SWEEP_INTERVAL ms, until
 * the lease is given up.
 */


#ifndef _NGX_ETCD_SWEEP_H_INCLUDED_
#define _NGX_ETCD_SWEEP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lease_ttl.h>


#define NGX_ETCD_SWEEP_INTERVAL  1000     /* ms */

/* ms after the last put of an unknown outcome, see ngx_etcd_sweep_over() */

#define NGX_ETCD_SWEEP_LONG      10000


typedef struct {
    /* set by the caller, the rest zeroed */

    ngx_etcd_cluster_t          *cluster;

    /*
     * The lease has a key, passed with the namespace, whose number was not
     * added.  The key existed at that revision, and is valid until this
     * returns.  The number may be added in here.
     */
    void                       (*found)(void *data, ngx_str_t *key,
                                        ngx_uint_t number, int64_t revision);

    /* a search has ended; ngx_etcd_sweep_end() may be called in here */
    void                       (*swept)(void *data);
    void                        *data;

    /* private */

    ngx_rbtree_t                 numbers;      /* of known keys */
    ngx_rbtree_node_t            sentinel;
    int64_t                      lease;        /* 0: no search */
    uint64_t                     since;        /* ngx_etcd_clock() of the last
                                                  unknown outcome */
    ngx_event_t                  timer;
    ngx_etcd_lease_ttl_t         lease_ttl;
    unsigned                     answered:1;   /* keys() was called */
} ngx_etcd_sweep_t;


/* No key is known, and no search is running. */
void ngx_etcd_sweep_init(ngx_etcd_sweep_t *sweep);

/* the key LEASE-NUMBER is known from now on; the caller owns the node */
void ngx_etcd_sweep_add(ngx_etcd_sweep_t *sweep, ngx_rbtree_node_t *node,
    ngx_uint_t number);

/* the key is not known any more; does nothing if it was not added */
void ngx_etcd_sweep_remove(ngx_etcd_sweep_t *sweep, ngx_rbtree_node_t *node);

/* the lease may have an unknown key; calls no handler */
void ngx_etcd_sweep_begin(ngx_etcd_sweep_t *sweep, int64_t lease);

/* the lease is lost, or given up: no handler is called any more */
void ngx_etcd_sweep_end(ngx_etcd_sweep_t *sweep);

/*
 * Returns 1 if no key is known, and the last unknown outcome is
 * NGX_ETCD_SWEEP_LONG ms ago: the lease may be replaced, which ends the search.
 */
ngx_uint_t ngx_etcd_sweep_over(ngx_etcd_sweep_t *sweep);


#endif /* _NGX_ETCD_SWEEP_H_INCLUDED_ */
