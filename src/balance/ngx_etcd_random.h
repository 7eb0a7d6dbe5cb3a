
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The power of two choices (Mitzenmacher 1996): the peer with fewer
 * connections for its weight of two peers, each drawn in proportion to its
 * weight.
 */


#ifndef _NGX_ETCD_RANDOM_H_INCLUDED_
#define _NGX_ETCD_RANDOM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_peer_group.h>


extern const ngx_etcd_method_t  ngx_etcd_random_method;


/*
 * Peak EWMA (from Finagle) with the power of two choices (Mitzenmacher 1996):
 * the peer with the lower expected cost of two, each drawn in proportion to
 * its weight.
 *
 * The cost of a peer is its latency, as measured by this worker, times one
 * plus the number of its connections per weight.  Latency is the time from
 * the choice of the peer
 *
 *     in http, to the header of the response, if nginx tells of the header
 *         (since nginx 1.29.6), otherwise to its end;
 *     in stream, to the first byte of the response, if nginx tells of it (since
 *         nginx 1.31.0), otherwise over TCP to the established connection, over
 *         UDP to the end of the session.
 *
 * A latency above the average replaces the average at once ("peak").  A lower
 * latency is averaged with the known one, whose weight halves every
 * NGX_ETCD_EWMA_HALF ms.  The average also decays without samples, so that a
 * slow peer is tried again.  A peer without samples gets the average of all
 * peers.
 *
 * Latencies vary randomly: the second peer is chosen only if its cost is a
 * quarter lower, and NGX_ETCD_EWMA_MIN is added to all latencies so that
 * differences below a millisecond matter little.
 */

extern const ngx_etcd_method_t  ngx_etcd_ewma_method;


#endif /* _NGX_ETCD_RANDOM_H_INCLUDED_ */
