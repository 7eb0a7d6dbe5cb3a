
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_state_save.h>
#include <ngx_etcd_value_map.h>


/* sets that are listed at a time */

#define NGX_ETCD_STATE_SAVE_LIST   256

/* slots and entries at a time; doubled when a set is begun again */

#define NGX_ETCD_STATE_SAVE_PIECE  1024


static ngx_int_t ngx_etcd_state_save_list(ngx_etcd_state_save_t *save);
static ngx_int_t ngx_etcd_state_save_found(ngx_etcd_state_save_t *save,
    ngx_etcd_catalog_conf_t *catalog, uint64_t since);
static ngx_int_t ngx_etcd_state_save_copy(ngx_etcd_state_save_t *save);
static ngx_int_t ngx_etcd_state_save_set(ngx_etcd_state_save_t *save,
    ngx_etcd_state_save_set_t *set);
static ngx_int_t ngx_etcd_state_save_begin(ngx_etcd_state_save_t *save,
    ngx_etcd_state_save_set_t *set);
static ngx_int_t ngx_etcd_state_save_entries(ngx_etcd_state_save_t *save,
    ngx_etcd_member_set_t *set);
static ngx_int_t ngx_etcd_state_save_maps(ngx_etcd_state_save_t *save);
static ngx_int_t ngx_etcd_state_save_node(void *data,
    ngx_etcd_value_node_t *node);

#if (NGX_THREADS)
static void ngx_etcd_state_save_thread(void *data, ngx_log_t *log);
static void ngx_etcd_state_save_thread_done(ngx_event_t *ev);
#endif


ngx_etcd_state_save_t *
ngx_etcd_state_save_create(ngx_etcd_conf_t *conf, void (*done)(void *data),
    void *data, ngx_log_t *log)
{
    ngx_uint_t                  i, n;
    ngx_pool_t                 *pool;
    ngx_etcd_state_save_t      *save;
    ngx_etcd_service_conf_t   **services;
    ngx_etcd_state_save_set_t  *set;

    n = conf->services.nelts;

    pool = ngx_create_pool(1024, log);
    if (pool == NULL) {
        return NULL;
    }

    save = ngx_pcalloc(pool, sizeof(ngx_etcd_state_save_t));

    if (save == NULL
        || (save->marks = ngx_pcalloc(pool, (1 + n + conf->catalogs.nelts)
                                            * sizeof(
                                                  ngx_etcd_state_save_mark_t)))
           == NULL
        || (save->changes = ngx_pcalloc(pool, (1 + conf->value_maps.nelts)
                                              * sizeof(ngx_atomic_uint_t)))
           == NULL
        || ngx_array_init(&save->sets, pool, ngx_max(n, 1),
                          sizeof(ngx_etcd_state_save_set_t))
           != NGX_OK
        || ngx_etcd_atomic_file_init(&save->file, &conf->state_file, pool)
           != NGX_OK)
    {
        ngx_destroy_pool(pool);
        return NULL;
    }

    save->conf = conf;
    save->pool = pool;
    save->log = log;
    save->done = done;
    save->data = data;
    save->text.log = log;

    services = conf->services.elts;

    for (i = 0; i < n; i++) {
        set = ngx_array_push(&save->sets);

        ngx_memzero(set, sizeof(ngx_etcd_state_save_set_t));

        set->set = services[i]->set;
        set->service = services[i];
        set->prefix = services[i]->prefix;
    }

    return save;
}


void
ngx_etcd_state_save_destroy(ngx_etcd_state_save_t *save)
{
    ngx_etcd_atomic_file_abandon(&save->file);

    if (save->text.data != NULL) {
        ngx_free(save->text.data);
    }

    ngx_destroy_pool(save->pool);
}


