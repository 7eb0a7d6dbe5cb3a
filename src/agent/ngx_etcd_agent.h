
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Selects the worker that talks to etcd. Every worker has an agent for every
 * cluster; the agent that owns the zone watches etcd. The other agents take
 * over if the owner's process is gone, hangs, or belongs to an older
 * configuration.
 */


#ifndef _NGX_ETCD_AGENT_H_INCLUDED_
#define _NGX_ETCD_AGENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>


#define NGX_ETCD_AGENT_TICK   250      /* ms between heartbeats, and between
                                          checks */
#define NGX_ETCD_AGENT_STALE  1500     /* ms without a heartbeat: the owner
                                          hangs */
#define NGX_ETCD_AGENT_RESIGN 1000     /* ms to wait for etcd on QUIT */
#define NGX_ETCD_AGENT_EXIT   100      /* ms to wait for etcd on TERM */
#define NGX_ETCD_AGENT_SYNC   1        /* ms until a busy zone is read again */
#define NGX_ETCD_AGENT_BUSY   10       /* ms until entering a busy zone is
                                          retried */


typedef struct ngx_etcd_agent_s  ngx_etcd_agent_t;


/*
 * Called in a worker: starts the agents of all clusters and the tables of all
 * services.  Fails if memory or connections are short, never because etcd is
 * unreachable.
 */
ngx_int_t ngx_etcd_agent_start(ngx_cycle_t *cycle, ngx_etcd_main_conf_t *conf);

/* Releases the zones and closes all connections to etcd. */
void ngx_etcd_agent_stop(ngx_cycle_t *cycle);

/* Returns 0 if the cluster needs no agent: nothing is read from it or held. */
ngx_uint_t ngx_etcd_agent_wanted(ngx_etcd_conf_t *conf);


#endif /* _NGX_ETCD_AGENT_H_INCLUDED_ */
