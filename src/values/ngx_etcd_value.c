
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_split.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_value.h>


/* ms until a zone is tried again whose mutex was held */

#define NGX_ETCD_VALUE_BUSY  50


typedef struct {
    ngx_etcd_values_t           *values;
    ngx_etcd_value_conf_t       *conf;
    ngx_etcd_mirror_t            mirror;       /* of the key */
    ngx_etcd_shared_value_view_t view;         /* to be published */
    ngx_event_t                  retry;        /* the mutex was held */
} ngx_etcd_value_t;


struct ngx_etcd_values_s {
    ngx_etcd_zone_t             *zone;
    ngx_etcd_value_t            *list;
    ngx_uint_t                   n;
    ngx_log_t                   *log;

    /* handlers of the owner: the zone is up to date; it has another owner */
    void                       (*written)(void *data);
    void                       (*lost)(void *data);
    void                        *data;
};


ngx_int_t
ngx_etcd_value_declare(ngx_etcd_value_conf_t *conf, ngx_str_t *ns,
    ngx_etcd_zone_t *zone, ngx_etcd_zone_t *old)
{
    ngx_str_t                 key;
    ngx_etcd_shared_value_t  *shared;

    /* the shared value is named by the whole key: namespaces differ */

    key.len = ns->len + conf->key.len;
    key.data = ngx_alloc(key.len, ngx_cycle->log);
    if (key.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(ngx_cpymem(key.data, ns->data, ns->len), conf->key.data,
               conf->key.len);

    shared = ngx_etcd_shared_value_declare(zone, &key);

    ngx_free(key.data);

    if (shared == NULL) {
        return NGX_ERROR;
    }

    conf->shared = shared;
    conf->id = shared->object.id;

    return (old != NULL) ? ngx_etcd_shared_value_inherit(shared, old) : NGX_OK;
}


ngx_etcd_shared_value_view_t *
ngx_etcd_value_get(ngx_etcd_value_conf_t *conf)
{
    ngx_etcd_shared_value_read(conf->shared, conf->id, &conf->version,
                               &conf->copy);

    return &conf->copy;
}


char *
ngx_etcd_value_table(ngx_etcd_value_conf_t *conf, ngx_str_t *table)
{
    char                          *err;
    ngx_str_t                      text;
    ngx_etcd_shared_value_view_t  *view;

    view = ngx_etcd_value_get(conf);
    err = NULL;

    if (conf->table_version != conf->version) {
        conf->table_version = conf->version;
        conf->table.len = 0;

        text.data = view->value;
        text.len = view->len;

        if (view->modified != 0
            && ngx_etcd_split_read(&text, conf->table_buf, &conf->table, &err)
               == NGX_ERROR)
        {
            conf->table_version = 0;
        }
    }

    *table = conf->table;

    return err;
}


void
ngx_etcd_value_trim(ngx_str_t *value)
{
    static u_char  mark[] = { 0xef, 0xbb, 0xbf };

    if (value->len >= sizeof(mark)
        && ngx_memcmp(value->data, mark, sizeof(mark)) == 0)
    {
        value->data += sizeof(mark);
        value->len -= sizeof(mark);
    }

    if (value->len != 0 && value->data[value->len - 1] == LF) {
        value->len--;

        if (value->len != 0 && value->data[value->len - 1] == CR) {
            value->len--;
        }
    }
}


/* A refused value leaves the last valid one in use. */

ngx_str_t *
ngx_etcd_value_refuse(ngx_str_t *value, size_t max, u_char *buf,
    ngx_str_t *reason)
{
    char    *what;
    size_t   i;

    reason->data = buf;

    if (value->len > max) {
        reason->len = ngx_snprintf(buf, NGX_ETCD_VALUE_REASON,
                                   "value of %uz bytes, at most %uz are "
                                   "allowed", value->len, max)
                      - buf;
        return reason;
    }

    if (!ngx_etcd_escape_has_control(value->data, value->len)) {
        return NULL;
    }

    for (i = 0; !ngx_etcd_escape_has_control(&value->data[i], 1); i++) {
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


static void
ngx_etcd_value_write(ngx_etcd_value_t *value)
{
    ngx_int_t           rc;
    ngx_etcd_values_t  *values;

    values = value->values;

    rc = ngx_etcd_shared_value_write(values->zone, value->conf->shared,
                                     &value->view,
                                     &value->conf->name, &value->conf->key);
    switch (rc) {

    case NGX_OK:

        ngx_etcd_event_stop(&value->retry);

        values->written(values->data);
        return;

    case NGX_BUSY:

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


/* Reports an invalid value once, also when another worker becomes the agent. */

static void
ngx_etcd_value_invalid(ngx_etcd_value_t *value, int64_t revision,
    ngx_str_t *reason)
{
    ngx_etcd_shared_value_view_t  *view;

    view = &value->view;

    if (view->refused == (uint64_t) revision && !value->mirror.distrust) {
        return;
    }

    ngx_log_error(NGX_LOG_ERR, value->values->log, 0,
                  "etcd: variable \"%V\": key \"%V\" at revision %L is "
                  "invalid: %V, %s", &value->conf->name, &value->conf->key,
                  revision, reason,
                  view->modified ? "its last valid value stays"
                                 : "its default is used");

    view->refused = revision;
    view->reason_len = ngx_min(reason->len, NGX_ETCD_SHARED_VALUE_MAX_REASON);

    ngx_memcpy(view->reason, reason->data, view->reason_len);
}


static void
ngx_etcd_value_changed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    u_char                         buf[NGX_ETCD_VALUE_REASON];
    ngx_str_t                      text, reason;
    ngx_etcd_value_t              *value;
    ngx_etcd_shared_value_view_t  *view;

    value = mirror->data;
    view = &value->view;

    text = entry->value;
    ngx_etcd_value_trim(&text);

    if (ngx_etcd_value_refuse(&text, NGX_ETCD_SHARED_VALUE_MAX_VALUE, buf,
                              &reason)
        != NULL)
    {
        ngx_etcd_value_invalid(value, entry->mod_revision, &reason);
        return;
    }

    view->modified = entry->mod_revision;
    view->refused = 0;
    view->reason_len = 0;
    view->len = text.len;

    /* the data of an empty value may be NULL */

    if (text.len != 0) {
        ngx_memcpy(view->value, text.data, text.len);
    }
}


static void
ngx_etcd_value_none(ngx_etcd_value_t *value)
{
    ngx_etcd_shared_value_view_t  *view;

    view = &value->view;

    view->modified = 0;
    view->refused = 0;
    view->reason_len = 0;
    view->len = 0;
}


static void
ngx_etcd_value_removed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_value_none(mirror->data);
}


static void
ngx_etcd_value_complete(ngx_etcd_mirror_t *mirror, int64_t revision)
{
    ngx_etcd_value_t  *value;

    value = mirror->data;

    /* the key that a former agent had read may be gone */

    if (mirror->entries.n == 0) {
        ngx_etcd_value_none(value);
    }

    value->view.revision = revision;
    value->view.state = NGX_ETCD_SHARED_VALUE_SYNCED;

    ngx_etcd_value_write(value);
}


static void
ngx_etcd_value_denied(ngx_etcd_mirror_t *mirror, ngx_etcd_grpc_status_e status)
{
    ngx_etcd_value_t  *value;

    value = mirror->data;

    if (status == NGX_ETCD_GRPC_PERMISSION_DENIED
        && value->view.state != NGX_ETCD_SHARED_VALUE_DENIED)
    {
        value->view.state = NGX_ETCD_SHARED_VALUE_DENIED;
        ngx_etcd_value_write(value);
    }
}


static ngx_int_t
ngx_etcd_value_init(ngx_etcd_value_t *value, ngx_etcd_values_t *values,
    ngx_etcd_value_conf_t *conf, ngx_pool_t *pool)
{
    u_char                        *p;
    ngx_etcd_mirror_t             *mirror;
    ngx_etcd_shared_value_view_t  *view;

    value->values = values;
    value->conf = conf;
    value->view = *ngx_etcd_value_get(conf);

    ngx_etcd_event_init_timer(&value->retry, ngx_etcd_value_retry, value,
                              values->log);

    mirror = &value->mirror;
    view = &value->view;

    mirror->changed = ngx_etcd_value_changed;
    mirror->removed = ngx_etcd_value_removed;
    mirror->complete = ngx_etcd_value_complete;
    mirror->denied = ngx_etcd_value_denied;
    mirror->data = value;

    mirror->watch.prefix = conf->key;
    mirror->watch.exact = 1;
    mirror->watch.revision = view->revision;

    ngx_etcd_mirror_init(mirror, values->log);

    p = ngx_pnalloc(pool, sizeof("etcd: variable \"\"") - 1 + conf->name.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    mirror->name.data = p;
    mirror->name.len = ngx_sprintf(p, "etcd: variable \"%V\"", &conf->name) - p;

    /* the mirror resumes with the key that the shared value has, if any */

    if (view->revision == 0 || (view->modified == 0 && view->refused == 0)) {
        return NGX_OK;
    }

    return (ngx_etcd_mirror_seed(mirror, &conf->key,
                                 view->refused ? view->refused
                                               : view->modified)
            != NULL)
           ? NGX_OK : NGX_ERROR;
}


ngx_etcd_values_t *
ngx_etcd_value_create(ngx_array_t *confs, ngx_etcd_zone_t *zone,
    ngx_etcd_watch_stream_t *stream, ngx_pool_t *pool,
    void (*written)(void *data), void (*lost)(void *data), void *data,
    ngx_log_t *log)
{
    ngx_uint_t               i;
    ngx_etcd_value_t        *value;
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
        value = &values->list[values->n++];

        if (ngx_etcd_value_init(value, values, conf[i], pool) != NGX_OK
            || ngx_etcd_mirror_start(&value->mirror, stream) != NGX_OK)
        {
            ngx_etcd_value_destroy(values);
            return NULL;
        }
    }

    return values;
}


void
ngx_etcd_value_destroy(ngx_etcd_values_t *values)
{
    ngx_uint_t  i;

    for (i = 0; i < values->n; i++) {
        ngx_etcd_event_stop(&values->list[i].retry);

        ngx_etcd_mirror_destroy(&values->list[i].mirror);
    }
}


ngx_uint_t
ngx_etcd_value_pending(ngx_etcd_values_t *values)
{
    ngx_uint_t  i;

    for (i = 0; i < values->n; i++) {
        if (values->list[i].retry.timer_set) {
            return 1;
        }
    }

    return 0;
}
