
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_locker.h>
#include <ngx_etcd_lock_poll.h>
#include <ngx_etcd_mutex.h>
#include <ngx_etcd_clock.h>


static void ngx_etcd_locker_changed(void *data);
static void ngx_etcd_locker_held(ngx_etcd_session_t *session);
static void ngx_etcd_locker_renewed(ngx_etcd_session_t *session);
static void ngx_etcd_locker_lost(ngx_etcd_session_t *session, char *reason);
static void ngx_etcd_locker_found(void *data, ngx_str_t *key,
    ngx_uint_t number, int64_t revision);
static void ngx_etcd_locker_swept(void *data);
static void ngx_etcd_locker_witness(ngx_etcd_session_t *session,
    ngx_str_t *key, int64_t *created);
static void ngx_etcd_locker_missing(ngx_etcd_session_t *session,
    int64_t created);
static ngx_etcd_mutex_t *ngx_etcd_locker_youngest(ngx_etcd_locker_t *locker,
    int64_t created);
static void ngx_etcd_locker_ended(void *data);
static void ngx_etcd_locker_timer(ngx_event_t *ev);


ngx_etcd_locker_t *
ngx_etcd_locker_create(ngx_etcd_cluster_conf_t *conf, time_t ttl,
    ngx_log_t *log)
{
    u_char              *p;
    ngx_etcd_locker_t   *locker;
    ngx_etcd_cluster_t  *cluster;
    ngx_etcd_session_t  *session;

    cluster = ngx_etcd_cluster_create(conf, ngx_etcd_locker_changed, NULL,
                                      log);
    if (cluster == NULL) {
        return NULL;
    }

    locker = ngx_pcalloc(cluster->pool, sizeof(ngx_etcd_locker_t));
    if (locker == NULL) {
        goto failed;
    }

    locker->cluster = cluster;
    cluster->hedges = 1;

    locker->watcher = ngx_etcd_watcher_create(cluster);
    locker->keeper = ngx_etcd_keeper_create(cluster);

    if (locker->watcher == NULL || locker->keeper == NULL) {
        goto failed;
    }

    p = ngx_pnalloc(cluster->pool, sizeof("etcd cluster \"\": lock") - 1
                                   + conf->name.len);
    if (p == NULL) {
        goto failed;
    }

    locker->name.data = p;
    locker->name.len = ngx_sprintf(p, "etcd cluster \"%V\": lock", &conf->name)
                       - p;

    ngx_etcd_batch_init(&locker->batch, cluster);

    ngx_queue_init(&locker->contests);
    ngx_queue_init(&locker->leaving);
    ngx_queue_init(&locker->young);

    locker->sweep.cluster = cluster;
    locker->sweep.found = ngx_etcd_locker_found;
    locker->sweep.swept = ngx_etcd_locker_swept;
    locker->sweep.data = locker;

    ngx_etcd_sweep_init(&locker->sweep);

    locker->timer.handler = ngx_etcd_locker_timer;
    locker->timer.data = locker;
    locker->timer.log = log;
    locker->timer.cancelable = 1;

    ngx_etcd_lock_poll_init(locker);

    session = &locker->session;

    session->keeper = locker->keeper;
    ngx_str_set(&session->name, "locks");
    session->ttl = ttl;
    session->exclusive = 1;
    session->witness = ngx_etcd_locker_witness;
    session->missing = ngx_etcd_locker_missing;
    session->held = ngx_etcd_locker_held;
    session->renewed = ngx_etcd_locker_renewed;
    session->lost = ngx_etcd_locker_lost;
    session->data = locker;

    return locker;

failed:

    ngx_etcd_cluster_destroy(cluster);

    return NULL;
}


