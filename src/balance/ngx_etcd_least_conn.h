
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The peer with the fewest connections, over all workers, for its weight;
 * weighted rotation among equals.
 *
 * A worker knows the exact number of connections of a peer right after it has
 * picked the peer, finished with the peer, or read the shared counter.
 * Before a pick, the worker reads the counter of the candidate and goes on to
 * the next candidate if the number has grown: no peer is picked for an
 * outdated low number (unless other workers have picked 256 of the next
 * candidates in the meantime).  In addition, each pick reads the counters of
 * NGX_ETCD_LEAST_CONN_LOOKS other peers in turn.
 *
 * With up to that many peers the result is therefore exact.  With n peers, a
 * peer whose connections other workers have closed may be passed over for up
 * to n / NGX_ETCD_LEAST_CONN_LOOKS picks of this worker.
 */


#ifndef _NGX_ETCD_LEAST_CONN_H_INCLUDED_
#define _NGX_ETCD_LEAST_CONN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_method.h>


extern const ngx_etcd_method_t  ngx_etcd_least_conn_method;


#endif /* _NGX_ETCD_LEAST_CONN_H_INCLUDED_ */