ngx_int_t
ngx_etcd_state_save_step(ngx_etcd_state_save_t *save)
{
    ngx_int_t  rc;

    switch (save->state) {

    case NGX_ETCD_STATE_SAVE_LISTING:
        return ngx_etcd_state_save_list(save);

    case NGX_ETCD_STATE_SAVE_COPYING:
        return ngx_etcd_state_save_copy(save);

    case NGX_ETCD_STATE_SAVE_SEALING:
        ngx_etcd_state_seal(&save->text);
        save->state = NGX_ETCD_STATE_SAVE_WRITING;

        return NGX_AGAIN;

    default: /* NGX_ETCD_STATE_SAVE_WRITING */
        rc = ngx_etcd_atomic_file_write(&save->file, save->text.data,
                                        save->text.len);
        if (rc != NGX_OK) {
            return rc;
        }

        /* a newer owner may have saved a newer state */

        if (!ngx_etcd_zone_owned(&save->conf->zone)) {
            return NGX_DECLINED;
        }

        save->state = NGX_ETCD_STATE_SAVE_DONE;

        return ngx_etcd_atomic_file_publish(&save->file);
    }
}


/* The first record; once more, at the end, with what is known then. */

static ngx_int_t
ngx_etcd_state_save_origin(ngx_etcd_state_save_t *save)
{
    size_t                    len;
    ngx_int_t                 rc;
    ngx_etcd_state_record_t   record;
    ngx_etcd_zone_cluster_t  *cluster;

    cluster = &save->conf->zone.sh->cluster;
    len = save->text.len;

    ngx_memzero(&record, sizeof(ngx_etcd_state_record_t));

    record.kind = NGX_ETCD_STATE_ORIGIN;
    record.key = save->conf->name;
    record.data = save->conf->client.key_namespace;
    record.created = cluster->cluster_id;
    record.modified = cluster->revision;

    save->text.len = 0;
    rc = ngx_etcd_state_put(&save->text, &record);
    save->text.len = ngx_max(save->text.len, len);

    return rc;
}


/*
 * All sets are listed before the first one is copied: one that is made anew
 * meanwhile is copied at most once.
 */

static ngx_int_t
ngx_etcd_state_save_list(ngx_etcd_state_save_t *save)
{
    ngx_int_t                    n;
    ngx_etcd_conf_t             *conf;
    ngx_etcd_catalog_conf_t    **catalogs, *catalog;
    ngx_etcd_state_save_mark_t  *mark;

    conf = save->conf;
    catalogs = conf->catalogs.elts;

    while (save->catalog < conf->catalogs.nelts) {
        catalog = catalogs[save->catalog];
        mark = &save->marks[conf->services.nelts + save->catalog];

        if (save->after == 0) {
            mark->generation = catalog->map->generation;
            mark->commits = catalog->map->revision;

            /* the last set may have gone */

            save->known |= (mark->commits != 0);
        }

        n = catalog->service.source->restorable
            ? ngx_etcd_state_save_found(save, catalog, mark->commits) : 0;

        if (n != 0) {
            return n;
        }

        save->catalog++;
        save->after = 0;
    }

    save->state = NGX_ETCD_STATE_SAVE_COPYING;

    return (ngx_etcd_state_save_origin(save) == NGX_OK) ? NGX_AGAIN
                                                        : NGX_ERROR;
}


/*
 * Lists some sets of a catalog: 0, if there are no more.  Any of them may be
 * newer than the revision up to which all are complete.  The next owner
 * resumes there.
 */

