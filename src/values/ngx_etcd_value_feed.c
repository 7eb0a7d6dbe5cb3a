
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_alloc.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_secret.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_value_conf.h>
#include <ngx_etcd_value_feed.h>


/* ms until a zone is tried again whose mutex was held */
#define NGX_ETCD_VALUE_FEED_BUSY   50

/* ms until the prefix is listed again, since there may be room now */
#define NGX_ETCD_VALUE_FEED_AGAIN  1000

/* the same while the zone is full: others may have freed memory */
#define NGX_ETCD_VALUE_FEED_FULL   10000

/* changes of one revision that are made at once */
#define NGX_ETCD_VALUE_FEED_GROUP  NGX_ETCD_BATCH_STEPS

#if (NGX_ETCD_VALUE_FEED_GROUP < NGX_ETCD_WATCH_TOGETHER)
#error "events that come together cannot be stored together"
#endif

/* the revision of removals by a list, which are made after its values */
#define NGX_ETCD_VALUE_FEED_LAST   ((uint64_t) -1)

/* keys whose removal is found at a time */
#define NGX_ETCD_VALUE_FEED_SWEEP  64


typedef struct {
    ngx_etcd_value_feed_t       *feed;
    ngx_uint_t                   n;
    ngx_etcd_value_change_t     *changes[NGX_ETCD_VALUE_FEED_SWEEP];
} ngx_etcd_value_feed_sweep_t;


/* NGX_ERROR: no more at a time; the chain is read again. */

static ngx_int_t
ngx_etcd_value_feed_node(void *data, ngx_etcd_value_node_t *node)
{
    ngx_etcd_value_feed_sweep_t *sweep = data;

    u_char                      buf[NGX_ETCD_PATTERN_PREFIX];
    ngx_str_t                   key;
    ngx_etcd_value_feed_t      *feed;
    ngx_etcd_value_change_t     change, *copy;

    feed = sweep->feed;

    key.data = buf;
    key.len = feed->conf->literal.len + node->key_len;

    if (key.len <= sizeof(buf)) {
        ngx_memcpy(ngx_cpymem(buf, feed->conf->literal.data,
                              feed->conf->literal.len),
                   node->data, node->key_len);

        if (ngx_etcd_mirror_find(&feed->mirror, &key) != NULL) {
            return NGX_OK;
        }
    }

    if (sweep->n == NGX_ETCD_VALUE_FEED_SWEEP) {
        return NGX_ERROR;
    }

    ngx_memzero(&change, sizeof(ngx_etcd_value_change_t));

    change.op = NGX_ETCD_VALUE_REMOVE;
    change.revision = NGX_ETCD_VALUE_FEED_LAST;
    change.key.data = node->data;
    change.key.len = node->key_len;

    copy = ngx_etcd_value_change_copy(feed->conf, &change, feed->log);

    if (copy == NULL) {
        return NGX_ERROR;
    }

    sweep->changes[sweep->n++] = copy;

    return NGX_OK;
}


/* Records the change for the status, which shows the beginning of the key. */

static void
ngx_etcd_value_feed_event(ngx_etcd_value_feed_t *feed,
    ngx_etcd_value_change_t *change)
{
    u_char                      buf[NGX_ETCD_ZONE_EVENT_LEN + 1];
    uint64_t                    revision;
    ngx_str_t                   key;
    ngx_etcd_value_map_conf_t  *conf;

    conf = feed->conf;

    key.data = buf;
    key.len = ngx_snprintf(buf, sizeof(buf), "%V%V", &conf->literal,
                           &change->key)
              - buf;

    revision = change->revision;

    if (revision == NGX_ETCD_VALUE_FEED_LAST) {
        revision = feed->revision;
    }

    ngx_etcd_zone_event(conf->zone, ngx_etcd_value_map_name(conf, &key), &key,
                        change->change, revision);

    if (change->change == NGX_ETCD_CHANGE_REMOVE) {
        feed->room = 1;
    }
}


static ngx_int_t
ngx_etcd_value_feed_write(ngx_etcd_value_feed_t *feed,
    ngx_etcd_value_change_t **changes, ngx_uint_t n)
{
    ngx_int_t         rc;
    ngx_uint_t        i;
    ngx_etcd_zone_t  *zone;

    zone = feed->conf->zone;

    rc = ngx_etcd_zone_lock_owned(zone, 0);
    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_etcd_value_change(feed->conf, changes, n) != NGX_OK) {
        feed->full = 1;
    }

    for (i = 0; i < n; i++) {
        if (changes[i]->made) {
            ngx_etcd_value_feed_event(feed, changes[i]);
        }
    }

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}


