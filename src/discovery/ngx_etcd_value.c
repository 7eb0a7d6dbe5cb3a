
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_escape.h>
#include <ngx_etcd_value.h>


/* ms until a zone whose mutex was held is tried again */

#define NGX_ETCD_VALUE_BUSY  50


typedef struct {
    ngx_etcd_values_t           *values;
    ngx_etcd_value_conf_t       *conf;
    ngx_etcd_watch_t             watch;
    ngx_etcd_cell_view_t         view;         /* as it is to be */
    ngx_event_t                  retry;        /* the mutex was held */
    ngx_etcd_grpc_status_e       refused;      /* by etcd, and logged */
    ngx_uint_t                   found;        /* by the present list */
} ngx_etcd_value_t;


struct ngx_etcd_values_s {
    ngx_etcd_zone_t             *zone;
    ngx_etcd_value_t            *list;
    ngx_uint_t                   n;
    ngx_log_t                   *log;

    /* the owner's: the zone is up to date; the zone was taken over */
    void                       (*written)(void *data);
    void                       (*lost)(void *data);
    void                        *data;
};


static void ngx_etcd_value_init(ngx_etcd_value_t *value,
    ngx_etcd_values_t *values, ngx_etcd_value_conf_t *conf);
static void ngx_etcd_value_list(ngx_etcd_watch_t *watch);
static ngx_int_t ngx_etcd_value_keys(ngx_etcd_watch_t *watch,
    Etcd__KeyValue **kvs, size_t n);
static void ngx_etcd_value_listed(ngx_etcd_watch_t *watch, int64_t revision);
static void ngx_etcd_value_events(ngx_etcd_watch_t *watch,
    Etcd__Event **events, size_t n, int64_t revision);
static void ngx_etcd_value_failed(ngx_etcd_watch_t *watch,
    ngx_etcd_grpc_status_e status, ngx_str_t *text);
static void ngx_etcd_value_put(ngx_etcd_value_t *value, Etcd__KeyValue *kv);
static void ngx_etcd_value_invalid(ngx_etcd_value_t *value,
    Etcd__KeyValue *kv, ngx_str_t *reason);
static void ngx_etcd_value_none(ngx_etcd_value_t *value);
static void ngx_etcd_value_known(ngx_etcd_value_t *value, int64_t revision);
static void ngx_etcd_value_write(ngx_etcd_value_t *value);
static void ngx_etcd_value_retry(ngx_event_t *ev);


