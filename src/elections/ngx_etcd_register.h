
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A key that exists while this instance does: it is put with a session's lease,
 * and put again when the lease was lost or the key deleted.  If another client
 * overwrites the key, the key is left alone until it is deleted.
 */


#ifndef _NGX_ETCD_REGISTER_H_INCLUDED_
#define _NGX_ETCD_REGISTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_kv.h>
#include <ngx_etcd_mirror.h>
#include <ngx_etcd_session.h>


/* ms until a deleted key is put again */

#define NGX_ETCD_REGISTER_PAUSE  1000     /* ms */


typedef struct ngx_etcd_register_s  ngx_etcd_register_t;

struct ngx_etcd_register_s {
    /* set by the caller, the rest zeroed; bytes must stay */

    ngx_etcd_watch_stream_t     *stream;
    ngx_etcd_lease_stream_t     *leases;
    ngx_pool_t                  *pool;
    ngx_str_t                    name;         /* for logs */
    ngx_str_t                    key;
    ngx_str_t                    value;
    time_t                       ttl;          /* seconds */

    /* "hold" may have changed; see ngx_etcd_election_t */
    ngx_int_t                  (*changed)(ngx_etcd_register_t *reg);
    void                        *data;

    ngx_etcd_lease_state_t       hold;         /* created: revision of the last
                                                  put with that lease */

    /* private */

    ngx_etcd_session_t           session;
    ngx_etcd_mirror_t            mirror;       /* of the key */
    ngx_etcd_txn_t               txn;
    ngx_event_t                  timer;
    ngx_uint_t                   failures;
    ngx_etcd_causes_t            causes;       /* of those */
    ngx_uint_t                   history;      /* changes of the history at the
                                                  last put or list */
    unsigned                     writing:1;
    unsigned                     taken:1;      /* was logged */
};


/*
 * Registers from now on.  If hold.lease is not 0, continues with that lease.
 * The watch stream must be destroyed before the registration is closed.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_register_start(ngx_etcd_register_t *reg);

/* Deletes the key with its lease; see ngx_etcd_session_end(). */
void ngx_etcd_register_end(ngx_etcd_register_t *reg,
    void (*ended)(void *data), void *data);

/* Keeps lease and key in etcd for a process that continues with them. */
void ngx_etcd_register_close(ngx_etcd_register_t *reg);


#endif /* _NGX_ETCD_REGISTER_H_INCLUDED_ */