void
ngx_etcd_locker_destroy(ngx_etcd_locker_t *locker)
{
    ngx_queue_t         *q;
    ngx_etcd_contest_t  *contest;

    if (locker->timer.timer_set) {
        ngx_del_timer(&locker->timer);
    }

    ngx_etcd_lock_poll_done(locker);
    ngx_etcd_sweep_end(&locker->sweep);
    ngx_etcd_mutex_abandon(locker);

    ngx_etcd_session_close(&locker->session);
    ngx_etcd_batch_done(&locker->batch);
    ngx_etcd_watcher_destroy(locker->watcher);

    for (q = ngx_queue_head(&locker->contests);
         q != ngx_queue_sentinel(&locker->contests);
         q = ngx_queue_next(q))
    {
        contest = ngx_queue_data(q, ngx_etcd_contest_t, queue);
        ngx_etcd_mirror_destroy(&contest->mirror);
    }

    ngx_etcd_keeper_destroy(locker->keeper);
    ngx_etcd_cluster_destroy(locker->cluster);
}


void
ngx_etcd_locker_start(ngx_etcd_locker_t *locker)
{
    switch (locker->session.state) {

    case NGX_ETCD_SESSION_CLOSED:
        ngx_etcd_session_start(&locker->session);
        break;

    case NGX_ETCD_SESSION_ENDING:
        locker->again = 1;
        break;

    default:
        break;
    }
}


void
ngx_etcd_locker_end(ngx_etcd_locker_t *locker, void (*ended)(void *data),
    void *data)
{
    locker->ended = ended;
    locker->data = data;
    locker->again = 0;

    ngx_etcd_sweep_end(&locker->sweep);

    if (locker->session.state == NGX_ETCD_SESSION_ENDING) {
        return;
    }

    /* what is on its way may not be what the revocation finds */

    ngx_etcd_session_end(&locker->session, ngx_etcd_locker_ended, locker);
}


static void
ngx_etcd_locker_ended(void *data)
{
    ngx_etcd_locker_t *locker = data;

    ngx_etcd_mutex_lease_lost(locker);

    if (locker->again) {
        locker->again = 0;
        ngx_etcd_session_start(&locker->session);
        return;
    }

    locker->ended(locker->data);
}


void
ngx_etcd_locker_enter(ngx_etcd_locker_t *locker)
{
    if (locker->nmutexes++ == 0) {
        ngx_etcd_cluster_hasten(locker->cluster);
        ngx_etcd_session_hasten(&locker->session);
    }
}


void
ngx_etcd_locker_leave(ngx_etcd_locker_t *locker)
{
    if (--locker->nmutexes == 0) {
        locker->cluster->urgent = 0;
    }
}


ngx_uint_t
ngx_etcd_locker_valid(ngx_etcd_locker_t *locker)
{
    return locker->session.state == NGX_ETCD_SESSION_HELD
           && !locker->cluster->foreign
           && locker->session.lease.deadline > ngx_etcd_clock();
}


static void
ngx_etcd_locker_changed(void *data)
{
    /* nobody is shown the state of this client */
}


static void
ngx_etcd_locker_held(ngx_etcd_session_t *session)
{
    ngx_queue_t        *q;
    ngx_etcd_locker_t  *locker;

    locker = session->data;

    for (q = ngx_queue_head(&locker->contests);
         q != ngx_queue_sentinel(&locker->contests);
         q = ngx_queue_next(q))
    {
        ngx_etcd_contest_advance(ngx_queue_data(q, ngx_etcd_contest_t, queue));
    }
}


static void
ngx_etcd_locker_renewed(ngx_etcd_session_t *session)
{
    /* whoever needs to know the deadline looks at it */
}


static void
ngx_etcd_locker_lost(ngx_etcd_session_t *session, char *reason)
{
    ngx_etcd_locker_t *locker = session->data;

    ngx_etcd_sweep_end(&locker->sweep);
    ngx_etcd_mutex_lease_lost(locker);
}


static void
ngx_etcd_locker_found(void *data, ngx_str_t *key, ngx_uint_t number,
    int64_t revision)
{
    ngx_etcd_mutex_found(data, key, number, revision);
}


