
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


/* asks how far the endpoint is: the answer sets watcher->reached */
ngx_int_t ngx_etcd_watcher_progress(ngx_etcd_watcher_t *watcher);

/* gives the endpoint up, for that reason: the stream goes to another one */
void ngx_etcd_watcher_leave(ngx_etcd_watcher_t *watcher, ngx_str_t *reason);

/*
 * What was received is of another watch: answers to creates did not come in
 * their order, as those of a proxy may.  All watches begin again; the stream
 * is the caller's to end.
 */
void ngx_etcd_watcher_mixed(ngx_etcd_watcher_t *watcher);

/* a linearizable list says which revision the cluster is at */
void ngx_etcd_watcher_listed(ngx_etcd_watcher_t *watcher, int64_t revision);


/* a watch is refused for the stream's token: there will be another stream */
void ngx_etcd_watcher_unauthenticated(ngx_etcd_watcher_t *watcher,
    ngx_str_t *text);


/*
 * The status that etcd's reason for a canceled watch stands for: etcd sends it
 * as text alone, in which it may be printed as Go does it.
 */
ngx_etcd_grpc_status_e ngx_etcd_watcher_status(ngx_str_t *reason);


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

/* a list of one piece, of any state; the caller ends it */
ngx_int_t ngx_etcd_watch_take(ngx_etcd_watch_t *watch, Etcd__KeyValue **kvs,
    size_t n);

/* etcd does not serve it; it is tried again later */
void ngx_etcd_watch_refused(ngx_etcd_watch_t *watch,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);

/* takes it off the stream, in whatever state; etcd may still send for it */
void ngx_etcd_watch_detach(ngx_etcd_watch_t *watch);

/* on no stream: it goes on from its revision, or has to list */
void ngx_etcd_watch_rest(ngx_etcd_watch_t *watch);


/* ngx_etcd_fragment.c */

/* a response with events; results as of ngx_etcd_grpc_message_pt */
ngx_int_t ngx_etcd_watch_arrived(ngx_etcd_watch_t *watch,
    Etcd__WatchResponse *response, ngx_pool_t *pool);

/* what was kept is delivered in turns, as soon as it is complete */
void ngx_etcd_watch_assembled(ngx_etcd_watch_t *watch);

/* nothing happened up to this revision but what was delivered */
void ngx_etcd_watch_progress(ngx_etcd_watch_t *watch, int64_t revision);

void ngx_etcd_watch_drop_fragments(ngx_etcd_watch_t *watch);


/* ngx_etcd_catch_up.c */

/* the watch holds up proofs, or does not any more */
void ngx_etcd_watch_behind(ngx_etcd_watch_t *watch, ngx_uint_t behind);

/* it is in force, from its revision on, by the answer with this header */
void ngx_etcd_watch_catch_up(ngx_etcd_watch_t *watch,
    Etcd__ResponseHeader *header);

/* it has come to another revision */
void ngx_etcd_watch_reached(ngx_etcd_watch_t *watch);

/* its timer, while it is in force */
void ngx_etcd_watch_turn(ngx_etcd_watch_t *watch);


#endif /* _NGX_ETCD_WATCHER_H_INCLUDED_ */