/* Removes the nodes of the map whose keys the mirror does not have. */

static ngx_int_t
ngx_etcd_value_feed_sweep(ngx_etcd_value_feed_t *feed)
{
    ngx_int_t                     rc, written;
    ngx_uint_t                    i;
    ngx_etcd_value_feed_sweep_t   sweep;

    sweep.feed = feed;
    sweep.n = 0;

    rc = ngx_etcd_value_map_each(feed->conf, &feed->chain,
                                 ngx_etcd_value_feed_node, &sweep);

    written = NGX_OK;

    if (sweep.n != 0) {
        written = ngx_etcd_value_feed_write(feed, sweep.changes, sweep.n);
    }

    for (i = 0; i < sweep.n; i++) {
        ngx_etcd_value_change_done(feed->conf, sweep.changes[i]);
    }

    if (written != NGX_OK) {
        feed->chain = 0;
        return written;
    }

    if (rc == NGX_OK) {
        feed->sweep = 0;
        return NGX_AGAIN;
    }

    /* NGX_ERROR without a change: no memory */

    return (rc == NGX_AGAIN || sweep.n != 0) ? NGX_AGAIN : NGX_BUSY;
}


/* Reports an invalid value once, also when another worker becomes the agent. */

static void
ngx_etcd_value_feed_check(ngx_etcd_value_feed_t *feed,
    ngx_etcd_value_change_t *change)
{
    char                       *why;
    u_char                      buf[NGX_ETCD_VALUE_REASON];
    u_char                      text[NGX_ETCD_PATTERN_PREFIX];
    ngx_int_t                   rc;
    ngx_str_t                   key, *name, reason;
    ngx_etcd_value_map_read_t   read;
    ngx_etcd_value_map_conf_t  *conf;

    if (change->op != NGX_ETCD_VALUE_PUT) {
        return;
    }

    conf = feed->conf;

    key.data = text;
    key.len = ngx_snprintf(text, sizeof(text), "%V%V", &conf->literal,
                           &change->key)
              - text;

    name = ngx_etcd_value_map_name(conf, &key);

    if (ngx_etcd_value_conf_refuse(conf, &key, &change->value, feed->scratch,
                                   buf, &reason)
        == NULL)
    {
        why = ngx_etcd_value_conf_table(conf, &key, &change->value,
                                        change->table.data, &change->table);

        if (why != NULL) {
            ngx_log_error(NGX_LOG_ERR, feed->log, 0,
                          "etcd: variable \"%V\": key \"%V\" at revision "
                          "%uL is no list of names with weights: %s, the "
                          "default applies",
                          name, ngx_etcd_shown(&key), change->revision, why);
        }

        return;
    }

    read.part = NGX_ETCD_VALUE_MAP_NOTHING;

    rc = ngx_etcd_value_map_get(conf, &change->key, &read);

    ngx_log_error(NGX_LOG_ERR, feed->log, 0,
                  "etcd: variable \"%V\": key \"%V\" at revision %uL is "
                  "invalid: %V, %s",
                  name, ngx_etcd_shown(&key), change->revision, &reason,
                  (rc == NGX_OK) ? "its last valid value stays"
                                 : "its default is used");

    change->op = NGX_ETCD_VALUE_REFUSE;
}


/* Makes the changes of a revision. */

static ngx_int_t
ngx_etcd_value_feed_group(ngx_etcd_value_feed_t *feed, ngx_uint_t n)
{
    ngx_int_t                  rc;
    ngx_uint_t                 i;
    ngx_etcd_value_change_t  **changes;

    changes = feed->changes + feed->next;

    rc = ngx_etcd_value_feed_write(feed, changes, n);

    if (rc != NGX_OK) {
        return rc;
    }

    for (i = 0; i < n; i++) {
        ngx_etcd_value_change_done(feed->conf, changes[i]);
    }

    feed->next += n;

    if (feed->next == feed->ready) {
        feed->n -= feed->ready;

        ngx_memmove(feed->changes, feed->changes + feed->ready,
                    feed->n * sizeof(ngx_etcd_value_change_t *));

        feed->next = 0;
        feed->checked = 0;
        feed->ready = 0;
    }

    return NGX_AGAIN;
}


