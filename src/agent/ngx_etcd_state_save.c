
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_state_save.h>
#include <ngx_etcd_value_map.h>


/* sets that are listed at a time */

#define NGX_ETCD_STATE_SAVE_PIECE  256


static ngx_int_t ngx_etcd_state_save_list(ngx_etcd_state_save_t *save);
static ngx_int_t ngx_etcd_state_save_sets(ngx_etcd_state_save_t *save,
    ngx_etcd_catalog_conf_t *catalog, uint64_t since);
static ngx_int_t ngx_etcd_state_save_copy(ngx_etcd_state_save_t *save);
static ngx_int_t ngx_etcd_state_save_copied(ngx_etcd_state_save_t *save);
static ngx_int_t ngx_etcd_state_save_known(ngx_etcd_state_save_t *save);
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
    ngx_uint_t                 i, n;
    ngx_pool_t                *pool;
    ngx_etcd_state_save_t     *save;
    ngx_etcd_snapshot_t       *snapshot;
    ngx_etcd_service_conf_t  **services;

    n = ngx_max(conf->services.nelts, 1);

    pool = ngx_create_pool(1024, log);
    if (pool == NULL) {
        return NULL;
    }

    save = ngx_pcalloc(pool, sizeof(ngx_etcd_state_save_t));

    if (save == NULL
        || (save->marks = ngx_pcalloc(pool, (n + conf->catalogs.nelts)
                                            * sizeof(
                                                  ngx_etcd_state_save_mark_t)))
           == NULL
        || ngx_array_init(&save->snapshots, pool, n,
                          sizeof(ngx_etcd_snapshot_t))
           != NGX_OK
        || ngx_array_init(&save->known, pool, n, sizeof(ngx_etcd_snapshot_t))
           != NGX_OK
        || ngx_array_init(&save->values, pool,
                          ngx_max(conf->value_maps.nelts, 1),
                          sizeof(ngx_etcd_state_value_t))
           != NGX_OK
        || ngx_etcd_atomic_file_init(&save->file, &conf->state_file, pool)
           != NGX_OK)
    {
        ngx_destroy_pool(pool);
        return NULL;
    }

    save->changes = ngx_pcalloc(pool, ngx_max(conf->value_maps.nelts, 1)
                                      * sizeof(ngx_atomic_uint_t));
    if (save->changes == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    save->conf = conf;
    save->pool = pool;
    save->log = log;
    save->done = done;
    save->data = data;

    services = conf->services.elts;

    for (i = 0; i < conf->services.nelts; i++) {
        snapshot = ngx_array_push(&save->snapshots);

        ngx_etcd_snapshot_init(snapshot, &conf->zone, services[i]->set,
                               &services[i]->name, &services[i]->prefix, log);
    }

    return save;
}


void
ngx_etcd_state_save_destroy(ngx_etcd_state_save_t *save)
{
    ngx_uint_t            i;
    ngx_etcd_snapshot_t  *snapshots;

    ngx_etcd_atomic_file_abandon(&save->file);

    if (save->text.data != NULL) {
        ngx_free(save->text.data);
    }

    snapshots = save->snapshots.elts;

    for (i = 0; i < save->snapshots.nelts; i++) {
        ngx_etcd_snapshot_destroy(&snapshots[i]);
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

    case NGX_ETCD_STATE_SAVE_ENCODING:
        rc = ngx_etcd_state_encode(&save->text);

        if (rc == NGX_OK) {
            save->state = NGX_ETCD_STATE_SAVE_WRITING;
            rc = NGX_AGAIN;
        }

        return rc;

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
        }

        n = catalog->service.source->restorable
            ? ngx_etcd_state_save_sets(save, catalog, mark->commits) : 0;

        if (n != 0) {
            return n;
        }

        save->catalog++;
        save->after = 0;
    }

    save->state = NGX_ETCD_STATE_SAVE_COPYING;

    return NGX_AGAIN;
}


/*
 * Lists some sets of a catalog: 0, if there are no more.  Any of them may be
 * newer than the revision up to which all are complete.  The next owner
 * resumes there.
 */

static ngx_int_t
ngx_etcd_state_save_sets(ngx_etcd_state_save_t *save,
    ngx_etcd_catalog_conf_t *catalog, uint64_t since)
{
    ngx_int_t              i, n;
    ngx_str_t              prefixes[NGX_ETCD_STATE_SAVE_PIECE];
    ngx_etcd_snapshot_t   *snapshot;
    ngx_etcd_set_found_t   found[NGX_ETCD_STATE_SAVE_PIECE];

    n = ngx_etcd_set_map_list(&save->conf->zone, catalog->map, catalog->map_id,
                              save->after, found, prefixes,
                              NGX_ETCD_STATE_SAVE_PIECE, save->pool);
    if (n <= 0) {
        return (n == NGX_AGAIN) ? NGX_BUSY : n;
    }

    for (i = 0; i < n; i++) {
        snapshot = ngx_array_push(&save->snapshots);
        if (snapshot == NULL) {
            return NGX_ERROR;
        }

        ngx_etcd_snapshot_init(snapshot, &save->conf->zone, found[i].set,
                               &catalog->service.name, &prefixes[i],
                               save->log);

        snapshot->id = found[i].set_id;
        snapshot->since = since;
        snapshot->pattern = catalog->pattern.text;

        save->after = found[i].set_id;
    }

    return NGX_AGAIN;
}


