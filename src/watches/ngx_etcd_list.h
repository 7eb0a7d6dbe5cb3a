
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A list of all keys in a range (Range of etcd's v3 API, KV), read in pages at
 * one revision.  After a first page, RangeStream brings the rest where etcd has
 * it (ngx_etcd_list_stream.h): each chunk is handled as another page.
 */


#ifndef _NGX_ETCD_LIST_H_INCLUDED_
#define _NGX_ETCD_LIST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_list_stream.h>
#include <ngx_etcd_unary.h>


#define NGX_ETCD_LIST_PAGE   8192       /* keys, reduced after an oversize or
                                           late answer, */
#define NGX_ETCD_LIST_LEAST  512        /* down to this one if nothing came: an
                                           etcd that answers nobody is not
                                           helped by more requests */
#define NGX_ETCD_LIST_PIECE  128        /* keys passed to keys() at a time */
#define NGX_ETCD_LIST_BYTES  65536      /* of these keys and values, or one
                                           key with more */
#define NGX_ETCD_LIST_POOL   16384      /* of a piece that is unpacked */
#define NGX_ETCD_LIST_QUEUE  256        /* chunks that wait: each has a pool */


typedef struct ngx_etcd_list_s   ngx_etcd_list_t;


/*
 * A list of all keys in [key, range_end).  All pages have the same revision:
 * the pinned one, or the one of the first page.  While the keys of a page are
 * passed on, piece by piece, the next page is requested.
 */

typedef struct {
    ngx_queue_t                  queue;
    ngx_pool_t                  *pool;
    size_t                       n;            /* keys */
    ProtobufCBinaryData         *kvs;          /* packed */
    int64_t                      revision;     /* of the header */
    unsigned                     chunk:1;
    unsigned                     more:1;
} ngx_etcd_list_page_t;


/* the pages of a list that came */

typedef struct {
    ngx_etcd_list_page_t         own[2];       /* of Range, and not chunks */
    ngx_etcd_list_page_t        *current;      /* being passed on */
    size_t                       taken;        /* keys of it, passed on */
    ngx_queue_t                  waiting;      /* the next ones */
    ngx_uint_t                   n;            /* of these */
} ngx_etcd_list_pages_t;


struct ngx_etcd_list_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_cluster_t          *cluster;
    ngx_str_t                    key;
    ngx_str_t                    range_end;
    ngx_uint_t                   serializable;
    ngx_uint_t                   keys_only;
    int64_t                      limit;        /* keys of a page; 0:
                                                  _LIST_PAGE */
    int64_t                      pinned;       /* revision; 0: the newest */

    /*
     * A first page came.  Called again if the list starts again, because its
     * revision was compacted: the keys so far are void.  May be NULL.
     */
    void                       (*begin)(ngx_etcd_list_t *list);

    /*
     * Some keys, valid until this returns; NGX_ERROR ends the list.  No keys:
     * all of them came; NGX_AGAIN: call it again in the next cycle, before
     * done().
     */
    ngx_int_t                  (*keys)(ngx_etcd_list_t *list,
                                       Etcd__KeyValue **kvs, size_t n);

    /*
     * Called once.  OK: all pages came, as of the revision.  OUT_OF_RANGE: the
     * pinned revision is compacted.
     */
    void                       (*done)(ngx_etcd_list_t *list,
                                       ngx_etcd_grpc_status_e status,
                                       ngx_str_t *text, int64_t revision);
    void                        *data;

    /* private */

    Etcd__RangeRequest           request;
    ngx_etcd_unary_t             unary;
    ngx_etcd_list_stream_t       stream;
    int64_t                      revision;
    u_char                      *next;        /* first key of the next page */
    ngx_etcd_list_pages_t        pages;
    ngx_uint_t                   connection;  /* has answered the last page */
    ngx_uint_t                   history;     /* the cluster's, of the first
                                                 page */
    ngx_event_t                  work;
    unsigned                     running:1;
    unsigned                     begun:1;
    unsigned                     asking:1;    /* a page, or a stream */
    unsigned                     more:1;      /* after the pages that came */
};


/* Handlers are never called before this returns. */
void ngx_etcd_list_start(ngx_etcd_list_t *list);

/* Returns 1 if the list has keys of a former history (ngx_etcd_history.h). */
#define ngx_etcd_list_outdated(list)                                          \
    ((list)->begun && (list)->history != (list)->cluster->history.changes)

/* No handler is called any more; does nothing if no list is running. */
void ngx_etcd_list_cancel(ngx_etcd_list_t *list);


#endif /* _NGX_ETCD_LIST_H_INCLUDED_ */
