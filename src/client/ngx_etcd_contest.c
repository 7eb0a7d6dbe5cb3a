
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_escape.h>
#include <ngx_etcd_contest.h>
#include <ngx_etcd_lock_poll.h>
#include <ngx_etcd_mutex.h>


/* ms; where there was no memory for what the watch has shown */

#define NGX_ETCD_CONTEST_AGAIN  1000


/* what happened to a key while the list was on its way */

typedef struct {
    ngx_str_t                    key;
    int64_t                      created;
    int64_t                      modified;
    int64_t                      lease;
    ngx_uint_t                   deleted;
} ngx_etcd_contest_event_t;


static void ngx_etcd_contest_list(ngx_etcd_watch_t *watch);
static ngx_int_t ngx_etcd_contest_keys(ngx_etcd_watch_t *watch,
    Etcd__KeyValue **kvs, size_t n);
static void ngx_etcd_contest_listed(ngx_etcd_watch_t *watch, int64_t revision);
static void ngx_etcd_contest_events(ngx_etcd_watch_t *watch,
    Etcd__Event **events, size_t n, int64_t revision);
static void ngx_etcd_contest_failed(ngx_etcd_watch_t *watch,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static ngx_int_t ngx_etcd_contest_event(ngx_etcd_contest_t *contest,
    Etcd__Event *event);
static ngx_int_t ngx_etcd_contest_keep(ngx_etcd_contest_t *contest,
    Etcd__Event *event);
static ngx_int_t ngx_etcd_contest_apply(ngx_etcd_contest_t *contest,
    ngx_etcd_contest_event_t *event);
static void ngx_etcd_contest_missing(ngx_etcd_contest_t *contest,
    int64_t revision);
static ngx_etcd_mutex_t *ngx_etcd_contest_find(ngx_etcd_contest_t *contest,
    ngx_str_t *key);
static void ngx_etcd_contest_look(ngx_etcd_contest_t *contest);
static void ngx_etcd_contest_void_late(ngx_etcd_contest_t *contest);
static void ngx_etcd_contest_drop_late(ngx_etcd_contest_t *contest);
static void ngx_etcd_contest_report(ngx_etcd_contest_t *contest,
    Etcd__KeyValue *kv);
static ngx_uint_t ngx_etcd_contest_foreign(ngx_etcd_contest_t *contest,
    ngx_str_t *key);


ngx_int_t
ngx_etcd_contest_open(ngx_etcd_contest_t *contest)
{
    u_char              *p;
    ngx_str_t           *ns;
    ngx_etcd_locker_t   *locker;
    ngx_etcd_cluster_t  *cluster;

    locker = contest->locker;
    cluster = locker->cluster;
    ns = &cluster->conf->key_namespace;

    p = ngx_pnalloc(contest->pool, ns->len + contest->prefix.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    contest->from.data = p;
    contest->from.len = ns->len + contest->prefix.len;

    p = ngx_cpymem(p, ns->data, ns->len);
    ngx_memcpy(p, contest->prefix.data, contest->prefix.len);

    contest->to = ngx_etcd_prefix_end(contest->pool, &contest->from);

    if (contest->to.data == NULL
        || ngx_array_init(&contest->late, contest->pool, 4,
                          sizeof(ngx_etcd_contest_event_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_etcd_candidates_init(&contest->candidates, contest->prefix.len,
                             cluster->log);

    ngx_queue_init(&contest->mutexes);
    ngx_queue_init(&contest->leaving);
    ngx_queue_insert_tail(&locker->contests, &contest->queue);

    ngx_etcd_locker_know(locker, &contest->from);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_contest_close(ngx_etcd_contest_t *contest)
{
    if (!ngx_queue_empty(&contest->mutexes)
        || !ngx_queue_empty(&contest->leaving)
        || contest->acquiring)
    {
        return NGX_AGAIN;
    }

    if (contest->watched && ngx_etcd_watch_remove(&contest->watch) != NGX_OK) {
        return NGX_AGAIN;
    }

    ngx_etcd_lock_poll_stop(contest);
    ngx_etcd_contest_drop_late(contest);
    ngx_etcd_candidates_destroy(&contest->candidates);

    ngx_queue_remove(&contest->queue);

    return NGX_OK;
}


void
ngx_etcd_contest_watch(ngx_etcd_contest_t *contest)
{
    ngx_etcd_watch_t  *watch;

    if (contest->watched) {
        return;
    }

    watch = &contest->watch;
    ngx_memzero(watch, sizeof(ngx_etcd_watch_t));

    watch->prefix = contest->prefix;
    watch->prompt = 1;
    watch->pool = contest->pool;
    watch->list = ngx_etcd_contest_list;
    watch->keys = ngx_etcd_contest_keys;
    watch->listed = ngx_etcd_contest_listed;
    watch->events = ngx_etcd_contest_events;
    watch->failed = ngx_etcd_contest_failed;
    watch->data = contest;

    /* without memory it is tried again by the next that waits */

    contest->watched = (ngx_etcd_watch_add(contest->locker->watcher, watch)
                        == NGX_OK);
}


void
ngx_etcd_contest_advance(ngx_etcd_contest_t *contest)
{
    ngx_queue_t       *q;
    ngx_etcd_mutex_t  *mutex;

    /*
     * One at a time: those that are put by one transaction are created at
     * the same revision, and nobody could tell which is the first.
     */

    if (contest->acquiring
        || contest->locker->session.state != NGX_ETCD_SESSION_HELD)
    {
        return;
    }

    for (q = ngx_queue_head(&contest->mutexes);
         q != ngx_queue_sentinel(&contest->mutexes);
         q = ngx_queue_next(q))
    {
        mutex = ngx_queue_data(q, ngx_etcd_mutex_t, queue);

        if (mutex->state == NGX_ETCD_MUTEX_PENDING) {
            ngx_etcd_mutex_put(mutex);
            return;
        }
    }
}


ngx_uint_t
ngx_etcd_contest_leaving(ngx_etcd_contest_t *contest)
{
    ngx_uint_t         n;
    ngx_queue_t       *q;
    ngx_etcd_mutex_t  *mutex;

    n = 0;

    for (q = ngx_queue_head(&contest->leaving);
         q != ngx_queue_sentinel(&contest->leaving);
         q = ngx_queue_next(q))
    {
        mutex = ngx_queue_data(q, ngx_etcd_mutex_t, queue);
        n += !ngx_etcd_step_waiting(&mutex->step);
    }

    return n;
}


ngx_uint_t
ngx_etcd_contest_won(ngx_etcd_contest_t *contest, ngx_str_t *key,
    int64_t created)
{
    ngx_uint_t             before;
    ngx_rbtree_node_t     *node;
    ngx_etcd_candidate_t  *own, *other;

    if (!contest->synced || contest->listing) {
        return 0;
    }

    /* only who has seen the own key has seen all that were before it */

    own = ngx_etcd_candidates_find(&contest->candidates, key);

    if (own == NULL || own->created != created) {
        return 0;
    }

    before = 0;
    other = ngx_etcd_candidates_first(&contest->candidates);

    while (other != NULL && other->created <= created) {

        if (other->created < created
            || (other != own
                && ngx_memn2cmp(other->name.str.data, key->data,
                                other->name.str.len, key->len) < 0))
        {
            before++;
        }

        if (before == contest->permits) {
            return 0;
        }

        node = ngx_rbtree_next(&contest->candidates.order, &other->order);
        other = (node != NULL) ? ngx_etcd_candidate_of(node) : NULL;
    }

    return 1;
}


ngx_int_t
ngx_etcd_contest_others(ngx_etcd_contest_t *contest, ngx_str_t *key,
    int64_t created)
{
    ngx_etcd_candidate_t  *own, *first;

    if (!contest->synced || contest->listing) {
        return NGX_AGAIN;
    }

    own = ngx_etcd_candidates_find(&contest->candidates, key);

    if (own == NULL || own->created != created) {
        return NGX_AGAIN;
    }

    first = ngx_etcd_candidates_first(&contest->candidates);

    return (first == own
            && ngx_rbtree_next(&contest->candidates.order, &own->order) == NULL)
           ? NGX_OK : NGX_BUSY;
}


void
ngx_etcd_contest_doubt(ngx_etcd_contest_t *contest)
{
    ngx_etcd_cluster_t  *cluster;

    cluster = contest->locker->cluster;

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": lock \"%V\" has been waited for for "
                  "long, reading its keys again", &cluster->conf->name,
                  &contest->prefix);

    contest->synced = 0;

    if (contest->watched) {
        ngx_etcd_watch_again(&contest->watch, 0);

    } else {
        ngx_etcd_contest_watch(contest);
    }
}


static void
ngx_etcd_contest_list(ngx_etcd_watch_t *watch)
{
    ngx_etcd_contest_t *contest = watch->data;

    contest->listing = 1;

    ngx_etcd_candidates_begin(&contest->candidates);
}


static ngx_int_t
ngx_etcd_contest_keys(ngx_etcd_watch_t *watch, Etcd__KeyValue **kvs, size_t n)
{
    size_t               i;
    ngx_etcd_contest_t  *contest;

    contest = watch->data;

    for (i = 0; i < n; i++) {
        if (ngx_etcd_candidates_put(&contest->candidates, kvs[i]) != NGX_OK) {
            return NGX_ERROR;
        }

        ngx_etcd_contest_report(contest, kvs[i]);
    }

    return NGX_OK;
}


static void
ngx_etcd_contest_listed(ngx_etcd_watch_t *watch, int64_t revision)
{
    ngx_uint_t                 i;
    ngx_etcd_contest_t        *contest;
    ngx_etcd_contest_event_t  *event;

    contest = watch->data;

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, contest->locker->cluster->log, 0,
                   "etcd lock \"%V\": listed at revision %L, %ui later events",
                   &contest->prefix, revision, contest->late.nelts);

    contest->listing = 0;
    contest->synced = 1;
    contest->denied = 0;

    ngx_etcd_candidates_end(&contest->candidates);

    ngx_etcd_contest_void_late(contest);

    event = contest->late.elts;

    for (i = 0; i < contest->late.nelts; i++) {
        if (ngx_etcd_contest_apply(contest, &event[i]) != NGX_OK) {
            contest->synced = 0;
        }
    }

    ngx_etcd_contest_drop_late(contest);

    if (!contest->synced) {
        ngx_etcd_watch_again(watch, NGX_ETCD_CONTEST_AGAIN);
        return;
    }

    ngx_etcd_lock_poll_heard(contest);
    ngx_etcd_contest_missing(contest, revision);
    ngx_etcd_contest_look(contest);
}


static void
ngx_etcd_contest_events(ngx_etcd_watch_t *watch, Etcd__Event **events,
    size_t n, int64_t revision)
{
    size_t               i;
    ngx_etcd_contest_t  *contest;

    contest = watch->data;

    if (n != 0) {
        ngx_etcd_lock_poll_heard(contest);
    }

    for (i = 0; i < n; i++) {
        if (ngx_etcd_contest_event(contest, events[i]) != NGX_OK) {
            contest->synced = 0;
            ngx_etcd_watch_again(watch, NGX_ETCD_CONTEST_AGAIN);
            return;
        }
    }

    if (n != 0 && !watch->listing) {
        ngx_etcd_contest_look(contest);
    }
}


static void
ngx_etcd_contest_failed(ngx_etcd_watch_t *watch,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_uint_t           level;
    ngx_etcd_cluster_t  *cluster;
    ngx_etcd_contest_t  *contest;

    contest = watch->data;
    cluster = contest->locker->cluster;
    level = contest->denied ? NGX_LOG_INFO : NGX_LOG_ERR;

    ngx_log_error(level, cluster->log, 0,
                  "etcd cluster \"%V\": lock \"%V\" cannot be watched: "
                  "%s: %V", &cluster->conf->name, &contest->prefix,
                  ngx_etcd_grpc_status_name(status), text);

    contest->denied = 1;

    /* a watch that was listed goes on from its revision, without a list */

    if (watch->revision != 0 && !contest->listing) {
        return;
    }

    contest->synced = 0;
    contest->listing = 0;

    ngx_etcd_contest_drop_late(contest);

    if (watch->revision != 0) {
        ngx_etcd_watch_again(watch, NGX_ETCD_CONTEST_AGAIN);
    }
}


/* what etcd tells of an own key holds whatever else is known */

static ngx_int_t
ngx_etcd_contest_event(ngx_etcd_contest_t *contest, Etcd__Event *event)
{
    ngx_str_t                  key;
    ngx_etcd_mutex_t          *mutex;
    ngx_etcd_contest_event_t   seen;

    key.data = event->kv->key.data;
    key.len = event->kv->key.len;

    seen.key = key;
    seen.created = event->kv->create_revision;
    seen.modified = event->kv->mod_revision;
    seen.lease = event->kv->lease;
    seen.deleted = (event->type == ETCD__EVENT__EVENT_TYPE__DELETE);

    if (seen.deleted) {
        mutex = ngx_etcd_contest_find(contest, &key);

        if (mutex != NULL && mutex->created != 0
            && mutex->created < seen.modified)
        {
            ngx_etcd_mutex_gone(mutex);
        }

    } else {
        ngx_etcd_contest_report(contest, event->kv);
    }

    if (contest->watch.listing) {
        return ngx_etcd_contest_keep(contest, event);
    }

    return contest->synced ? ngx_etcd_contest_apply(contest, &seen) : NGX_OK;
}


static ngx_int_t
ngx_etcd_contest_keep(ngx_etcd_contest_t *contest, Etcd__Event *event)
{
    u_char                    *p;
    ngx_etcd_contest_event_t  *late;

    ngx_etcd_contest_void_late(contest);

    p = ngx_alloc(ngx_max(event->kv->key.len, 1),
                  contest->locker->cluster->log);
    if (p == NULL) {
        return NGX_ERROR;
    }

    late = ngx_array_push(&contest->late);
    if (late == NULL) {
        ngx_free(p);
        return NGX_ERROR;
    }

    ngx_memcpy(p, event->kv->key.data, event->kv->key.len);

    late->key.data = p;
    late->key.len = event->kv->key.len;
    late->created = event->kv->create_revision;
    late->modified = event->kv->mod_revision;
    late->lease = event->kv->lease;
    late->deleted = (event->type == ETCD__EVENT__EVENT_TYPE__DELETE);

    return NGX_OK;
}


/* unless what the list has said of the key is newer */

static ngx_int_t
ngx_etcd_contest_apply(ngx_etcd_contest_t *contest,
    ngx_etcd_contest_event_t *event)
{
    Etcd__KeyValue         kv;
    ngx_etcd_candidate_t  *candidate;

    candidate = ngx_etcd_candidates_find(&contest->candidates, &event->key);

    if (candidate != NULL && candidate->modified >= event->modified) {
        return NGX_OK;
    }

    if (event->deleted) {
        if (candidate != NULL) {
            ngx_etcd_candidates_remove(&contest->candidates, &event->key);
        }

        return NGX_OK;
    }

    etcd__key_value__init(&kv);

    kv.key.data = event->key.data;
    kv.key.len = event->key.len;
    kv.create_revision = event->created;
    kv.mod_revision = event->modified;
    kv.lease = event->lease;

    return ngx_etcd_candidates_put(&contest->candidates, &kv);
}


/* keys of ours that a newer list does not have */

static void
ngx_etcd_contest_missing(ngx_etcd_contest_t *contest, int64_t revision)
{
    ngx_queue_t           *q, *next;
    ngx_etcd_mutex_t      *mutex;
    ngx_etcd_candidate_t  *own;

    for (q = ngx_queue_head(&contest->mutexes);
         q != ngx_queue_sentinel(&contest->mutexes);
         q = next)
    {
        next = ngx_queue_next(q);
        mutex = ngx_queue_data(q, ngx_etcd_mutex_t, queue);

        if (mutex->created == 0 || mutex->created > revision) {
            continue;
        }

        own = ngx_etcd_candidates_find(&contest->candidates, &mutex->own);

        if (own == NULL || own->created != mutex->created) {
            ngx_etcd_mutex_gone(mutex);
        }
    }
}


static ngx_etcd_mutex_t *
ngx_etcd_contest_find(ngx_etcd_contest_t *contest, ngx_str_t *key)
{
    ngx_queue_t       *q;
    ngx_etcd_mutex_t  *mutex;

    for (q = ngx_queue_head(&contest->mutexes);
         q != ngx_queue_sentinel(&contest->mutexes);
         q = ngx_queue_next(q))
    {
        mutex = ngx_queue_data(q, ngx_etcd_mutex_t, queue);

        if (mutex->own.len == key->len
            && ngx_memcmp(mutex->own.data, key->data, key->len) == 0)
        {
            return mutex;
        }
    }

    return NULL;
}


static void
ngx_etcd_contest_look(ngx_etcd_contest_t *contest)
{
    ngx_queue_t       *q;
    ngx_etcd_mutex_t  *mutex;

    for (q = ngx_queue_head(&contest->mutexes);
         q != ngx_queue_sentinel(&contest->mutexes);
         q = ngx_queue_next(q))
    {
        mutex = ngx_queue_data(q, ngx_etcd_mutex_t, queue);

        if (mutex->state == NGX_ETCD_MUTEX_WAITING) {
            ngx_etcd_mutex_look(mutex);
        }
    }

    contest->seen(contest->data);
}


/*
 * Events of a watch that was created before this one: whether their keys were
 * deleted meanwhile the list says, and no event will.
 */

static void
ngx_etcd_contest_void_late(ngx_etcd_contest_t *contest)
{
    if (contest->creates != contest->watch.creates) {
        contest->creates = contest->watch.creates;
        ngx_etcd_contest_drop_late(contest);
    }
}


static void
ngx_etcd_contest_drop_late(ngx_etcd_contest_t *contest)
{
    ngx_uint_t                 i;
    ngx_etcd_contest_event_t  *event;

    event = contest->late.elts;

    for (i = 0; i < contest->late.nelts; i++) {
        ngx_free(event[i].key.data);
    }

    contest->late.nelts = 0;
}


static void
ngx_etcd_contest_report(ngx_etcd_contest_t *contest, Etcd__KeyValue *kv)
{
    ngx_str_t            key;
    ngx_etcd_cluster_t  *cluster;

    key.data = kv->key.data;
    key.len = kv->key.len;

    if (contest->foreign
        || !ngx_etcd_contest_foreign(contest, &key)
        || ngx_etcd_candidate_decimal(&key, kv->lease, contest->prefix.len))
    {
        return;
    }

    contest->foreign = 1;
    cluster = contest->locker->cluster;

    ngx_log_error(NGX_LOG_ERR, cluster->log, 0,
                  "etcd cluster \"%V\": lock \"%V\": key \"%V\" is not named "
                  "after a lease, and counts as one that holds the lock or "
                  "waits for it", &cluster->conf->name, &contest->prefix,
                  ngx_etcd_shown(&key));
}


/* LEASE or LEASE-NUMBER, in hexadecimal digits */

static ngx_uint_t
ngx_etcd_contest_foreign(ngx_etcd_contest_t *contest, ngx_str_t *key)
{
    size_t   i, digits;
    u_char  *p;

    digits = 0;
    p = key->data;

    for (i = contest->prefix.len; i < key->len; i++) {

        if (p[i] == '-' && digits != 0) {
            digits = 0;
            continue;
        }

        if ((p[i] < '0' || p[i] > '9') && (p[i] < 'a' || p[i] > 'f')) {
            return 1;
        }

        if (++digits > 16) {
            return 1;
        }
    }

    return digits == 0;
}
