
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A list of all keys in a range, read in pages at one revision (KV of etcd's
 * v3 API).
 */


#ifndef _NGX_ETCD_LIST_H_INCLUDED_
#define _NGX_ETCD_LIST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_range.h>


#define NGX_ETCD_LIST_PAGE   8192       /* keys; fewer where that is too much */
#define NGX_ETCD_LIST_PIECE  128        /* that are handed on at a time */


typedef struct ngx_etcd_list_s   ngx_etcd_list_t;


/*
 * A list of all keys in [key, range_end), in pages that are all of one
 * revision: that of the first one, or the one that is asked for.  While a page
 * is handed on, piece by piece, etcd is asked for the next one.
 */

typedef struct {
    Etcd__RangeResponse         *response;     /* NULL: there is none */
    ngx_pool_t                  *pool;
} ngx_etcd_list_page_t;


struct ngx_etcd_list_s {
    /* set by the caller, the rest zeroed */

    ngx_etcd_cluster_t          *cluster;
    ngx_str_t                    key;
    ngx_str_t                    range_end;
    ngx_uint_t                   serializable;
    ngx_uint_t                   keys_only;
    int64_t                      limit;        /* of a page; 0: _LIST_PAGE */
    int64_t                      pinned;       /* revision; 0: the newest */

    /* a first page comes: whatever came before is void (compacted, say) */
    void                       (*begin)(ngx_etcd_list_t *list);

    /* some keys, valid until this returns */
    ngx_int_t                  (*keys)(ngx_etcd_list_t *list,
                                       Etcd__KeyValue **kvs, size_t n);

    /*
     * OK: all pages came, the list is that of the revision.  OUT_OF_RANGE: the
     * pinned one is compacted.
     */
    void                       (*done)(ngx_etcd_list_t *list,
                                       ngx_etcd_grpc_status_e status,
                                       ngx_str_t *text, int64_t revision);
    void                        *data;

    /* private */

    ngx_etcd_range_t             range;
    int64_t                      revision;
    u_char                      *next;        /* first key of the next page */
    ngx_etcd_list_page_t         page;        /* it is handed on */
    ngx_etcd_list_page_t         ahead;       /* came meanwhile */
    size_t                       taken;       /* keys of the page */
    ngx_event_t                  work;
    unsigned                     running:1;
    unsigned                     begun:1;
};

void ngx_etcd_list_start(ngx_etcd_list_t *list);
void ngx_etcd_list_cancel(ngx_etcd_list_t *list);


#endif /* _NGX_ETCD_LIST_H_INCLUDED_ */
