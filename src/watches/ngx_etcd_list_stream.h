
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The rest of a list in one call: RangeStream of etcd's v3 API (KV), which etcd
 * has since 3.7.
 *
 * etcd sends the keys in chunks of its own choice, and the header with the last
 * one.  The keys are used before that.  So the call is only made on a
 * connection whose endpoint has just answered a page of the same list: the
 * header of the page was checked, and no endpoint changes its cluster while a
 * connection lasts.
 *
 * The call is never repeated.  Whatever ends it early, the list goes on with
 * pages, and so do other lists on the same connection.  Until the first call
 * on a connection is answered, there is no second one.
 */


#ifndef _NGX_ETCD_LIST_STREAM_H_INCLUDED_
#define _NGX_ETCD_LIST_STREAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_history.h>


/* ms; without any input for so long, the call has failed */

#define NGX_ETCD_LIST_STREAM_SILENCE  500


typedef struct ngx_etcd_list_stream_s  ngx_etcd_list_stream_t;

struct ngx_etcd_list_stream_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_cluster_t          *cluster;

    /*
     * OK: the callee destroys the pool, which has the chunk.  ERROR ends the
     * call; done() follows.
     */
    ngx_int_t                  (*chunk)(ngx_etcd_list_stream_t *stream,
                                        Etcd__NestedRangeResponse *response,
                                        ngx_pool_t *pool);

    /*
     * Called once.  OK: all keys came, and a header.  OUT_OF_RANGE: the
     * revision is compacted.
     */
    void                       (*done)(ngx_etcd_list_stream_t *stream,
                                       ngx_etcd_grpc_status_e status,
                                       ngx_str_t *text);
    void                        *data;

    /* private */

    ngx_etcd_grpc_call_t         call;
    ngx_etcd_history_mark_t      mark;
    ngx_uint_t                   connection;
    int64_t                      revision;
    ngx_event_t                  timer;
    ngx_msec_t                   looked;       /* time of the last timer */
    ngx_msec_t                   progress;     /* time of the last chunk */
    unsigned                     running:1;
    unsigned                     serializable:1;
    unsigned                     held:1;
    unsigned                     complete:1;   /* the header came */
};


/*
 * The request has a revision, no limit, and need not stay.  The connection is
 * the one of the reads channel that has answered a page.  NGX_DECLINED: the
 * list has to be read in pages.  No handler is called before this returns.
 */
ngx_int_t ngx_etcd_list_stream_start(ngx_etcd_list_stream_t *stream,
    Etcd__RangeRequest *request, ngx_uint_t connection);

/*
 * While held, etcd is not asked for more than what is under way.  Does nothing
 * if no call is running.
 */
void ngx_etcd_list_stream_hold(ngx_etcd_list_stream_t *stream,
    ngx_uint_t hold);

/* No handler is called any more; does nothing if no call is running. */
void ngx_etcd_list_stream_cancel(ngx_etcd_list_stream_t *stream);


#endif /* _NGX_ETCD_LIST_STREAM_H_INCLUDED_ */
