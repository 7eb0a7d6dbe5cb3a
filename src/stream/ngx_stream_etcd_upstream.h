
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The balancer of upstreams in stream.
 */


#ifndef _NGX_STREAM_ETCD_UPSTREAM_H_INCLUDED_
#define _NGX_STREAM_ETCD_UPSTREAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd.h>


/*
 * The connection that is reserved for a session while it is handed over to its
 * content handler: there is one such session at a time.
 */

/*
 * Reserves a connection, in place of another session's: NGX_OK, or the error
 * of ngx_etcd_pick_early().
 */
ngx_int_t ngx_stream_etcd_reserve(ngx_stream_session_t *s,
    ngx_etcd_peer_data_t *pd);

/* Gives back what was not taken, if anything; the session may be gone. */
void ngx_stream_etcd_reserve_release(void);

/* Called before the session ends: its peer data give back what they have. */
void ngx_stream_etcd_reserve_forget(ngx_stream_session_t *s);


/* handler of etcd_members and etcd_leader */
char *ngx_stream_etcd_upstream_members(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_stream_etcd_upstream_balance(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_stream_etcd_upstream_checks(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * Makes peer data for a session, which picks from the table for the upstream.
 * NULL: no memory.
 */
ngx_etcd_peer_data_t *ngx_stream_etcd_upstream_prepare(ngx_stream_session_t *s,
    ngx_stream_upstream_srv_conf_t *us, ngx_etcd_table_t *table,
    ngx_peer_connection_t *pc);

/* Ends a session that is being proxied, in any state, at once. */
void ngx_stream_etcd_upstream_cut(ngx_stream_session_t *s);

/* NULL: the session does not use an upstream of this module */

#define ngx_stream_etcd_upstream_peer_data(s)                                 \
    ((ngx_etcd_peer_data_t *)                                                 \
     ngx_stream_get_module_ctx(s, ngx_stream_etcd_module))


#endif /* _NGX_STREAM_ETCD_UPSTREAM_H_INCLUDED_ */
