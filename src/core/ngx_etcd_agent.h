
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Which worker talks to etcd.  Every worker has an agent for every cluster;
 * the one that owns the zone watches, the others stand by and take over when
 * its process is gone, hangs, or belongs to an older configuration.
 */


#ifndef _NGX_ETCD_AGENT_H_INCLUDED_
#define _NGX_ETCD_AGENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_module.h>


#define NGX_ETCD_AGENT_TICK   250      /* ms: a sign of life, or a look */
#define NGX_ETCD_AGENT_STALE  1500     /* ms without one: it hangs */
#define NGX_ETCD_AGENT_RESIGN 1000     /* ms for etcd to answer, on QUIT */
#define NGX_ETCD_AGENT_EXIT   100      /* likewise, on TERM */
#define NGX_ETCD_AGENT_SYNC   1        /* ms until a busy zone is read again */
#define NGX_ETCD_AGENT_BUSY   10       /* ms until a busy zone is entered */


/* of the zone's cluster state, as the status shows it */

typedef enum {
    NGX_ETCD_AGENT_IDLE = 0,           /* nobody has connected yet */
    NGX_ETCD_AGENT_CONNECTING,
    NGX_ETCD_AGENT_CONNECTED,
    NGX_ETCD_AGENT_UNAUTHORIZED        /* connected, but the user is refused */
} ngx_etcd_agent_state_e;


typedef struct ngx_etcd_agent_s  ngx_etcd_agent_t;


/*
 * In a worker: starts the agents of all clusters and the tables of all
 * services.  Fails for lack of memory or connections only, never because
 * etcd is away.
 */
ngx_int_t ngx_etcd_agent_start(ngx_cycle_t *cycle, ngx_etcd_main_conf_t *conf);

/* leaves the zones to other workers, closes all connections to etcd */
void ngx_etcd_agent_stop(ngx_cycle_t *cycle);


#endif /* _NGX_ETCD_AGENT_H_INCLUDED_ */
