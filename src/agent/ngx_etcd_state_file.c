
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_restore.h>
#include <ngx_etcd_state_file.h>
#include <ngx_etcd_state_save.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_value_conf.h>


#define NGX_ETCD_STATE_FILE_NAME   ".state"
#define NGX_ETCD_STATE_FILE_OLD    ".json"    /* of version 1 */

#define NGX_ETCD_STATE_FILE_PIECE  1           /* ms between steps */
#define NGX_ETCD_STATE_FILE_TRIES  100         /* attempts to lock, on exit */


char *
ngx_etcd_state_file_path(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "is empty";
    }

    return ngx_conf_set_path_slot(cf, cmd, conf);
}


/*
 * No threads without a master process: after a reload such a process has
 * thread pools that were never started, and fails when it stops them.
 */

static char *
ngx_etcd_state_file_threads(ngx_conf_t *cf)
{
#if (NGX_THREADS)

    ngx_core_conf_t  *ccf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(cf->cycle->conf_ctx,
                                           ngx_core_module);

    if (ccf->master != 0 && ngx_thread_pool_add(cf, NULL) == NULL) {
        return NGX_CONF_ERROR;
    }

#endif

    return NGX_CONF_OK;
}


char *
ngx_etcd_state_file_conf(ngx_conf_t *cf, ngx_etcd_conf_t *ecf)
{
    u_char           *p;
    ngx_str_t        *dir;
    ngx_file_info_t   fi;

    if (ecf->state_path == NULL) {
        return NGX_CONF_OK;
    }

    dir = &ecf->state_path->name;
    dir->data[dir->len] = '\0';

    if (ngx_strlchr(ecf->name.data, ecf->name.data + ecf->name.len, '/')
        != NULL)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "etcd cluster name \"%V\" is not a valid file name, "
                           "which \"state_path\" requires", &ecf->name);
        return NGX_CONF_ERROR;
    }

    /* missing directories are created later, like those of all paths */

    if (ngx_file_info(dir->data, &fi) != NGX_FILE_ERROR && !ngx_is_dir(&fi)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"state_path\" \"%V\" is not a directory", dir);
        return NGX_CONF_ERROR;
    }

    p = ngx_pnalloc(cf->pool, dir->len + 1 + ecf->name.len
                              + sizeof(NGX_ETCD_STATE_FILE_NAME));
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    ecf->state_file.data = p;
    ecf->state_file.len = ngx_sprintf(p, "%V/%V" NGX_ETCD_STATE_FILE_NAME "%Z",
                                      dir, &ecf->name)
                          - p - 1;

    return ngx_etcd_state_file_threads(cf);
}


