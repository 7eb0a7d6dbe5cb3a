
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_health.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_option.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_upstream.h>
#include <ngx_etcd_wait.h>


static ngx_etcd_option_t  ngx_etcd_wait_options[] = {

    { .name = ngx_string("queue="), .type = NGX_ETCD_OPTION_NUMBER,
      .offset = offsetof(ngx_etcd_wait_t, limit), .min = 1 },

    { .name = ngx_string("min="), .type = NGX_ETCD_OPTION_NUMBER,
      .offset = offsetof(ngx_etcd_wait_t, min), .min = 1 },

    { .name = ngx_string("full"), .type = NGX_ETCD_OPTION_FLAG,
      .offset = offsetof(ngx_etcd_wait_t, full) },

    ngx_etcd_null_option
};


static char *
ngx_etcd_wait_arguments(ngx_conf_t *cf, ngx_etcd_wait_t *wait)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_strlchr(value[1].data, value[1].data + value[1].len, '$')) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "variables are not supported in \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    wait->upstream = value[1];
    wait->timeout = ngx_parse_time(&value[2], 0);

    if (wait->timeout == (ngx_msec_t) NGX_ERROR || wait->timeout == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid time \"%V\"",
                           &value[2]);
        return NGX_CONF_ERROR;
    }

    wait->limit = NGX_ETCD_WAIT_QUEUE;
    wait->min = 1;

    return (ngx_etcd_option_read(cf, 3, ngx_etcd_wait_options, NULL, wait)
            == NGX_OK)
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_etcd_wait_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char *c = conf;

    ngx_str_t             *value;
    ngx_etcd_wait_t       *new, **wait;
    ngx_etcd_main_conf_t  *emcf;

    wait = (ngx_etcd_wait_t **) (c + cmd->offset);

    if (*wait != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts == 2) {

        if (ngx_strcmp(value[1].data, "off") != 0) {
            return "needs an upstream and a time, or \"off\"";
        }

        *wait = NULL;

        return NGX_CONF_OK;
    }

    new = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_wait_t));
    if (new == NULL) {
        return NGX_CONF_ERROR;
    }

    new->stream = (cmd->post != NULL);
    new->file = cf->conf_file->file.name.data;
    new->line = cf->conf_file->line;

    if (ngx_etcd_wait_arguments(cf, new) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    emcf = ngx_etcd_conf_main(cf->cycle);

    *wait = new;

    return (ngx_etcd_conf_push(&emcf->waits, new) == NGX_OK) ? NGX_CONF_OK
                                                             : NGX_CONF_ERROR;
}


/* Compares names of upstreams like nginx. */

static ngx_etcd_service_conf_t *
ngx_etcd_wait_find(ngx_etcd_main_conf_t *emcf, ngx_etcd_wait_t *wait)
{
    ngx_uint_t                i;
    ngx_etcd_upstream_t     **upstreams;
    ngx_etcd_service_conf_t  *service;

    upstreams = emcf->upstreams.elts;

    for (i = 0; i < emcf->upstreams.nelts; i++) {
        service = upstreams[i]->service;

        if (service != NULL
            && service->stream == wait->stream
            && ngx_etcd_str_alike(&service->line.upstream, &wait->upstream))
        {
            return service;
        }
    }

    return NULL;
}


