
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What a watch has missed, read at once.
 *
 * A watch that goes on from an older revision than the endpoint is at gets
 * what it missed from a loop of etcd's that runs every 100 ms, and what comes
 * later after that.  A watch without a start revision is served immediately,
 * from the revision on that the answer to its create names.  So that is asked
 * for, and what lies before is read, as one list at that revision, from the
 * same endpoint over the same connection; meanwhile events are kept.  Where
 * that is not possible, or would be much, the watch goes on from the older
 * revision.
 */


#ifndef _NGX_ETCD_GAP_H_INCLUDED_
#define _NGX_ETCD_GAP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_stream_range.h>


/* what is read so is small: it goes over the connection of the watches */

#define NGX_ETCD_GAP_KEYS    1000
#define NGX_ETCD_GAP_VOLUME  65000          /* bytes of keys and values */

#define NGX_ETCD_GAP_TIME    500             /* ms */


typedef struct ngx_etcd_watch_s  ngx_etcd_watch_t;


/* a part of a watch, zeroed at first */

typedef struct {
    ngx_etcd_stream_range_t      range;
    int64_t                      revision;   /* its end; 0: nothing is read */
} ngx_etcd_gap_t;


/*
 * A watch that was created, by an answer with this header: from its own
 * revision to the one that it is in force from.
 */
void ngx_etcd_gap_bridge(ngx_etcd_watch_t *watch,
    Etcd__ResponseHeader *header);

void ngx_etcd_gap_cancel(ngx_etcd_gap_t *gap);


#endif /* _NGX_ETCD_GAP_H_INCLUDED_ */
