
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_history.h>


static void
ngx_etcd_history_tell(ngx_event_t *ev)
{
    ngx_queue_t                  *q, *next;
    ngx_etcd_cluster_t           *cluster;
    ngx_etcd_history_listener_t  *listener;

    cluster = ev->data;

    for (q = ngx_queue_head(&cluster->listeners);
         q != ngx_queue_sentinel(&cluster->listeners);
         q = next)
    {
        next = ngx_queue_next(q);
        listener = ngx_queue_data(q, ngx_etcd_history_listener_t, queue);

        listener->changed(listener->data);
    }

    cluster->foreign = 0;
}


void
ngx_etcd_history_init(ngx_etcd_cluster_t *cluster)
{
    ngx_queue_init(&cluster->listeners);

    ngx_etcd_event_init(&cluster->tell, ngx_etcd_history_tell, cluster,
                        cluster->log);
}


void
ngx_etcd_history_done(ngx_etcd_cluster_t *cluster)
{
    ngx_etcd_event_stop(&cluster->tell);
}


void
ngx_etcd_history_listen(ngx_etcd_cluster_t *cluster,
    ngx_etcd_history_listener_t *listener)
{
    ngx_queue_insert_tail(&cluster->listeners, &listener->queue);
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

    mark.revision = ngx_max(cluster->revision, cluster->linearized);
    mark.raft_term = cluster->raft_term;
    mark.generation = cluster->history;

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
    ngx_uint_t  other, back, older, level;

    /* a header without a cluster id is made by a proxy */

    if (header == NULL || header->cluster_id == 0 || header->revision <= 0) {
        return;
    }

    other = (cluster->cluster_id != 0
             && header->cluster_id != cluster->cluster_id);

    back = 0;
    older = 0;

    if (mark->generation == cluster->history) {
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
                      header->raft_term, cluster->raft_term);

        ngx_etcd_history_change(cluster, header);
        return;
    }

    cluster->cluster_id = header->cluster_id;
    cluster->linearized = ngx_max(cluster->linearized, header->revision);
    cluster->raft_term = ngx_max(cluster->raft_term, header->raft_term);
}


void
ngx_etcd_history_change(ngx_etcd_cluster_t *cluster,
    Etcd__ResponseHeader *header)
{
    cluster->cluster_id = header->cluster_id;
    cluster->revision = header->revision;
    cluster->linearized = header->revision;
    cluster->raft_term = header->raft_term;
    cluster->history++;
    cluster->foreign = 1;

    ngx_post_event(&cluster->tell, &ngx_posted_events);
}