ngx_int_t
ngx_etcd_wait_check(ngx_etcd_main_conf_t *emcf, ngx_log_t *log)
{
    ngx_uint_t                i;
    ngx_etcd_wait_t         **wait;
    ngx_etcd_service_conf_t  *line;

    wait = emcf->waits.elts;

    for (i = 0; i < emcf->waits.nelts; i++) {
        wait[i]->service = ngx_etcd_wait_find(emcf, wait[i]);

        if (wait[i]->service == NULL) {
            ngx_log_error(NGX_LOG_EMERG, log, 0,
                          "\"etcd_wait\" in %s:%ui: there is no %s upstream "
                          "\"%V\" with \"etcd_members\" or \"etcd_leader\"",
                          wait[i]->file, wait[i]->line,
                          wait[i]->stream ? "stream" : "http",
                          &wait[i]->upstream);
            return NGX_ERROR;
        }

        if (wait[i]->min > 1 && wait[i]->service->rules.sole) {
            ngx_log_error(NGX_LOG_EMERG, log, 0,
                          "\"etcd_wait\" in %s:%ui: upstream \"%V\" has one "
                          "leader, \"min=\" cannot be more",
                          wait[i]->file, wait[i]->line, &wait[i]->upstream);
            return NGX_ERROR;
        }

        wait[i]->service->awaited = ngx_max(wait[i]->service->awaited,
                                            wait[i]->timeout);

        /* requests wait for the first line, connections end in any line */

        for (line = wait[i]->service; line != NULL; line = line->line.next) {
            line->rules.queue |= wait[i]->full;
        }

        emcf->queues |= wait[i]->full;
    }

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_wait_needed(ngx_etcd_wait_t *wait, ngx_etcd_table_t *table)
{
    ngx_etcd_table_t  *line;

    for (line = table; line != NULL; line = line->conf->next) {
        ngx_etcd_table_follow(line);
    }

    return !ngx_etcd_table_any_has(table, wait->min - 1);
}


ngx_uint_t
ngx_etcd_wait_yields(ngx_etcd_wait_t *wait, ngx_etcd_table_t *table,
    ngx_etcd_wait_queue_entry_t *entry)
{
    ngx_etcd_wait_queue_t        *queue;
    ngx_etcd_wait_queue_entry_t  *first;

    queue = table->conn_queue;

    if (!wait->full || queue == NULL || queue->n == 0) {
        return 0;
    }

    /* a request that came before all those that wait passes them */

    first = ngx_etcd_wait_queue_first(queue);

    return entry == NULL
           || !entry->begun
           || (ngx_msec_int_t) (first->first - entry->first) < 0;
}


ngx_etcd_wait_queue_t *
ngx_etcd_wait_queue(ngx_etcd_wait_t *wait, ngx_etcd_table_t *table)
{
    ngx_uint_t         counts;
    ngx_etcd_table_t  *line;

    if (ngx_etcd_wait_needed(wait, table)) {
        return &table->wait_queue;
    }

    for (line = wait->full ? table : NULL; line != NULL;
         line = line->conf->next)
    {
        counts = ngx_etcd_table_counts(line);

        if (ngx_etcd_health_busy(&line->near, counts)
            || ngx_etcd_health_busy(&line->primary, counts)
            || ngx_etcd_health_busy(&line->backup, counts))
        {
            return ngx_etcd_conn_queue_get(table);
        }
    }

    return NULL;
}


static void
ngx_etcd_wait_many(ngx_etcd_wait_t *wait, ngx_uint_t full, ngx_pool_t *pool,
    ngx_log_t *log)
{
    ngx_uint_t  refused;

    ngx_etcd_outcome_refuse(wait->service->outcome, pool,
                            NGX_ETCD_REFUSAL_QUEUE_FULL);

    refused = ngx_etcd_refusal_due(&wait->refusals);

    if (refused != 0) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "no %s member in upstream \"%V\", and %ui requests wait "
                      "already; %ui refused",
                      full ? "free"
                      : (wait->min > 1) ? "further usable" : "usable",
                      &wait->upstream, wait->limit, refused);
    }
}


ngx_uint_t
ngx_etcd_wait_refuses(ngx_etcd_wait_t *wait, ngx_etcd_table_t *table,
    ngx_pool_t *pool, ngx_log_t *log)
{
    if (!wait->full
        || table->conn_queue == NULL
        || table->conn_queue->n == 0
        || ngx_etcd_table_waits(table) < wait->limit)
    {
        return 0;
    }

    ngx_etcd_wait_many(wait, 1, pool, log);

    return 1;
}


ngx_int_t
ngx_etcd_wait_begin(ngx_etcd_wait_t *wait, ngx_etcd_table_t *table,
    ngx_etcd_wait_queue_t *queue, ngx_etcd_wait_queue_entry_t *entry,
    ngx_pool_t *pool, ngx_log_t *log)
{
    char        *what;
    ngx_uint_t   full, other;

    full = (table != NULL && queue != &table->wait_queue);
    what = full ? "connection to a member" : "member";

    if (entry->waited >= wait->timeout) {

        if (full || wait->min == 1 || table == NULL
            || !ngx_etcd_table_any_has(table, 0))
        {
            ngx_etcd_refusal_set(pool, NGX_ETCD_REFUSAL_WAIT_TIMEOUT);
        }

        ngx_log_error(NGX_LOG_INFO, log, 0,
                      "timed out waiting for a %s of upstream \"%V\"", what,
                      &wait->upstream);
        return NGX_DECLINED;
    }

    entry->more = full ? 0 : wait->min - 1;

    other = (table != NULL) ? ngx_etcd_table_waits(table) - queue->n : 0;

    if (other < wait->limit
        && ngx_etcd_wait_queue_begin(entry, queue,
                                     wait->timeout - entry->waited,
                                     wait->limit - other, log)
           == NGX_OK)
    {
        ngx_log_error(NGX_LOG_INFO, log, 0,
                      "waiting for a %s of upstream \"%V\"", what,
                      &wait->upstream);
        return NGX_AGAIN;
    }

    ngx_etcd_wait_many(wait, full, pool, log);

    return NGX_BUSY;
}


ngx_int_t
ngx_etcd_wait_loading(ngx_etcd_wait_t *wait,
    ngx_etcd_wait_queue_entry_t *entry, ngx_pool_t *pool, ngx_log_t *log)
{
    ngx_etcd_catalog_conf_t  *catalog;

    catalog = ngx_etcd_catalog_of(wait->service);
    entry->hash = catalog->missed;

    return ngx_etcd_wait_begin(wait, NULL, &catalog->loading, entry, pool,
                               log);
}