ngx_int_t
ngx_etcd_value_declare(ngx_etcd_value_conf_t *conf, ngx_str_t *ns,
    ngx_etcd_zone_t *zone, ngx_etcd_zone_t *old)
{
    ngx_str_t         key;
    ngx_etcd_cell_t  *cell;

    /* in another namespace it is another key */

    key.len = ns->len + conf->key.len;
    key.data = ngx_alloc(key.len, ngx_cycle->log);
    if (key.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(ngx_cpymem(key.data, ns->data, ns->len), conf->key.data,
               conf->key.len);

    cell = ngx_etcd_cell_declare(zone, &key);

    ngx_free(key.data);

    if (cell == NULL) {
        return NGX_ERROR;
    }

    conf->cell = cell;
    conf->id = cell->id;

    return (old != NULL) ? ngx_etcd_cell_inherit(cell, old) : NGX_OK;
}


ngx_etcd_cell_view_t *
ngx_etcd_value_get(ngx_etcd_value_conf_t *conf)
{
    ngx_etcd_cell_read(conf->cell, conf->id, &conf->version, &conf->copy);

    return &conf->copy;
}


/* ngx_etcd_variable_value() would give it no value: the last good one stays */

ngx_str_t *
ngx_etcd_value_refuse(ngx_str_t *value, u_char *buf, ngx_str_t *reason)
{
    char    *what;
    size_t   i;

    reason->data = buf;

    if (value->len > NGX_ETCD_CELL_MAX_VALUE) {
        reason->len = ngx_snprintf(buf, NGX_ETCD_VALUE_REASON,
                                   "value of %uz bytes, at most "
                                   ngx_value(NGX_ETCD_CELL_MAX_VALUE)
                                   " are allowed", value->len)
                      - buf;
        return reason;
    }

    if (!ngx_etcd_has_control(value->data, value->len)) {
        return NULL;
    }

    for (i = 0; !ngx_etcd_has_control(&value->data[i], 1); i++) {
        /* void */
    }

    switch (value->data[i]) {

    case CR:
        what = "CR";
        break;

    case LF:
        what = "LF";
        break;

    case '\0':
        what = "NUL";
        break;

    default:
        what = "a control byte";
        break;
    }

    reason->len = ngx_snprintf(buf, NGX_ETCD_VALUE_REASON,
                               "value has %s at byte %uz", what, i + 1)
                  - buf;

    return reason;
}


ngx_etcd_values_t *
ngx_etcd_values_create(ngx_array_t *confs, ngx_etcd_zone_t *zone,
    ngx_etcd_watcher_t *watcher, ngx_pool_t *pool,
    void (*written)(void *data), void (*lost)(void *data), void *data,
    ngx_log_t *log)
{
    ngx_uint_t               i;
    ngx_etcd_values_t       *values;
    ngx_etcd_value_conf_t  **conf;

    values = ngx_pcalloc(pool, sizeof(ngx_etcd_values_t));
    if (values == NULL) {
        return NULL;
    }

    values->list = ngx_pcalloc(pool, ngx_max(confs->nelts, 1)
                                     * sizeof(ngx_etcd_value_t));
    if (values->list == NULL) {
        return NULL;
    }

    values->zone = zone;
    values->log = log;
    values->written = written;
    values->lost = lost;
    values->data = data;

    conf = confs->elts;

    for (i = 0; i < confs->nelts; i++) {
        ngx_etcd_value_init(&values->list[i], values, conf[i]);

        if (ngx_etcd_watch_add(watcher, &values->list[i].watch) != NGX_OK) {
            ngx_etcd_values_destroy(values);
            return NULL;
        }

        values->n++;
    }

    return values;
}


static void
ngx_etcd_value_init(ngx_etcd_value_t *value, ngx_etcd_values_t *values,
    ngx_etcd_value_conf_t *conf)
{
    value->values = values;
    value->conf = conf;
    value->view = *ngx_etcd_value_get(conf);

    value->retry.handler = ngx_etcd_value_retry;
    value->retry.data = value;
    value->retry.log = values->log;
    value->retry.cancelable = 1;

    value->watch.prefix = conf->key;
    value->watch.exact = 1;
    value->watch.revision = value->view.revision;
    value->watch.list = ngx_etcd_value_list;
    value->watch.keys = ngx_etcd_value_keys;
    value->watch.listed = ngx_etcd_value_listed;
    value->watch.events = ngx_etcd_value_events;
    value->watch.failed = ngx_etcd_value_failed;
    value->watch.data = value;
}


void
ngx_etcd_values_destroy(ngx_etcd_values_t *values)
{
    ngx_uint_t  i;

    for (i = 0; i < values->n; i++) {
        if (values->list[i].retry.timer_set) {
            ngx_del_timer(&values->list[i].retry);
        }
    }
}


ngx_uint_t
ngx_etcd_values_pending(ngx_etcd_values_t *values)
{
    ngx_uint_t  i;

    for (i = 0; i < values->n; i++) {
        if (values->list[i].retry.timer_set) {
            return 1;
        }
    }

    return 0;
}


static void
ngx_etcd_value_list(ngx_etcd_watch_t *watch)
{
    ngx_etcd_value_t  *value;

    value = watch->data;
    value->found = 0;
}


static ngx_int_t
ngx_etcd_value_keys(ngx_etcd_watch_t *watch, Etcd__KeyValue **kvs, size_t n)
{
    size_t             i;
    ngx_etcd_value_t  *value;

    value = watch->data;

    for (i = 0; i < n; i++) {
        value->found = 1;
        ngx_etcd_value_put(value, kvs[i]);
    }

    return NGX_OK;
}


static void
ngx_etcd_value_listed(ngx_etcd_watch_t *watch, int64_t revision)
{
    ngx_etcd_value_t  *value;

    value = watch->data;

    if (!value->found) {
        ngx_etcd_value_none(value);
    }

    ngx_etcd_value_known(value, revision);
}


static void
ngx_etcd_value_events(ngx_etcd_watch_t *watch, Etcd__Event **events, size_t n,
    int64_t revision)
{
    size_t             i;
    ngx_etcd_value_t  *value;

    value = watch->data;

    for (i = 0; i < n; i++) {

        if (events[i]->type == ETCD__EVENT__EVENT_TYPE__DELETE) {
            ngx_etcd_value_none(value);

        } else {
            ngx_etcd_value_put(value, events[i]->kv);
        }
    }

    ngx_etcd_value_known(value, revision);
}


static void
ngx_etcd_value_failed(ngx_etcd_watch_t *watch, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_uint_t              level;
    ngx_etcd_value_t       *value;
    ngx_etcd_value_conf_t  *conf;

    value = watch->data;
    conf = value->conf;

    /* of the whole cluster, and reported for it: says nothing of ours */

    if (status == NGX_ETCD_GRPC_UNAUTHENTICATED) {
        return;
    }

    level = (value->refused == status) ? NGX_LOG_DEBUG : NGX_LOG_ERR;

    ngx_log_error(level, value->values->log, 0,
                  "etcd: variable \"%V\": key \"%V\" cannot be read: %s: %V",
                  &conf->name, &conf->key, ngx_etcd_grpc_status_name(status),
                  text);

    value->refused = status;

    if (status == NGX_ETCD_GRPC_PERMISSION_DENIED
        && value->view.state != NGX_ETCD_CELL_DENIED)
    {
        value->view.state = NGX_ETCD_CELL_DENIED;
        ngx_etcd_value_write(value);
    }
}


static void
ngx_etcd_value_put(ngx_etcd_value_t *value, Etcd__KeyValue *kv)
{
    u_char                 buf[NGX_ETCD_VALUE_REASON];
    ngx_str_t              bytes, reason;
    ngx_etcd_cell_view_t  *view;

    view = &value->view;

    bytes.data = kv->value.data;
    bytes.len = kv->value.len;

    if (ngx_etcd_value_refuse(&bytes, buf, &reason) != NULL) {
        ngx_etcd_value_invalid(value, kv, &reason);
        return;
    }

    view->modified = kv->mod_revision;
    view->refused = 0;
    view->reason_len = 0;
    view->len = bytes.len;

    /* an empty value has no bytes, not even somewhere */

    if (bytes.len != 0) {
        ngx_memcpy(view->value, bytes.data, bytes.len);
    }
}


/* reported once, also where another worker becomes the agent */

static void
ngx_etcd_value_invalid(ngx_etcd_value_t *value, Etcd__KeyValue *kv,
    ngx_str_t *reason)
{
    ngx_etcd_cell_view_t  *view;

    view = &value->view;

    if (view->refused == (uint64_t) kv->mod_revision && !value->watch.foreign)
    {
        return;
    }

    ngx_log_error(NGX_LOG_ERR, value->values->log, 0,
                  "etcd: variable \"%V\": key \"%V\" at revision %L is "
                  "invalid: %V, %s", &value->conf->name, &value->conf->key,
                  kv->mod_revision, reason,
                  view->modified ? "its last valid value stays"
                                 : "its default is used");

    view->refused = kv->mod_revision;
    view->reason_len = ngx_min(reason->len, NGX_ETCD_CELL_MAX_REASON);

    ngx_memcpy(view->reason, reason->data, view->reason_len);
}


static void
ngx_etcd_value_none(ngx_etcd_value_t *value)
{
    ngx_etcd_cell_view_t  *view;

    view = &value->view;

    view->modified = 0;
    view->refused = 0;
    view->reason_len = 0;
    view->len = 0;
}


static void
ngx_etcd_value_known(ngx_etcd_value_t *value, int64_t revision)
{
    if (value->refused != NGX_ETCD_GRPC_OK) {
        value->refused = NGX_ETCD_GRPC_OK;

        ngx_log_error(NGX_LOG_NOTICE, value->values->log, 0,
                      "etcd: variable \"%V\": key \"%V\" can be read again",
                      &value->conf->name, &value->conf->key);
    }

    value->view.revision = revision;
    value->view.state = NGX_ETCD_CELL_SYNCED;

    ngx_etcd_value_write(value);
}


static void
ngx_etcd_value_write(ngx_etcd_value_t *value)
{
    ngx_int_t           rc;
    ngx_etcd_values_t  *values;

    values = value->values;

    rc = ngx_etcd_cell_write(values->zone, value->conf->cell, &value->view,
                             &value->conf->name, &value->conf->key);
    switch (rc) {

    case NGX_OK:

        if (value->retry.timer_set) {
            ngx_del_timer(&value->retry);
        }

        values->written(values->data);
        return;

    case NGX_AGAIN:

        if (!value->retry.timer_set) {
            ngx_add_timer(&value->retry, NGX_ETCD_VALUE_BUSY);
        }

        return;

    default: /* NGX_DECLINED */
        values->lost(values->data);
        return;
    }
}


static void
ngx_etcd_value_retry(ngx_event_t *ev)
{
    ngx_etcd_value_write(ev->data);
}