/*
 * NGX_OK: the zone is up to date; NGX_AGAIN: call again; NGX_BUSY: the mutex
 * was held; NGX_DECLINED: the zone has another owner.
 */

static ngx_int_t
ngx_etcd_value_feed_step(ngx_etcd_value_feed_t *feed)
{
    ngx_uint_t                 n;
    ngx_etcd_value_change_t  **changes;

    if (feed->next == feed->ready) {
        return feed->sweep ? ngx_etcd_value_feed_sweep(feed) : NGX_OK;
    }

    /* the changes of the next revision */

    changes = feed->changes + feed->next;

    for (n = 1; n < feed->ready - feed->next; n++) {
        if (n == NGX_ETCD_VALUE_FEED_GROUP
            || changes[n]->revision != changes[0]->revision)
        {
            break;
        }
    }

    if (feed->checked < feed->next + n) {
        ngx_etcd_value_feed_check(feed, feed->changes[feed->checked]);
        feed->checked++;

        return NGX_AGAIN;
    }

    return ngx_etcd_value_feed_group(feed, n);
}


/* Until then the watch goes on. */

static void
ngx_etcd_value_feed_again(ngx_etcd_value_feed_t *feed, ngx_msec_t delay)
{
    if (feed->again.timer_set
        && (ngx_msec_int_t) (feed->again.timer.key - ngx_current_msec)
           <= (ngx_msec_int_t) delay)
    {
        return;
    }

    ngx_etcd_event_move(&feed->again, delay);
}


/*
 * Reports once that keys are not used, or have a former value since the zone
 * is full, and lists them again when there may be room.
 */

static void
ngx_etcd_value_feed_over(ngx_etcd_value_feed_t *feed)
{
    ngx_uint_t                  over;
    ngx_etcd_value_map_t       *map;
    ngx_etcd_value_map_conf_t  *conf;

    conf = feed->conf;
    map = conf->map;
    over = map->over;

    if (over == 0 && !feed->full) {
        feed->reported = 0;
        feed->room = 0;
        return;
    }

    if (!feed->reported) {
        feed->reported = 1;

        if (conf->exact) {
            ngx_log_error(NGX_LOG_ERR, feed->log, 0,
                          "etcd: variable \"%V\": key \"%V\" %s: the "
                          "\"zone\" is full", &conf->name, &conf->literal,
                          over ? "is not used" : "keeps its former value");

        } else if (over != 0) {
            ngx_log_error(NGX_LOG_ERR, feed->log, 0,
                          "etcd: variable \"%V\": %ui keys below \"%V\" are "
                          "not used: %s", &conf->name, over, &conf->literal,
                          feed->full ? "the \"zone\" is full"
                                     : "\"limit=\" is reached");

        } else {
            ngx_log_error(NGX_LOG_ERR, feed->log, 0,
                          "etcd: variable \"%V\": keys below \"%V\" keep "
                          "former values: the \"zone\" is full",
                          &conf->name, &conf->literal);
        }
    }

    if (feed->full) {
        ngx_etcd_value_feed_again(feed, feed->room ? NGX_ETCD_VALUE_FEED_AGAIN
                                                   : NGX_ETCD_VALUE_FEED_FULL);

    } else if (feed->room && map->map.n < conf->limit) {
        ngx_etcd_value_feed_again(feed, NGX_ETCD_VALUE_FEED_AGAIN);
    }
}


static ngx_int_t
ngx_etcd_value_feed_done(ngx_etcd_value_feed_t *feed)
{
    ngx_int_t              rc;
    ngx_etcd_value_map_t  *map;

    rc = ngx_etcd_zone_lock_owned(feed->conf->zone, 0);
    if (rc != NGX_OK) {
        return rc;
    }

    map = feed->conf->map;

    map->revision = feed->revision;
    map->state = NGX_ETCD_VALUE_SYNCED;
    map->over = ngx_max(feed->mirror.entries.n, map->map.n) - map->map.n;

    ngx_etcd_zone_unlock(feed->conf->zone);

    ngx_etcd_value_feed_over(feed);

    return NGX_OK;
}


