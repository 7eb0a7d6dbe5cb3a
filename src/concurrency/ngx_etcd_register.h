
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A key that is there while its owner is: it is put with a session's lease,
 * and put again when the lease was lost or the key deleted.  One that
 * somebody else puts over it is left to him until it is gone.
 */


#ifndef _NGX_ETCD_REGISTER_H_INCLUDED_
#define _NGX_ETCD_REGISTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_session.h>
#include <ngx_etcd_txn.h>
#include <ngx_etcd_watch.h>


/* before a key that was deleted is put again */

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

    /* the hold may be another one; as of an election's */
    ngx_int_t                  (*changed)(ngx_etcd_register_t *reg);
    void                        *data;

    ngx_etcd_lease_state_t       hold;         /* created: revision of the
                                                  last put with that lease */

    /* private */

    ngx_etcd_session_t           session;
    ngx_etcd_watch_t             watch;
    ngx_etcd_txn_t               txn;
    ngx_event_t                  timer;
    ngx_uint_t                   failures;
    int64_t                      revision;     /* what is seen is as of it */
    ngx_uint_t                   history;      /* the cluster's, of the last
                                                  put or list */
    int64_t                      lease;        /* of the key that is seen; -1:
                                                  there is none */
    unsigned                     equal:1;      /* its value */
    unsigned                     present:1;    /* of the list: it was in it */
    unsigned                     synced:1;
    unsigned                     writing:1;
    unsigned                     taken:1;      /* was logged */
    unsigned                     denied:1;     /* was logged */
};


/*
 * Registers from now on, going on with hold where its lease is not 0.  The
 * watch stream is to be destroyed before the registration is closed.
 */
ngx_int_t ngx_etcd_register_start(ngx_etcd_register_t *reg);

/* takes the key away; as of ngx_etcd_session_end() */
void ngx_etcd_register_end(ngx_etcd_register_t *reg,
    void (*ended)(void *data), void *data);

/* lease and key live on for who goes on with them */
void ngx_etcd_register_close(ngx_etcd_register_t *reg);


#endif /* _NGX_ETCD_REGISTER_H_INCLUDED_ */
