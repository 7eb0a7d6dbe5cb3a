
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The requests that a client sends on a Watch stream of etcd's v3 API, and the
 * status of a canceled watch.  Functions return the results of
 * ngx_etcd_grpc_send().
 */


#ifndef _NGX_ETCD_WATCH_REQUEST_H_INCLUDED_
#define _NGX_ETCD_WATCH_REQUEST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_grpc.h>
#include <ngx_etcd_proto.pb-c.h>


/*
 * The keys of a watch: all keys below a prefix, or one key.
 */

typedef struct {
    /* set by the owner */

    ngx_str_t                    prefix;       /* without the namespace, not
                                                  empty; its bytes must stay */
    ngx_uint_t                   exact;        /* the prefix is the one key */

    /* set by ngx_etcd_watch_range_init() */

    ngx_str_t                    key;          /* with the namespace */
    ngx_str_t                    range_end;
} ngx_etcd_watch_range_t;


/* Allocates from the pool.  NGX_ERROR: no memory. */
ngx_int_t ngx_etcd_watch_range_init(ngx_etcd_watch_range_t *range,
    ngx_pool_t *pool, ngx_str_t *key_namespace);

/* Returns 1 if the key, with the namespace, is in the range. */
ngx_uint_t ngx_etcd_watch_range_contains(ngx_etcd_watch_range_t *range,
    ProtobufCBinaryData *key);

/* Removes the namespace from a key of the range. */
void ngx_etcd_watch_range_strip(ngx_etcd_watch_range_t *range,
    ProtobufCBinaryData *key);


/*
 * Creates a watch of [key, range_end), with fragments and progress
 * notifications.  A revision of 0 means from now on.
 */
ngx_int_t ngx_etcd_watch_request_create(ngx_etcd_grpc_call_t *call,
    ngx_str_t *key, ngx_str_t *range_end, int64_t revision);

/* Ends the watch of that id. */
ngx_int_t ngx_etcd_watch_request_cancel(ngx_etcd_grpc_call_t *call,
    int64_t id);

/*
 * Requests a progress notification.  Up to etcd 3.4.24 and 3.5.7 its revision
 * may be ahead of events that are still to come: the answer only shows that the
 * endpoint is alive.
 */
ngx_int_t ngx_etcd_watch_request_progress(ngx_etcd_grpc_call_t *call);

/*
 * Returns the status of a canceled watch.  etcd sends the reason as text only,
 * which may contain a status as Go prints it.
 */
ngx_etcd_grpc_status_e ngx_etcd_watch_request_status(ngx_str_t *reason);


#endif /* _NGX_ETCD_WATCH_REQUEST_H_INCLUDED_ */
