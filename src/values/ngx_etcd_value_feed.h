
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Feeds a value map, while the agent runs, from a mirror of the literal part.
 *
 *     Changes of one revision become visible together.
 *
 *     Values are checked one by one within the time budget, and not again
 *     while a list has the same ones.
 *
 *     An invalid value is reported once, and leaves the last valid one in use.
 *
 *     A key beyond the limit is not used, nor is a key without room in the
 *     zone; keys that are in the map stay.  When a key is removed, and while
 *     the zone is full, the prefix is listed again: there may be room now.
 *
 *     A new agent lists the prefix.  Present values stay in use meanwhile;
 *     at the end of the list, values without a key in it are removed.
 */


#ifndef _NGX_ETCD_VALUE_FEED_H_INCLUDED_
#define _NGX_ETCD_VALUE_FEED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_mirror.h>
#include <ngx_etcd_value_change.h>


typedef struct {
    /* set by the caller, the rest zeroed */

    ngx_etcd_value_map_conf_t   *conf;
    ngx_log_t                   *log;

    /* the zone is up to date; it has another owner */
    void                       (*written)(void *data);
    void                       (*lost)(void *data);
    void                        *data;

    /* private */

    ngx_etcd_mirror_t            mirror;
    ngx_event_t                  work;         /* continues */
    ngx_event_t                  again;        /* lists the prefix again */
    u_char                      *scratch;      /* of checks; NULL: no secrets */
    ngx_etcd_value_change_t    **changes;      /* not in the zone yet */
    ngx_uint_t                   n;
    ngx_uint_t                   size;         /* of the array */
    ngx_uint_t                   ready;        /* of complete revisions */
    ngx_uint_t                   checked;      /* values */
    ngx_uint_t                   next;
    int64_t                      revision;     /* the last complete one */
    ngx_uint_t                   chain;        /* to be swept */

    unsigned                     sweep:1;
    unsigned                     failed:1;     /* no memory for a change */
    unsigned                     full:1;       /* the zone */
    unsigned                     room:1;       /* a key was removed */
    unsigned                     reported:1;   /* unused keys were logged */
} ngx_etcd_value_feed_t;


/* NGX_ERROR: no memory. */
ngx_int_t ngx_etcd_value_feed_start(ngx_etcd_value_feed_t *feed,
    ngx_etcd_watch_stream_t *stream, ngx_pool_t *pool);

/* Must be called after the watch stream was destroyed. */
void ngx_etcd_value_feed_stop(ngx_etcd_value_feed_t *feed);



#endif /* _NGX_ETCD_VALUE_FEED_H_INCLUDED_ */
