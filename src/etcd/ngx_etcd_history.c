
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_history.h>
#include <ngx_etcd_subchannel.h>


static void
ngx_etcd_history_tell(ngx_event_t *ev)
{
    ngx_queue_t                  *q, *next;
    ngx_etcd_cluster_t           *cluster;
    ngx_etcd_history_listener_t  *listener;

    cluster = ev->data;

    for (q = ngx_queue_head(&cluster->history.listeners);
         q != ngx_queue_sentinel(&cluster->history.listeners);
         q = next)
    {
        next = ngx_queue_next(q);
        listener = ngx_queue_data(q, ngx_etcd_history_listener_t, queue);

        listener->changed(listener->data);
    }

    cluster->history.foreign = 0;
}


void
ngx_etcd_history_init(ngx_etcd_cluster_t *cluster)
{
    ngx_queue_init(&cluster->history.listeners);

    ngx_etcd_event_init(&cluster->history.tell, ngx_etcd_history_tell, cluster,
                        cluster->log);
}


void
ngx_etcd_history_listen(ngx_etcd_cluster_t *cluster,
    ngx_etcd_history_listener_t *listener)
{
    ngx_queue_insert_tail(&cluster->history.listeners, &listener->queue);
}


void
ngx_etcd_history_forget(ngx_etcd_history_listener_t *listener)
{
    if (listener->queue.next != NULL) {
        ngx_queue_remove(&listener->queue);
        listener->queue.next = NULL;
    }
}


ngx_etcd_history_mark_t
ngx_etcd_history_mark(ngx_etcd_cluster_t *cluster)
{
    ngx_etcd_history_mark_t  mark;

    mark.revision = ngx_max(cluster->revision, cluster->history.linearized);
    mark.raft_term = cluster->history.raft_term;
    mark.generation = cluster->history.changes;

    return mark;
}


/*
 * The new history may answer a request that was sent before the change was
 * noticed: such an answer is not compared with the mark, which belongs to the
 * former history.
 */

void
ngx_etcd_history_check(ngx_etcd_cluster_t *cluster,
    Etcd__ResponseHeader *header, ngx_etcd_history_mark_t *mark)
{
    ngx_uint_t                   other, back, older, level;
    ngx_etcd_cluster_history_t  *history;

    /* a header without a cluster id is made by a proxy */

    if (header == NULL || header->cluster_id == 0 || header->revision <= 0) {
        return;
    }

    history = &cluster->history;

    other = (cluster->cluster_id != 0
             && header->cluster_id != cluster->cluster_id);

    back = 0;
    older = 0;

    if (mark->generation == history->changes) {
        back = (header->revision < mark->revision);
        older = (header->raft_term != 0
                 && header->raft_term < mark->raft_term);
    }

    if (other || back || older) {
        /* ngx_etcd_cluster_id_check() has warned of another cluster */

        level = other ? NGX_LOG_INFO : NGX_LOG_WARN;

        ngx_log_error(level, cluster->log, 0,
                      "etcd cluster \"%V\": another history: %s (cluster id "
                      "%xL, was %xL; revision %L, was %L; raft term %uL, was "
                      "%uL)", &cluster->conf->name,
                      other ? "another cluster answers"
                            : back ? "the revision went back"
                                   : "the raft term went back",
                      header->cluster_id, cluster->cluster_id,
                      header->revision, mark->revision,
                      header->raft_term, history->raft_term);

        ngx_etcd_history_change(cluster, header);
        return;
    }

    cluster->cluster_id = header->cluster_id;

    history->linearized = ngx_max(history->linearized, header->revision);
    history->raft_term = ngx_max(history->raft_term, header->raft_term);
}


void
ngx_etcd_history_change(ngx_etcd_cluster_t *cluster,
    Etcd__ResponseHeader *header)
{
    cluster->cluster_id = header->cluster_id;
    cluster->revision = header->revision;
    cluster->history.linearized = header->revision;
    cluster->history.raft_term = header->raft_term;
    cluster->history.changes++;
    cluster->history.foreign = 1;

    ngx_post_event(&cluster->history.tell, &ngx_posted_events);
}


struct ngx_etcd_vote_s {
    ngx_etcd_cluster_t          *cluster;
    ngx_etcd_subchannel_t        subchannels[NGX_ETCD_ENDPOINTS_MAX];
    uint64_t                     ids[NGX_ETCD_ENDPOINTS_MAX];
    ngx_queue_t                  undecided;     /* ngx_etcd_waiter_t */
    ngx_event_t                  end;           /* posted, or request_timeout */
    ngx_uint_t                   begun;
};


static ngx_uint_t
ngx_etcd_vote_of(ngx_etcd_vote_t *vote, uint64_t id)
{
    ngx_uint_t  i, n;

    n = 0;

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        n += (vote->ids[i] == id);
    }

    return n;
}


static uint64_t
ngx_etcd_vote_winner(ngx_etcd_vote_t *vote)
{
    uint64_t    winner;
    ngx_uint_t  i, n, most;

    most = 0;
    winner = 0;

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {

        if (vote->ids[i] == 0) {
            continue;
        }

        n = ngx_etcd_vote_of(vote, vote->ids[i]);

        if (n > most) {
            most = n;
            winner = vote->ids[i];
        }
    }

    return winner;
}


