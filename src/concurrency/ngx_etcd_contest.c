
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_escape.h>
#include <ngx_etcd_contest.h>


static void ngx_etcd_contest_changed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);
static void ngx_etcd_contest_removed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);
static void ngx_etcd_contest_complete(ngx_etcd_mirror_t *mirror,
    int64_t revision);
static void ngx_etcd_contest_missing(ngx_etcd_contest_t *contest);
static ngx_etcd_contest_key_t *ngx_etcd_contest_find(
    ngx_etcd_contest_t *contest, ngx_str_t *name);
static void ngx_etcd_contest_look(ngx_etcd_contest_t *contest);
static void ngx_etcd_contest_report(ngx_etcd_contest_t *contest,
    ngx_etcd_mirror_entry_t *entry);
static ngx_uint_t ngx_etcd_contest_foreign(ngx_etcd_contest_t *contest,
    ngx_str_t *key);


ngx_int_t
ngx_etcd_contest_open(ngx_etcd_contest_t *contest)
{
    u_char                   *p;
    ngx_str_t                *ns;
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_lock_session_t  *locks;

    locks = contest->locks;
    ns = &locks->cluster->conf->key_namespace;

    p = ngx_pnalloc(contest->pool, ns->len + contest->prefix.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    contest->from.data = p;
    contest->from.len = ns->len + contest->prefix.len;

    p = ngx_cpymem(p, ns->data, ns->len);
    ngx_memcpy(p, contest->prefix.data, contest->prefix.len);

    contest->to = ngx_etcd_range_prefix_end(contest->pool, &contest->from);

    if (contest->to.data == NULL) {
        return NGX_ERROR;
    }

    mirror = &contest->mirror;

    mirror->name = locks->name;
    mirror->entries.order = NGX_ETCD_MIRROR_BY_CREATE;
    mirror->changed = ngx_etcd_contest_changed;
    mirror->removed = ngx_etcd_contest_removed;
    mirror->complete = ngx_etcd_contest_complete;
    mirror->data = contest;

    mirror->watch.prefix = contest->prefix;
    mirror->watch.prompt = 1;
    mirror->watch.pool = contest->pool;

    ngx_etcd_mirror_init(mirror, locks->cluster->log);

    ngx_queue_init(&contest->keys);
    ngx_queue_init(&contest->leaving);
    ngx_queue_insert_tail(&locks->contests, &contest->queue);

    ngx_etcd_lock_session_know(locks, &contest->from);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_contest_close(ngx_etcd_contest_t *contest)
{
    if (!ngx_queue_empty(&contest->keys)
        || !ngx_queue_empty(&contest->leaving)
        || contest->acquiring)
    {
        return NGX_AGAIN;
    }

    if (ngx_etcd_mirror_stop(&contest->mirror) != NGX_OK) {
        return NGX_AGAIN;
    }

    ngx_etcd_contest_stop_poll(contest);

    ngx_queue_remove(&contest->queue);

    return NGX_OK;
}


void
ngx_etcd_contest_watch(ngx_etcd_contest_t *contest)
{
    /* without memory it is tried again by the next that waits */

    if (!contest->watched) {
        contest->watched = (ngx_etcd_mirror_start(&contest->mirror,
                                                  contest->locks->watcher)
                            == NGX_OK);
    }
}


void
ngx_etcd_contest_advance(ngx_etcd_contest_t *contest)
{
    ngx_queue_t             *q;
    ngx_etcd_contest_key_t  *key;

    /*
     * One at a time: those that are put by one transaction are created at
     * the same revision, and nobody could tell which is the first.
     */

    if (contest->acquiring
        || contest->locks->session.state != NGX_ETCD_SESSION_HELD)
    {
        return;
    }

    for (q = ngx_queue_head(&contest->keys);
         q != ngx_queue_sentinel(&contest->keys);
         q = ngx_queue_next(q))
    {
        key = ngx_queue_data(q, ngx_etcd_contest_key_t, queue);

        if (key->state == NGX_ETCD_MUTEX_PENDING) {
            key->handlers->put(key);
            return;
        }
    }
}


ngx_uint_t
ngx_etcd_contest_lost(ngx_etcd_contest_t *contest, ngx_str_t *key,
    int64_t created)
{
    ngx_etcd_mirror_entry_t  *own;

    if (!ngx_etcd_mirror_covers(&contest->mirror, created)) {
        return 0;
    }

    own = ngx_etcd_mirror_find(&contest->mirror, key);

    return own == NULL || own->create_revision != created;
}


ngx_uint_t
ngx_etcd_contest_won(ngx_etcd_contest_t *contest, ngx_str_t *key,
    int64_t created)
{
    ngx_uint_t                before;
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_mirror_entry_t  *own, *other;

    mirror = &contest->mirror;

    if (!mirror->synced) {
        return 0;
    }

    /* only who has seen the own key has seen all that were before it */

    own = ngx_etcd_mirror_find(mirror, key);

    if (own == NULL || own->create_revision != created) {
        return 0;
    }

    before = 0;

    for (other = ngx_etcd_mirror_first(mirror);
         other != NULL && other->create_revision <= created;
         other = ngx_etcd_mirror_next(mirror, other))
    {
        if (other->create_revision < created
            || (other != own
                && ngx_memn2cmp(other->key.data, key->data, other->key.len,
                                key->len) < 0))
        {
            before++;
        }

        if (before == contest->permits) {
            return 0;
        }
    }

    return 1;
}


ngx_int_t
ngx_etcd_contest_others(ngx_etcd_contest_t *contest, ngx_str_t *key,
    int64_t created)
{
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_mirror_entry_t  *own;

    mirror = &contest->mirror;

    if (!mirror->synced) {
        return NGX_AGAIN;
    }

    own = ngx_etcd_mirror_find(mirror, key);

    if (own == NULL || own->create_revision != created) {
        return NGX_AGAIN;
    }

    return (mirror->entries.n == 1) ? NGX_OK : NGX_BUSY;
}


void
ngx_etcd_contest_heard(ngx_etcd_contest_t *contest)
{
    contest->poll.heard = ngx_current_msec;
    contest->poll.missed = 0;
}


void
ngx_etcd_contest_stop_poll(ngx_etcd_contest_t *contest)
{
    if (contest->poll.asking) {
        contest->poll.asking = 0;
        ngx_etcd_range_cancel(&contest->poll.range);
    }

    contest->poll.missed = 0;
}


void
ngx_etcd_contest_doubt(ngx_etcd_contest_t *contest)
{
    ngx_etcd_cluster_t  *cluster;

    cluster = contest->locks->cluster;

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": lock \"%V\" has been waited for for "
                  "long, reading its keys again", &cluster->conf->name,
                  &contest->prefix);

    if (contest->watched) {
        ngx_etcd_mirror_again(&contest->mirror, 0);

    } else {
        ngx_etcd_contest_watch(contest);
    }
}


static void
ngx_etcd_contest_changed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_contest_t  *contest = mirror->data;

    contest->news = 1;

    ngx_etcd_contest_heard(contest);
    ngx_etcd_contest_report(contest, entry);
}


