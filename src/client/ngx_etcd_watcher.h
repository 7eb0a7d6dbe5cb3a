
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The stream that carries watches, and what it and a watch ask of each other:
 * private to the two.
 */


#ifndef _NGX_ETCD_WATCHER_H_INCLUDED_
#define _NGX_ETCD_WATCHER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_watch.h>


/* does what can be done now: lists, the stream, creates */
void ngx_etcd_watcher_advance(ngx_etcd_watcher_t *watcher);

/* tells etcd that nobody waits for the events of that id */
void ngx_etcd_watcher_cancel(ngx_etcd_watcher_t *watcher, int64_t id);


/* a watch is refused for the stream's token: there will be another stream */
void ngx_etcd_watcher_unauthenticated(ngx_etcd_watcher_t *watcher,
    ngx_str_t *text);


/* the next answer to a create that was sent must come in time from now on */
void ngx_etcd_watcher_expect(ngx_etcd_watcher_t *watcher);


/* the watch's turn to list, and to be created on the open stream */
void ngx_etcd_watch_list(ngx_etcd_watch_t *watch);
void ngx_etcd_watch_create(ngx_etcd_watch_t *watch);

/* the answer to the create that was sent first among the unanswered */
void ngx_etcd_watch_created(ngx_etcd_watcher_t *watcher,
    Etcd__WatchResponse *response);

/* any answer for an active watch; results as of ngx_etcd_grpc_message_pt */
ngx_int_t ngx_etcd_watch_response(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response, ngx_pool_t *pool);

/* takes it off the stream, in whatever state; etcd may still send for it */
void ngx_etcd_watch_detach(ngx_etcd_watch_t *watch);

/* on no stream: it goes on from its revision, or has to list */
void ngx_etcd_watch_rest(ngx_etcd_watch_t *watch);

void ngx_etcd_watch_drop_fragments(ngx_etcd_watch_t *watch);


#endif /* _NGX_ETCD_WATCHER_H_INCLUDED_ */