static void
ngx_etcd_value_feed_work(ngx_etcd_value_feed_t *feed)
{
    uint64_t   until;
    ngx_int_t  rc;

    until = ngx_etcd_time_budget_now() + NGX_ETCD_TIME_BUDGET;

    do {
        rc = ngx_etcd_value_feed_step(feed);
    } while (rc == NGX_AGAIN && ngx_etcd_time_budget_now() < until);

    if (rc == NGX_OK && feed->mirror.synced) {
        rc = ngx_etcd_value_feed_done(feed);
    }

    switch (rc) {

    case NGX_OK:
        feed->written(feed->data);
        return;

    case NGX_AGAIN:
        ngx_post_event(&feed->work, &ngx_posted_next_events);
        return;

    case NGX_BUSY:
        ngx_add_timer(&feed->work, NGX_ETCD_VALUE_FEED_BUSY);
        return;

    default: /* NGX_DECLINED */
        feed->lost(feed->data);
        return;
    }
}


static void
ngx_etcd_value_feed_handler(ngx_event_t *ev)
{
    ngx_etcd_value_feed_work(ev->data);
}


static void
ngx_etcd_value_feed_again_handler(ngx_event_t *ev)
{
    ngx_etcd_value_feed_t *feed = ev->data;

    feed->room = 0;
    feed->full = 0;

    ngx_etcd_mirror_again(&feed->mirror, 0);
}


static ngx_uint_t
ngx_etcd_value_feed_wants(ngx_etcd_mirror_t *mirror, ngx_str_t *key)
{
    ngx_etcd_value_feed_t *feed = mirror->data;

    return ngx_etcd_value_map_wants(feed->conf, key) != NULL;
}


/* Makes room for another change in the array. */

static ngx_int_t
ngx_etcd_value_feed_room(ngx_etcd_value_feed_t *feed)
{
    ngx_uint_t                 size;
    ngx_etcd_value_change_t  **changes;

    if (feed->n < feed->size) {
        return NGX_OK;
    }

    size = ngx_max(feed->size * 2, 16);

    changes = ngx_etcd_alloc_grow(feed->changes,
                                  feed->n * sizeof(ngx_etcd_value_change_t *),
                                  size * sizeof(ngx_etcd_value_change_t *),
                                  feed->log);
    if (changes == NULL) {
        return NGX_ERROR;
    }

    feed->changes = changes;
    feed->size = size;

    return NGX_OK;
}


static void
ngx_etcd_value_feed_add(ngx_etcd_value_feed_t *feed,
    ngx_etcd_value_change_t *change)
{
    ngx_etcd_value_change_t  *copy;

    copy = NULL;

    if (ngx_etcd_value_feed_room(feed) == NGX_OK) {
        copy = ngx_etcd_value_change_copy(feed->conf, change, feed->log);
    }

    if (copy == NULL) {
        feed->failed = 1;
        return;
    }

    feed->changes[feed->n++] = copy;
}


static void
ngx_etcd_value_feed_changed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    size_t                    len;
    ngx_etcd_value_feed_t    *feed;
    ngx_etcd_value_change_t   change;

    feed = mirror->data;
    len = feed->conf->literal.len;

    ngx_memzero(&change, sizeof(ngx_etcd_value_change_t));

    change.op = NGX_ETCD_VALUE_PUT;
    change.revision = entry->mod_revision;
    change.key.data = entry->key.data + len;
    change.key.len = entry->key.len - len;
    change.value = entry->value;

    ngx_etcd_value_trim(&change.value);

    change.source = ngx_etcd_value_conf_source(feed->conf, &entry->key,
                                               &change.value);

    if (mirror->listing && ngx_etcd_value_change_known(feed->conf, &change)) {
        return;
    }

    ngx_etcd_value_feed_add(feed, &change);
}


/* A list has its removals at its end. */

static void
ngx_etcd_value_feed_removed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    size_t                    len;
    ngx_etcd_value_feed_t    *feed;
    ngx_etcd_value_change_t   change;

    feed = mirror->data;
    len = feed->conf->literal.len;

    ngx_memzero(&change, sizeof(ngx_etcd_value_change_t));

    change.op = NGX_ETCD_VALUE_REMOVE;
    change.revision = mirror->listing ? NGX_ETCD_VALUE_FEED_LAST
                                      : (uint64_t) entry->mod_revision;
    change.key.data = entry->key.data + len;
    change.key.len = entry->key.len - len;

    ngx_etcd_value_feed_add(feed, &change);
}