static ngx_uint_t
ngx_etcd_state_file_below(ngx_cycle_t *cycle, ngx_str_t *dir)
{
    ngx_str_t    *name;
    ngx_uint_t    i;
    ngx_path_t  **path;

    path = cycle->paths.elts;

    for (i = 0; i < cycle->paths.nelts; i++) {
        name = &path[i]->name;

        if (name->len < dir->len
            && dir->data[name->len] == '/'
            && ngx_strncmp(name->data, dir->data, name->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/*
 * nginx creates all paths next, and would not say where this one is configured.
 * Other paths are not created yet: the directory may be below one of them.
 */

ngx_int_t
ngx_etcd_state_file_create(ngx_etcd_conf_t *conf, ngx_cycle_t *cycle)
{
    ngx_err_t    err;
    ngx_path_t  *path;

    path = conf->state_path;

    if (path == NULL || ngx_process == NGX_PROCESS_SIGNALLER
        || ngx_create_dir(path->name.data, 0700) != NGX_FILE_ERROR)
    {
        return NGX_OK;
    }

    err = ngx_errno;

    if (err == NGX_EEXIST
        || (err == NGX_ENOENT
            && ngx_etcd_state_file_below(cycle, &path->name)))
    {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, cycle->log, err,
                  "\"state_path\" in %s:%ui: " ngx_create_dir_n
                  " \"%V\" failed", path->conf_file, path->line,
                  ngx_etcd_shown(&path->name));

    return NGX_ERROR;
}


static void
ngx_etcd_state_file_report(ngx_etcd_state_file_t *sf,
    ngx_etcd_state_save_t *save)
{
    ngx_str_t   what;
    ngx_uint_t  level;

    if (save->rc == NGX_ERROR) {
        ngx_str_null(&what);

        if (save->file.failed != NULL) {
            what.data = (u_char *) save->file.failed;
            what.len = ngx_strlen(what.data);
        }

        level = ngx_etcd_cause_level(&sf->causes, save->file.err, &what);

        ngx_log_error(level, sf->log, save->file.err,
                      "etcd cluster \"%V\": its state cannot be saved: "
                      "%s \"%V\" failed",
                      &sf->conf->name,
                      save->file.failed ? save->file.failed
                                        : "making the text of",
                      &sf->conf->state_file);
        return;
    }

    if (save->rc == NGX_OK && save->state == NGX_ETCD_STATE_SAVE_DONE) {

        ngx_log_debug2(NGX_LOG_DEBUG_CORE, sf->log, 0,
                       "etcd cluster \"%V\": state saved, %uz bytes",
                       &sf->conf->name, save->text.len);

        if (ngx_etcd_cause_forget(&sf->causes)) {
            ngx_log_error(NGX_LOG_NOTICE, sf->log, 0,
                          "etcd cluster \"%V\": its state is saved again",
                          &sf->conf->name);
        }
    }
}


/* The current save has ended, successfully or not. */

static void
ngx_etcd_state_file_done(void *data)
{
    ngx_etcd_state_file_t *sf = data;

    ngx_etcd_state_save_t  *save;

    save = sf->save;
    sf->save = NULL;

    if (!save->canceled) {
        ngx_etcd_state_file_report(sf, save);
    }

    if (save->rc == NGX_OK && !save->canceled) {
        ngx_memcpy(sf->marks, save->marks,
                   (sf->conf->services.nelts + sf->conf->catalogs.nelts)
                   * sizeof(ngx_etcd_state_save_mark_t));

        ngx_memcpy(sf->changes, save->changes,
                   sf->conf->value_maps.nelts * sizeof(ngx_atomic_uint_t));

        sf->saved = 1;
    }

    ngx_etcd_state_save_destroy(save);
}


static void
ngx_etcd_state_file_event(ngx_event_t *ev)
{
    ngx_etcd_state_save_t  *save;
    ngx_etcd_state_file_t  *sf;

    sf = ev->data;
    save = sf->save;

    save->rc = ngx_etcd_state_save_step(save);

    if (save->rc == NGX_AGAIN
        && save->state == NGX_ETCD_STATE_SAVE_SEALING
        && ngx_etcd_state_save_post(save) == NGX_OK)
    {
        return;
    }

    if (save->rc == NGX_AGAIN || save->rc == NGX_BUSY) {
        ngx_add_timer(ev, NGX_ETCD_STATE_FILE_PIECE);
        return;
    }

    ngx_etcd_state_file_done(sf);
}


ngx_int_t
ngx_etcd_state_file_init(ngx_etcd_state_file_t *sf, ngx_etcd_conf_t *conf,
    ngx_cycle_t *cycle)
{
    ngx_memzero(sf, sizeof(ngx_etcd_state_file_t));

    sf->conf = conf;
    sf->log = cycle->log;

    ngx_etcd_event_init_timer(&sf->event, ngx_etcd_state_file_event, sf,
                              cycle->log);

    if (conf->state_path == NULL) {
        return NGX_OK;
    }

    sf->marks = ngx_pcalloc(cycle->pool,
                            (1 + conf->services.nelts + conf->catalogs.nelts)
                            * sizeof(ngx_etcd_state_save_mark_t));

    sf->changes = ngx_pcalloc(cycle->pool, (1 + conf->value_maps.nelts)
                                           * sizeof(ngx_atomic_uint_t));

    return (sf->marks != NULL && sf->changes != NULL) ? NGX_OK : NGX_ERROR;
}


static ngx_uint_t
ngx_etcd_state_file_changed(ngx_etcd_state_file_t *sf,
    ngx_etcd_state_save_mark_t *mark, ngx_atomic_uint_t generation,
    ngx_uint_t commits, ngx_msec_t elapsed)
{
    if (elapsed >= NGX_ETCD_STATE_FILE_INTERVAL
        && (!sf->saved || generation != mark->generation))
    {
        return 1;
    }

    return elapsed >= NGX_ETCD_STATE_FILE_REVISION && commits != mark->commits;
}


static ngx_uint_t
ngx_etcd_state_file_due(ngx_etcd_state_file_t *sf, ngx_msec_t elapsed)
{
    ngx_uint_t                    i;
    ngx_etcd_set_map_t           *map;
    ngx_etcd_member_set_t        *set;
    ngx_etcd_catalog_conf_t     **catalogs;
    ngx_etcd_service_conf_t     **services;
    ngx_etcd_value_map_conf_t   **maps;
    ngx_etcd_state_save_mark_t   *mark;

    services = sf->conf->services.elts;
    mark = sf->marks;

    for (i = 0; i < sf->conf->services.nelts; i++) {
        set = services[i]->set;

        if (ngx_etcd_state_file_changed(sf, mark++, set->generation,
                                        set->commit.number, elapsed))
        {
            return 1;
        }
    }

    catalogs = sf->conf->catalogs.elts;

    for (i = 0; i < sf->conf->catalogs.nelts; i++) {
        map = catalogs[i]->map;

        if (ngx_etcd_state_file_changed(sf, mark++, map->generation,
                                        map->revision, elapsed))
        {
            return 1;
        }
    }

    if (elapsed < NGX_ETCD_STATE_FILE_INTERVAL) {
        return 0;
    }

    maps = sf->conf->value_maps.elts;

    for (i = 0; i < sf->conf->value_maps.nelts; i++) {
        if (!sf->saved || maps[i]->map->changes != sf->changes[i]) {
            return 1;
        }
    }

    return 0;
}


void
ngx_etcd_state_file_tick(ngx_etcd_state_file_t *sf)
{
    ngx_msec_t  elapsed;

    if (sf->conf->state_path == NULL || sf->save != NULL) {
        return;
    }

    elapsed = ngx_current_msec - sf->started;

    if (ngx_etcd_cause_any(&sf->causes)
        && elapsed < NGX_ETCD_STATE_FILE_RETRY)
    {
        return;
    }

    if (!ngx_etcd_state_file_due(sf, elapsed)) {
        return;
    }

    sf->started = ngx_current_msec;
    sf->save = ngx_etcd_state_save_create(sf->conf, ngx_etcd_state_file_done,
                                          sf, sf->log);

    if (sf->save != NULL) {
        ngx_etcd_state_file_event(&sf->event);
    }
}


void
ngx_etcd_state_file_cancel(ngx_etcd_state_file_t *sf)
{
    ngx_etcd_state_save_t  *save;

    sf->saved = 0;

    save = sf->save;

    if (save == NULL) {
        return;
    }

    save->canceled = 1;

    /* a save that a thread holds ends when the thread returns it */

    if (save->holder != NGX_ETCD_STATE_SAVE_MINE) {
        return;
    }

    ngx_etcd_event_stop(&sf->event);

    ngx_etcd_state_file_done(sf);
}


void
ngx_etcd_state_file_finish(ngx_etcd_state_file_t *sf)
{
    ngx_uint_t              saved, tries;
    ngx_etcd_state_save_t  *save;

    if (sf->conf->state_path == NULL) {
        return;
    }

    save = sf->save;

    if (save != NULL) {

        /*
         * The thread pool, and with it all tasks, has ended by now; otherwise
         * the disk hangs, and the process must not wait for it.
         */

        if (save->holder == NGX_ETCD_STATE_SAVE_THREADED) {
            return;
        }

        saved = sf->saved;

        if (save->holder == NGX_ETCD_STATE_SAVE_RETURNED) {
            ngx_etcd_state_file_done(sf);

        } else {
            ngx_etcd_state_file_cancel(sf);
            sf->saved = saved;
        }
    }

    if (!ngx_etcd_state_file_due(sf, NGX_ETCD_STATE_FILE_REVISION)) {
        return;
    }

    sf->save = ngx_etcd_state_save_create(sf->conf,
                                          ngx_etcd_state_file_done, sf,
                                          sf->log);

    if (sf->save == NULL) {
        return;
    }

    save = sf->save;

    tries = 0;

    do {
        save->rc = ngx_etcd_state_save_step(save);

        if (save->rc == NGX_BUSY) {
            tries++;
        }

    } while (save->rc == NGX_AGAIN
             || (save->rc == NGX_BUSY && tries < NGX_ETCD_STATE_FILE_TRIES));

    ngx_etcd_state_file_done(sf);
}


/* Returns 1 for the path of a file of version 1, which had another name. */

static ngx_uint_t
ngx_etcd_state_file_old(ngx_str_t *path, ngx_pool_t *pool)
{
    u_char           *p;
    ngx_file_info_t   fi;

    path->len -= sizeof(NGX_ETCD_STATE_FILE_NAME) - 1;

    p = ngx_pnalloc(pool, path->len + sizeof(NGX_ETCD_STATE_FILE_OLD));
    if (p == NULL) {
        return 0;
    }

    path->len = ngx_sprintf(p, "%V" NGX_ETCD_STATE_FILE_OLD "%Z", path) - p - 1;
    path->data = p;

    return ngx_file_info(p, &fi) != NGX_FILE_ERROR;
}


void
ngx_etcd_state_file_restore(ngx_etcd_conf_t *conf, ngx_log_t *log)
{
    char                *why;
    ngx_err_t            err;
    ngx_int_t            rc;
    ngx_str_t            text, path;
    ngx_pool_t          *pool;
    ngx_etcd_restore_t   restore;

    if (conf->state_path == NULL || ngx_test_config) {
        return;
    }

    pool = ngx_create_pool(4096, log);
    if (pool == NULL) {
        return;
    }

    ngx_etcd_atomic_file_clean(&conf->state_path->name, &conf->state_file, log);

    ngx_memzero(&restore, sizeof(ngx_etcd_restore_t));

    restore.conf = conf;
    restore.pool = pool;

    err = 0;
    rc = ngx_etcd_atomic_file_read(&conf->state_file,
                                   NGX_ETCD_STATE_FILE_LIMIT * conf->zone_size,
                                   pool, &text, &why, &err);

    if (rc == NGX_ERROR) {
        restore.reason.data = (u_char *) why;
        restore.reason.len = ngx_strlen(why);
    }

    if (rc == NGX_OK) {
        rc = ngx_etcd_restore(&restore, &text);
    }

    path = conf->state_file;

    if (rc == NGX_DECLINED && ngx_etcd_state_file_old(&path, pool)) {
        ngx_str_set(&restore.reason, "its version is 1, not "
                                     ngx_value(NGX_ETCD_STATE_VERSION));
        rc = NGX_ERROR;
        err = 0;
    }

    if (rc == NGX_ERROR) {
        ngx_log_error(NGX_LOG_ERR, log, err,
                      "etcd cluster \"%V\": state file \"%V\" is not used: %V",
                      &conf->name, ngx_etcd_shown(&path), &restore.reason);
    }

    if (rc == NGX_OK) {
        conf->zone.sh->cluster.cluster_id = restore.cluster_id;
        conf->zone.sh->cluster.revision = restore.revision;
        conf->zone.sh->id.id = restore.cluster_id;

        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "etcd cluster \"%V\": %ui members of revision %uL are "
                      "from state file \"%V\"",
                      &conf->name, restore.nmembers, restore.revision,
                      &conf->state_file);
    }

    ngx_destroy_pool(pool);
}