static ngx_int_t
ngx_etcd_state_save_found(ngx_etcd_state_save_t *save,
    ngx_etcd_catalog_conf_t *catalog, uint64_t since)
{
    ngx_int_t                   i, n;
    ngx_str_t                   prefixes[NGX_ETCD_STATE_SAVE_LIST];
    ngx_etcd_set_list_t         list;
    ngx_etcd_set_found_t        found[NGX_ETCD_STATE_SAVE_LIST];
    ngx_etcd_state_save_set_t  *set;

    list.id = catalog->map_id;
    list.after = save->after;
    list.room = NGX_ETCD_STATE_SAVE_LIST;
    list.found = found;
    list.prefixes = prefixes;

    n = ngx_etcd_set_map_list(&save->conf->zone, catalog->map, &list,
                              save->pool);
    if (n <= 0) {
        return (n == NGX_AGAIN) ? NGX_BUSY : n;
    }

    for (i = 0; i < n; i++) {
        set = ngx_array_push(&save->sets);
        if (set == NULL) {
            return NGX_ERROR;
        }

        set->set = found[i].set;
        set->id = found[i].set_id;
        set->service = &catalog->service;
        set->prefix = prefixes[i];
        set->pattern = catalog->pattern.text;
        set->since = since;

        save->after = found[i].set_id;
    }

    return NGX_AGAIN;
}


/*
 * Leaders are not saved: a starting nginx cannot know whether they are still
 * leaders.  If nothing is known, the old file stays.
 */

static ngx_int_t
ngx_etcd_state_save_copy(ngx_etcd_state_save_t *save)
{
    ngx_int_t                   rc;
    ngx_etcd_state_record_t     record;
    ngx_etcd_state_save_set_t  *set;

    set = save->sets.elts;
    save->copied = 0;

    while (save->current.set < save->sets.nelts) {

        if (save->copied >= NGX_ETCD_STATE_SAVE_PIECE) {
            return NGX_AGAIN;
        }

        rc = ngx_etcd_state_save_set(save, &set[save->current.set]);
        if (rc != NGX_OK) {
            return rc;
        }

        save->current.set++;
        save->current.piece = 0;
    }

    rc = ngx_etcd_state_save_maps(save);

    if (rc != NGX_OK || !save->known) {
        return rc;
    }

    ngx_memzero(&record, sizeof(ngx_etcd_state_record_t));

    record.kind = NGX_ETCD_STATE_END;

    if (ngx_etcd_state_save_origin(save) != NGX_OK
        || ngx_etcd_state_put(&save->text, &record) != NGX_OK)
    {
        return NGX_ERROR;
    }

    save->state = NGX_ETCD_STATE_SAVE_SEALING;

    return NGX_AGAIN;
}


/*
 * Copies a piece of a set, or begins again if the set has changed: the text is
 * of one moment.  If changes are faster than pieces, the piece grows until it
 * holds the whole set: the owner does not change the set while it copies one.
 * The mutex is held no longer than a reader holds it.  The owner may read
 * without the mutex what only the owner changes.
 */