static int ngx_libc_cdecl
ngx_etcd_value_feed_compare(const void *one, const void *two)
{
    uint64_t  first, second;

    first = (*(ngx_etcd_value_change_t **) one)->revision;
    second = (*(ngx_etcd_value_change_t **) two)->revision;

    return (first > second) - (first < second);
}


static void
ngx_etcd_value_feed_complete(ngx_etcd_mirror_t *mirror, int64_t revision)
{
    ngx_etcd_value_feed_t *feed = mirror->data;

    if (feed->failed) {
        feed->failed = 0;

        ngx_log_error(NGX_LOG_ERR, feed->log, 0,
                      "etcd: variable \"%V\": no memory for values below "
                      "\"%V\"", &feed->conf->name, &feed->conf->literal);

        ngx_etcd_mirror_again(mirror, NGX_ETCD_VALUE_FEED_AGAIN);
    }

    /* a list is in the order of keys: values of one revision belong together */

    if (mirror->relisted) {
        if (feed->n > feed->ready) {
            ngx_qsort(feed->changes + feed->ready, feed->n - feed->ready,
                      sizeof(ngx_etcd_value_change_t *),
                      ngx_etcd_value_feed_compare);
        }

        feed->sweep = 1;
        feed->chain = 0;
    }

    feed->ready = feed->n;
    feed->revision = revision;

    if (!feed->work.posted && !feed->work.timer_set) {
        ngx_etcd_value_feed_work(feed);
    }
}


static void
ngx_etcd_value_feed_denied(ngx_etcd_mirror_t *mirror,
    ngx_etcd_grpc_status_e status)
{
    ngx_etcd_value_feed_t *feed = mirror->data;

    if (status == NGX_ETCD_GRPC_PERMISSION_DENIED
        && ngx_etcd_zone_lock_owned(feed->conf->zone, 0) == NGX_OK)
    {
        feed->conf->map->state = NGX_ETCD_VALUE_DENIED;
        ngx_etcd_zone_unlock(feed->conf->zone);
    }
}


ngx_int_t
ngx_etcd_value_feed_start(ngx_etcd_value_feed_t *feed,
    ngx_etcd_watch_stream_t *stream, ngx_pool_t *pool)
{
    u_char                     *p;
    ngx_etcd_mirror_t          *mirror;
    ngx_etcd_value_map_conf_t  *conf;

    conf = feed->conf;
    mirror = &feed->mirror;

    if (conf->type == NGX_ETCD_VALUE_PEM) {
        ngx_etcd_secret_received = 1;

        feed->scratch = ngx_etcd_secret_palloc(pool, conf->max_size);
        if (feed->scratch == NULL) {
            return NGX_ERROR;
        }
    }

    ngx_etcd_event_init_timer(&feed->work, ngx_etcd_value_feed_handler, feed,
                              feed->log);

    ngx_etcd_event_init_timer(&feed->again, ngx_etcd_value_feed_again_handler,
                              feed, feed->log);

    mirror->wants = ngx_etcd_value_feed_wants;
    mirror->changed = ngx_etcd_value_feed_changed;
    mirror->removed = ngx_etcd_value_feed_removed;
    mirror->complete = ngx_etcd_value_feed_complete;
    mirror->denied = ngx_etcd_value_feed_denied;
    mirror->data = feed;

    mirror->watch.range.prefix = conf->literal;
    mirror->watch.range.exact = conf->exact;

    ngx_etcd_mirror_init(mirror, feed->log);

    p = ngx_pnalloc(pool, sizeof("etcd: variable \"\"") - 1 + conf->name.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    mirror->name.data = p;
    mirror->name.len = ngx_sprintf(p, "etcd: variable \"%V\"", &conf->name) - p;

    return ngx_etcd_mirror_start(mirror, stream);
}


void
ngx_etcd_value_feed_stop(ngx_etcd_value_feed_t *feed)
{
    ngx_uint_t  i;

    ngx_etcd_event_stop(&feed->work);
    ngx_etcd_event_stop(&feed->again);

    for (i = feed->next; i < feed->n; i++) {
        ngx_etcd_value_change_done(feed->conf, feed->changes[i]);
    }

    if (feed->changes != NULL) {
        ngx_free(feed->changes);
        feed->changes = NULL;
    }

    ngx_etcd_mirror_destroy(&feed->mirror);
}