static ngx_int_t
ngx_etcd_state_save_copy(ngx_etcd_state_save_t *save)
{
    ngx_int_t             rc;
    ngx_uint_t            n;
    ngx_etcd_snapshot_t  *snapshot;

    snapshot = save->snapshots.elts;
    snapshot += save->copied;
    n = 0;

    while (save->copied < save->snapshots.nelts) {

        rc = ngx_etcd_snapshot_step(snapshot);
        if (rc != NGX_OK) {
            return rc;
        }

        n += snapshot->ncopied;
        snapshot++;
        save->copied++;

        if (n >= NGX_ETCD_SNAPSHOT_PIECE) {
            return NGX_AGAIN;
        }
    }

    rc = ngx_etcd_state_save_maps(save);

    return (rc == NGX_OK) ? ngx_etcd_state_save_copied(save) : rc;
}


/*
 * Sets without data are not saved; if there are no others, the old file
 * stays.  Leaders are not saved: a starting nginx cannot know whether they
 * are still leaders.
 */

static ngx_int_t
ngx_etcd_state_save_copied(ngx_etcd_state_save_t *save)
{
    ngx_int_t                 known;
    ngx_etcd_conf_t          *conf;
    ngx_etcd_state_t         *state;
    ngx_etcd_zone_cluster_t  *zc;

    known = ngx_etcd_state_save_known(save);

    if (known == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (known == NGX_DECLINED && !save->values_known) {
        return NGX_OK;
    }

    conf = save->conf;
    zc = &conf->zone.sh->cluster;

    state = &save->text.state;
    state->cluster = conf->name;
    state->key_namespace = conf->client.key_namespace;
    state->cluster_id = zc->cluster_id;
    state->revision = zc->revision;

    save->text.snapshots = &save->known;
    save->text.values = &save->values;
    save->text.log = save->log;
    save->state = NGX_ETCD_STATE_SAVE_ENCODING;

    return NGX_AGAIN;
}


/* NGX_DECLINED: no set is known. */

static ngx_int_t
ngx_etcd_state_save_known(ngx_etcd_state_save_t *save)
{
    ngx_uint_t                   i, n;
    ngx_etcd_snapshot_t         *snapshots, *known;
    ngx_etcd_service_conf_t    **services;
    ngx_etcd_state_save_mark_t  *marks;

    n = save->conf->services.nelts;
    services = save->conf->services.elts;
    snapshots = save->snapshots.elts;
    marks = save->marks;

    for (i = 0; i < save->snapshots.nelts; i++) {

        if (i < n) {
            marks[i].generation = snapshots[i].generation;
            marks[i].commits = snapshots[i].commits;
        }

        if (i < n ? services[i]->source->restorable
                    && ngx_etcd_state_known(&snapshots[i])
                  : snapshots[i].entries != NULL)
        {
            known = ngx_array_push(&save->known);
            if (known == NULL) {
                return NGX_ERROR;
            }

            *known = snapshots[i];
        }
    }

    if (save->known.nelts != 0) {
        return NGX_OK;
    }

    /* the last set may have gone */

    for (i = 0; i < save->conf->catalogs.nelts; i++) {
        if (marks[n + i].commits != 0) {
            return NGX_OK;
        }
    }

    return NGX_DECLINED;
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

        if (!maps[save->map]->secret) {

            /* the last value may have gone */

            save->values_known |= (maps[save->map]->map->revision != 0);

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

    u_char                      *p;
    size_t                       len;
    ngx_str_t                   *literal;
    ngx_etcd_state_value_t      *value;
    ngx_etcd_value_map_conf_t  **maps;

    if (node->modified == 0) {
        return NGX_OK;
    }

    maps = save->conf->value_maps.elts;
    literal = &maps[save->map]->literal;
    len = literal->len + node->key_len + node->len;

    value = ngx_array_push(&save->values);
    p = ngx_pnalloc(save->pool, ngx_max(len, 1));

    if (value == NULL || p == NULL) {
        return NGX_ERROR;
    }

    value->key.data = p;
    value->key.len = literal->len + node->key_len;
    value->value.data = p + value->key.len;
    value->value.len = node->len;
    value->modified = node->modified;

    p = ngx_cpymem(p, literal->data, literal->len);
    ngx_memcpy(p, node->data, node->key_len + node->len);

    save->values_known = 1;

    return NGX_OK;
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