/*
 * A put with a lease that is revoked is refused, however late it comes: where
 * nothing is held or waited for, another lease ends the search.
 */

static void
ngx_etcd_locker_swept(void *data)
{
    ngx_etcd_locker_t *locker = data;

    if (ngx_etcd_sweep_over(&locker->sweep)) {
        ngx_etcd_session_give_up(&locker->session,
                                 "old puts may still come");
    }
}


void
ngx_etcd_locker_know(ngx_etcd_locker_t *locker, ngx_str_t *prefix)
{
    if (locker->prefix.len != 0) {
        return;
    }

    locker->prefix.data = ngx_pstrdup(locker->cluster->pool, prefix);

    if (locker->prefix.data != NULL) {
        locker->prefix.len = prefix->len;
    }
}


/*
 * The youngest of the keys that are held stands for all: a history that has it
 * has those that were put before.
 */

static void
ngx_etcd_locker_witness(ngx_etcd_session_t *session, ngx_str_t *key,
    int64_t *created)
{
    ngx_etcd_mutex_t   *mutex;
    ngx_etcd_locker_t  *locker;

    locker = session->data;
    mutex = ngx_etcd_locker_youngest(locker, 0);

    if (mutex == NULL) {
        *key = locker->prefix;
        *created = 0;
        return;
    }

    *key = mutex->key;
    *created = mutex->created;
}


/* unless it was released while it was read */

static void
ngx_etcd_locker_missing(ngx_etcd_session_t *session, int64_t created)
{
    ngx_etcd_mutex_t  *mutex;

    mutex = ngx_etcd_locker_youngest(session->data, created);

    if (mutex != NULL) {
        ngx_etcd_mutex_gone(mutex);
    }
}


/*
 * Of the mutexes that are held, the one created at that revision; 0: the last
 * one.  Those that were put a moment ago are likely to be over before a read
 * is answered, and do not count then.
 */

static ngx_etcd_mutex_t *
ngx_etcd_locker_youngest(ngx_etcd_locker_t *locker, int64_t created)
{
    uint64_t             now;
    ngx_queue_t         *q, *m;
    ngx_etcd_mutex_t    *mutex, *youngest;
    ngx_etcd_contest_t  *contest;

    youngest = NULL;
    now = ngx_etcd_clock();

    for (q = ngx_queue_head(&locker->contests);
         q != ngx_queue_sentinel(&locker->contests);
         q = ngx_queue_next(q))
    {
        contest = ngx_queue_data(q, ngx_etcd_contest_t, queue);

        for (m = ngx_queue_head(&contest->mutexes);
             m != ngx_queue_sentinel(&contest->mutexes);
             m = ngx_queue_next(m))
        {
            mutex = ngx_queue_data(m, ngx_etcd_mutex_t, queue);

            if (mutex->state != NGX_ETCD_MUTEX_HELD
                || now - mutex->since < NGX_ETCD_LOCKER_YOUNG
                || (created != 0 && mutex->created != created)
                || (youngest != NULL && mutex->created <= youngest->created))
            {
                continue;
            }

            youngest = mutex;
        }
    }

    return youngest;
}


static void
ngx_etcd_locker_timer(ngx_event_t *ev)
{
    uint64_t            now;
    ngx_queue_t        *q;
    ngx_etcd_mutex_t   *mutex;
    ngx_etcd_locker_t  *locker;

    locker = ev->data;
    now = ngx_etcd_clock();

    while (!ngx_queue_empty(&locker->young)) {
        q = ngx_queue_head(&locker->young);
        mutex = ngx_queue_data(q, ngx_etcd_mutex_t, age);

        if (now - mutex->since < NGX_ETCD_LOCKER_YOUNG) {
            ngx_add_timer(&locker->timer, NGX_ETCD_LOCKER_YOUNG);
            return;
        }

        ngx_etcd_mutex_grown(mutex);
        ngx_etcd_contest_watch(mutex->contest);
    }
}