/*
 * Ends the vote, soon, if no further answer is needed, or another worker's vote
 * was faster.
 */

static void
ngx_etcd_vote_count(ngx_etcd_vote_t *vote)
{
    ngx_uint_t             i, open;
    ngx_etcd_endpoints_t  *endpoints;

    open = 0;
    endpoints = &vote->cluster->endpoints;

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        open += (vote->ids[i] == 0
                 && vote->subchannels[i].state != NGX_ETCD_SUBCHANNEL_CLOSED);
    }

    if (open == 0
        || ngx_etcd_cluster_id_known(vote->cluster) != 0
        || ngx_etcd_vote_of(vote, ngx_etcd_vote_winner(vote)) * 2
           > ngx_etcd_endpoints_count(endpoints))
    {
        ngx_post_event(&vote->end, &ngx_posted_events);
    }
}


static void
ngx_etcd_vote_ready(ngx_etcd_subchannel_t *subchannel)
{
    ngx_etcd_subchannel_close(subchannel);

    ngx_etcd_vote_count(subchannel->data);
}


static void
ngx_etcd_vote_failed(ngx_etcd_subchannel_t *subchannel, ngx_str_t *reason)
{
    ngx_etcd_vote_t     *vote;
    ngx_etcd_cluster_t  *cluster;

    vote = subchannel->data;
    cluster = vote->cluster;

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": endpoint %V does not vote: %V",
                  &cluster->conf->name, &subchannel->place->endpoint->url,
                  reason);

    ngx_etcd_endpoints_failed(&cluster->endpoints, subchannel->place, 0,
                              reason);

    ngx_etcd_vote_count(vote);
}


static void
ngx_etcd_vote_end(ngx_event_t *ev)
{
    uint64_t             id;
    ngx_uint_t           n, told, level;
    ngx_etcd_vote_t     *vote;
    ngx_etcd_cluster_t  *cluster;

    vote = ev->data;
    cluster = vote->cluster;

    ngx_etcd_event_stop(ev);

    id = ngx_etcd_vote_winner(vote);

    /* another client may have been faster */

    if (ngx_etcd_cluster_id_known(cluster) == 0
        && ngx_etcd_cluster_id_adopt(cluster, id))
    {
        n = ngx_etcd_vote_of(vote, id);
        told = NGX_ETCD_ENDPOINTS_MAX - ngx_etcd_vote_of(vote, 0);
        level = (n == told) ? NGX_LOG_INFO : NGX_LOG_WARN;

        ngx_log_error(level, cluster->log, 0,
                      "etcd cluster \"%V\": cluster id %xL is used: %ui of %ui "
                      "endpoints belong to it, %ui to another one",
                      &cluster->conf->name, id, n,
                      ngx_etcd_endpoints_count(&cluster->endpoints), told - n);
    }

    /* subchannels that are still open go on, to find who belongs elsewhere */

    ngx_etcd_waiter_wake_all(&vote->undecided);
}


static void
ngx_etcd_vote_begin(ngx_etcd_vote_t *vote)
{
    ngx_uint_t         i;
    ngx_etcd_place_t  *place;

    vote->begun = 1;

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        place = &vote->cluster->endpoints.places[i];

        if (place->endpoint != NULL && vote->ids[i] == 0) {
            ngx_etcd_subchannel_open(&vote->subchannels[i], place);
        }
    }

    ngx_add_timer(&vote->end, vote->cluster->conf->request_timeout);
}


static void
ngx_etcd_vote_cast(ngx_etcd_cluster_t *cluster, ngx_etcd_place_t *place,
    uint64_t id, ngx_etcd_waiter_t *waiter)
{
    ngx_etcd_vote_t  *vote;

    vote = cluster->vote;
    vote->ids[place - cluster->endpoints.places] = id;

    ngx_etcd_waiter_wait(waiter, &vote->undecided);

    if (!vote->begun) {
        ngx_etcd_vote_begin(vote);
    }

    ngx_etcd_vote_count(vote);
}


ngx_etcd_vote_t *
ngx_etcd_vote_create(ngx_etcd_cluster_t *cluster)
{
    ngx_uint_t              i;
    ngx_etcd_vote_t        *vote;
    ngx_etcd_subchannel_t  *subchannel;

    vote = ngx_pcalloc(cluster->pool, sizeof(ngx_etcd_vote_t));
    if (vote == NULL) {
        return NULL;
    }

    vote->cluster = cluster;

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        subchannel = &vote->subchannels[i];

        subchannel->cluster = cluster;
        subchannel->data = vote;
        subchannel->ready = ngx_etcd_vote_ready;
        subchannel->draining = ngx_etcd_vote_ready;
        subchannel->failed = ngx_etcd_vote_failed;
    }

    ngx_queue_init(&vote->undecided);

    ngx_etcd_event_init_timer(&vote->end, ngx_etcd_vote_end, vote,
                              cluster->log);

    cluster->undecided = ngx_etcd_vote_cast;

    return vote;
}


void
ngx_etcd_vote_destroy(ngx_etcd_vote_t *vote)
{
    ngx_uint_t  i;

    ngx_etcd_event_stop(&vote->end);

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        ngx_etcd_subchannel_close(&vote->subchannels[i]);
    }

    ngx_etcd_waiter_drop_all(&vote->undecided);
}