/* what etcd tells of an own key holds whatever else is known */

static void
ngx_etcd_contest_removed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_contest_t      *contest;
    ngx_etcd_contest_key_t  *key;

    contest = mirror->data;
    contest->news = 1;

    ngx_etcd_contest_heard(contest);

    key = ngx_etcd_contest_find(contest, &entry->key);

    if (key != NULL
        && key->created != 0
        && key->created < entry->mod_revision)
    {
        key->handlers->gone(key);
    }
}


static void
ngx_etcd_contest_complete(ngx_etcd_mirror_t *mirror, int64_t revision)
{
    ngx_etcd_contest_t  *contest;

    contest = mirror->data;

    if (mirror->relisted) {
        ngx_etcd_contest_heard(contest);
        ngx_etcd_contest_missing(contest);

    } else if (!contest->news) {
        return;
    }

    contest->news = 0;
    ngx_etcd_contest_look(contest);
}


/* keys of ours that a newer list does not have */

static void
ngx_etcd_contest_missing(ngx_etcd_contest_t *contest)
{
    ngx_queue_t             *q, *next;
    ngx_etcd_contest_key_t  *key;

    for (q = ngx_queue_head(&contest->keys);
         q != ngx_queue_sentinel(&contest->keys);
         q = next)
    {
        next = ngx_queue_next(q);
        key = ngx_queue_data(q, ngx_etcd_contest_key_t, queue);

        if (key->created != 0
            && ngx_etcd_contest_lost(contest, &key->own, key->created))
        {
            key->handlers->gone(key);
        }
    }
}


static ngx_etcd_contest_key_t *
ngx_etcd_contest_find(ngx_etcd_contest_t *contest, ngx_str_t *name)
{
    ngx_queue_t             *q;
    ngx_etcd_contest_key_t  *key;

    for (q = ngx_queue_head(&contest->keys);
         q != ngx_queue_sentinel(&contest->keys);
         q = ngx_queue_next(q))
    {
        key = ngx_queue_data(q, ngx_etcd_contest_key_t, queue);

        if (key->own.len == name->len
            && ngx_memcmp(key->own.data, name->data, name->len) == 0)
        {
            return key;
        }
    }

    return NULL;
}


static void
ngx_etcd_contest_look(ngx_etcd_contest_t *contest)
{
    ngx_queue_t             *q;
    ngx_etcd_contest_key_t  *key;

    for (q = ngx_queue_head(&contest->keys);
         q != ngx_queue_sentinel(&contest->keys);
         q = ngx_queue_next(q))
    {
        key = ngx_queue_data(q, ngx_etcd_contest_key_t, queue);

        if (key->state == NGX_ETCD_MUTEX_WAITING) {
            key->handlers->look(key);
        }
    }

    contest->seen(contest->data);
}


static void
ngx_etcd_contest_report(ngx_etcd_contest_t *contest,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_cluster_t  *cluster;

    if (contest->foreign
        || !ngx_etcd_contest_foreign(contest, &entry->key)
        || ngx_etcd_candidate_decimal(&entry->key, entry->lease,
                                      contest->prefix.len))
    {
        return;
    }

    contest->foreign = 1;
    cluster = contest->locks->cluster;

    ngx_log_error(NGX_LOG_ERR, cluster->log, 0,
                  "etcd cluster \"%V\": lock \"%V\": key \"%V\" is not named "
                  "after a lease, and counts as one that holds the lock or "
                  "waits for it", &cluster->conf->name, &contest->prefix,
                  ngx_etcd_shown(&entry->key));
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