static ngx_int_t
ngx_etcd_state_save_set(ngx_etcd_state_save_t *save,
    ngx_etcd_state_save_set_t *set)
{
    ngx_int_t                       rc;
    ngx_uint_t                      n;
    ngx_etcd_state_save_current_t  *at;

    at = &save->current;

    if (at->piece == 0) {
        at->start = save->text.len;
    }

    n = 0;

    do {

        if (set->id != 0 && set->set->object.id != set->id) {
            save->text.len = at->start;
            return NGX_OK;
        }

        if (at->piece == 0 || at->commits != set->set->commit.number) {
            if (ngx_etcd_state_save_begin(save, set) != NGX_OK) {
                return NGX_ERROR;
            }

            if (!set->service->source->restorable) {
                save->text.len = at->start;
                return NGX_OK;
            }
        }

        if (ngx_etcd_state_reserve(&save->text) != NGX_OK) {
            return NGX_ERROR;
        }

        if (ngx_etcd_zone_lock(&save->conf->zone) != NGX_OK) {
            return NGX_BUSY;
        }

        rc = ngx_etcd_zone_owned(&save->conf->zone)
             ? ngx_etcd_state_save_entries(save, set->set) : NGX_DECLINED;

        ngx_etcd_zone_unlock(&save->conf->zone);

        n += NGX_ETCD_MEMBER_SET_PIECE;

    } while (rc == NGX_AGAIN && n < at->piece);

    if (rc != NGX_OK) {
        return rc;
    }

    /* a set without data is not saved */

    if (save->text.len == at->members
        && (set->id != 0 || at->revision == 0))
    {
        save->text.len = at->start;
        return NGX_OK;
    }

    save->known = 1;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_state_save_begin(ngx_etcd_state_save_t *save,
    ngx_etcd_state_save_set_t *set)
{
    ngx_str_t                       name;
    ngx_etcd_member_set_t          *ms;
    ngx_etcd_state_record_t         record;
    ngx_etcd_state_save_mark_t     *mark;
    ngx_etcd_state_save_current_t  *at;

    ms = set->set;
    at = &save->current;

    at->piece = at->piece ? 2 * at->piece : NGX_ETCD_STATE_SAVE_PIECE;
    at->commits = ms->commit.number;
    save->text.len = at->start;

    ngx_memzero(&at->walk, sizeof(ngx_etcd_entry_walk_t));

    if (set->id == 0) {
        mark = &save->marks[at->set];
        mark->generation = ms->generation;
        mark->commits = ms->commit.number;
    }

    /*
     * Invalid and unused keys are not copied, and a pending commit is
     * incomplete: in these cases the set must be listed again.
     */

    at->revision = (ms->ninvalid == 0 && !ngx_etcd_unused_any(ms)
                    && !ms->commit.unfinished)
                   ? ms->revision : 0;

    if (set->id != 0 && at->revision != 0) {
        at->revision = set->since;
    }

    ngx_memzero(&record, sizeof(ngx_etcd_state_record_t));

    record.kind = NGX_ETCD_STATE_SET;
    record.flags = ngx_etcd_member_set_stream(ms) ? NGX_ETCD_STATE_STREAM : 0;
    record.modified = at->revision;
    record.lease = ms->params;
    record.key = set->prefix;

    if (ms->held_until != 0) {

        /* in s since the epoch: it outlives a boot */

        record.created = ngx_time() + ((int64_t) (ms->held_until
                                                  - ngx_etcd_clock())
                                       + 500) / 1000;
    }

    name = set->service->line.upstream;
    record.data = name;

    if (set->id != 0) {
        record.data.len = name.len + 1 + set->pattern.len;
        record.data.data = ngx_pnalloc(save->pool, record.data.len);

        if (record.data.data == NULL) {
            return NGX_ERROR;
        }

        (void) ngx_sprintf(record.data.data, "%V%Z%V", &name, &set->pattern);
    }

    if (ngx_etcd_state_put(&save->text, &record) != NGX_OK) {
        return NGX_ERROR;
    }

    at->members = save->text.len;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_state_save_entry(ngx_etcd_state_save_t *save,
    ngx_etcd_entry_t *entry)
{
    u_char                   data[NGX_ETCD_STATE_MEMBER_MAX];
    ngx_etcd_state_record_t  record;

    record.kind = NGX_ETCD_STATE_MEMBER;
    record.flags = (entry->gone ? NGX_ETCD_STATE_GONE : 0)
                   | (entry->gone == NGX_ETCD_ENTRY_HELD ? NGX_ETCD_STATE_HELD
                                                         : 0);
    record.created = entry->create_revision;
    record.modified = entry->mod_revision;
    record.lease = entry->lease;
    ngx_str_null(&record.literal);
    record.key.data = entry->bytes;
    record.key.len = entry->key_len;
    record.data.data = data;
    record.data.len = ngx_etcd_state_member(data,
                                            ngx_etcd_entry_payload(entry));

    return ngx_etcd_state_put(&save->text, &record);
}


/* Static servers, which have no key, are not copied. */

static ngx_int_t
ngx_etcd_state_save_entries(ngx_etcd_state_save_t *save,
    ngx_etcd_member_set_t *set)
{
    ngx_uint_t         i;
    ngx_etcd_zone_t   *zone;
    ngx_etcd_entry_t  *entry;

    zone = &save->conf->zone;

    for (i = 0; i < NGX_ETCD_MEMBER_SET_PIECE; i++) {

        if (!ngx_etcd_entry_walk_next(zone, set, &save->current.walk)) {
            return NGX_OK;
        }

        save->copied++;

        entry = ngx_etcd_zone_at(zone, save->current.walk.entry);

        if (entry != NULL
            && entry->key_len != 0
            && ngx_etcd_state_save_entry(save, entry) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_AGAIN;
}


/* Copies the values of maps in pieces; private keys are not saved. */

static ngx_int_t
ngx_etcd_state_save_maps(ngx_etcd_state_save_t *save)
{
    ngx_int_t                    rc;
    ngx_etcd_value_map_conf_t  **maps;

    maps = save->conf->value_maps.elts;

    while (save->map < save->conf->value_maps.nelts) {

        if (save->chain == 0) {
            save->changes[save->map] = maps[save->map]->map->changes;
        }

        if (maps[save->map]->type != NGX_ETCD_VALUE_PEM) {

            /* the last value may have gone */

            save->known |= (maps[save->map]->map->revision != 0);

            if (ngx_etcd_state_reserve(&save->text) != NGX_OK) {
                return NGX_ERROR;
            }

            rc = ngx_etcd_value_map_each(maps[save->map], &save->chain,
                                         ngx_etcd_state_save_node, save);
            if (rc != NGX_OK) {
                return rc;
            }
        }

        save->map++;
        save->chain = 0;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_state_save_node(void *data, ngx_etcd_value_node_t *node)
{
    ngx_etcd_state_save_t *save = data;

    ngx_etcd_state_record_t      record;
    ngx_etcd_value_map_conf_t  **maps;

    if (node->modified == 0) {
        return NGX_OK;
    }

    maps = save->conf->value_maps.elts;

    ngx_memzero(&record, sizeof(ngx_etcd_state_record_t));

    record.kind = NGX_ETCD_STATE_VALUE;
    record.modified = node->modified;
    record.literal = maps[save->map]->literal;
    record.key.data = node->data;
    record.key.len = node->key_len;
    record.data.data = node->data + node->key_len;
    record.data.len = node->len;

    save->known = 1;

    return ngx_etcd_state_put(&save->text, &record);
}


ngx_int_t
ngx_etcd_state_save_post(ngx_etcd_state_save_t *save)
{
#if (NGX_THREADS)

    ngx_str_t            name;
    ngx_thread_pool_t   *tp;

    if (ngx_process != NGX_PROCESS_WORKER) {
        return NGX_DECLINED;
    }

    ngx_str_set(&name, "default");

    tp = ngx_thread_pool_get((ngx_cycle_t *) ngx_cycle, &name);
    if (tp == NULL) {
        return NGX_DECLINED;
    }

    save->task.handler = ngx_etcd_state_save_thread;
    save->task.ctx = save;

    ngx_etcd_event_init(&save->task.event, ngx_etcd_state_save_thread_done,
                        save, save->log);

    save->holder = NGX_ETCD_STATE_SAVE_THREADED;

    if (ngx_thread_task_post(tp, &save->task) == NGX_OK) {
        return NGX_OK;
    }

    save->holder = NGX_ETCD_STATE_SAVE_MINE;

#endif

    return NGX_DECLINED;
}


#if (NGX_THREADS)

static void
ngx_etcd_state_save_thread(void *data, ngx_log_t *log)
{
    ngx_etcd_state_save_t *save = data;

    ngx_int_t  rc;

    do {
        rc = ngx_etcd_state_save_step(save);
    } while (rc == NGX_AGAIN);

    save->rc = rc;

    ngx_memory_barrier();

    save->holder = NGX_ETCD_STATE_SAVE_RETURNED;
}


static void
ngx_etcd_state_save_thread_done(ngx_event_t *ev)
{
    ngx_etcd_state_save_t  *save;

    save = ev->data;

    save->done(save->data);
}

#endif
