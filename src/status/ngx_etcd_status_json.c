
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status_field.h>
#include <ngx_etcd_status_json.h>
#include <ngx_etcd_status_sets.h>


/* the stages of an upstream */

typedef enum {
    NGX_ETCD_STATUS_JSON_HEAD = 0,
    NGX_ETCD_STATUS_JSON_MEMBERS,
    NGX_ETCD_STATUS_JSON_KEYS
} ngx_etcd_status_json_stage_e;


/* the stages of a prefix with variables */

typedef enum {
    NGX_ETCD_STATUS_JSON_BEGIN = 0,
    NGX_ETCD_STATUS_JSON_SUMS,
    NGX_ETCD_STATUS_JSON_SETS,
    NGX_ETCD_STATUS_JSON_FIND,
    NGX_ETCD_STATUS_JSON_ONE            /* then those of an upstream */
} ngx_etcd_status_json_catalog_e;


static ngx_int_t ngx_etcd_status_json_nginx(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind);
static ngx_int_t ngx_etcd_status_json_upstreams(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind);
static ngx_int_t ngx_etcd_status_json_locks(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind);
static ngx_int_t ngx_etcd_status_json_zone(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind);
static ngx_int_t ngx_etcd_status_json_events(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind);
static ngx_int_t ngx_etcd_status_json_map(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind);


const ngx_etcd_status_part_t  ngx_etcd_status_json[] = {
    { ngx_etcd_status_json_nginx, &ngx_etcd_status_nginx },
    { ngx_etcd_status_json_map, &ngx_etcd_status_clusters },
    { ngx_etcd_status_json_upstreams, &ngx_etcd_status_upstreams },
    { ngx_etcd_status_json_upstreams, &ngx_etcd_status_stream_upstreams },
    { ngx_etcd_status_json_map, &ngx_etcd_status_elections },
    { ngx_etcd_status_json_locks, &ngx_etcd_status_locks },
    { ngx_etcd_status_json_map, &ngx_etcd_status_variables },
    { ngx_etcd_status_json_zone, &ngx_etcd_status_zone },
    { ngx_etcd_status_json_events, &ngx_etcd_status_events },
    { NULL, NULL }
};


static ngx_int_t
ngx_etcd_status_json_nginx(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind)
{
    ngx_etcd_text_buffer_literal(&status->out, "{");
    ngx_etcd_status_json_fields(&status->out, kind->fields,
                                kind->row(status));

    return NGX_OK;
}


/* Writes the start of a part, once. */

static void
ngx_etcd_status_json_begin(ngx_etcd_status_t *status, const char *name,
    const char *bracket)
{
    if (!status->begun) {
        status->begun = 1;
        ngx_etcd_text_buffer_printf(&status->out, ",\"%s\":%s", name, bracket);
    }
}


static void
ngx_etcd_status_json_comma(ngx_etcd_status_t *status)
{
    if (status->items++ != 0) {
        ngx_etcd_text_buffer_literal(&status->out, ",");
    }
}


static void
ngx_etcd_status_json_name(ngx_etcd_status_t *status, ngx_str_t *name)
{
    ngx_etcd_status_json_comma(status);
    ngx_etcd_text_buffer_text(&status->out, name);
    ngx_etcd_text_buffer_literal(&status->out, ":");
}


static void
ngx_etcd_status_json_item(ngx_etcd_status_t *status,
    const ngx_etcd_status_field_t *fields, void *object)
{
    ngx_etcd_status_json_comma(status);
    ngx_etcd_text_buffer_literal(&status->out, "{");
    ngx_etcd_status_json_fields(&status->out, fields, object);
    ngx_etcd_text_buffer_literal(&status->out, "}");
}


static ngx_int_t
ngx_etcd_status_json_sets(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t  rc;

    rc = ngx_etcd_status_sets_read(status, upstream);

    if (rc == NGX_OK) {
        ngx_etcd_status_json_item(status, ngx_etcd_status_set_fields,
                                  &status->object.set);

        if (++status->walk.shown < NGX_ETCD_STATUS_SETS_PAGE) {
            return NGX_AGAIN;
        }

        ngx_etcd_text_buffer_printf(&status->out, "],\"next\":%uD",
                                    status->walk.last);
        return NGX_OK;
    }

    if (rc == NGX_DONE) {
        ngx_etcd_text_buffer_literal(&status->out, "],\"next\":null");
        return NGX_OK;
    }

    return rc;
}


static ngx_int_t
ngx_etcd_status_json_open(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t  rc;

    rc = ngx_etcd_status_open(status, upstream);

    if (rc != NGX_OK) {
        return rc;
    }

    if (upstream == &status->walk.one) {
        ngx_etcd_text_buffer_literal(&status->out, ",\"set\":");

    } else {
        ngx_etcd_status_json_name(status, &upstream->name);
    }

    ngx_etcd_text_buffer_literal(&status->out, "{");
    ngx_etcd_status_json_fields(&status->out, ngx_etcd_status_upstreams.fields,
                                upstream);
    ngx_etcd_text_buffer_literal(&status->out, ",\"members\":[");

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_status_json_members(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t                  rc;
    ngx_uint_t                 i;
    ngx_etcd_status_member_t  *member;

    rc = ngx_etcd_status_read(status);

    if (rc == NGX_BUSY) {
        return NGX_BUSY;
    }

    member = &status->object.member;

    for (i = 0; i < status->view.n; i++) {
        ngx_etcd_status_member_set(member, upstream,
                                   &status->view.members[i]);
        ngx_etcd_status_json_item(status, ngx_etcd_status_members.fields,
                                  member);
    }

    if (rc == NGX_DONE) {
        ngx_etcd_text_buffer_literal(&status->out, "],\"invalid\":[");
        return NGX_OK;
    }

    return NGX_AGAIN;
}


/* Creates an empty pool for a list. */

static ngx_int_t
ngx_etcd_status_json_pool(ngx_etcd_status_t *status)
{
    ngx_etcd_status_destroy(status);

    status->temp = ngx_create_pool(4096, status->pool->log);

    return (status->temp != NULL) ? NGX_OK : NGX_ERROR;
}


/* Keys that are not used are shown at once, since they are copied at once. */

static ngx_int_t
ngx_etcd_status_json_keys(ngx_etcd_status_t *status)
{
    ngx_int_t                 rc;
    ngx_uint_t                i;
    ngx_array_t               list;
    ngx_etcd_unused_t         unused;
    ngx_etcd_unused_row_t    *row;
    ngx_etcd_view_invalid_t  *invalid;
    ngx_etcd_status_unused_t  item;

    if (ngx_etcd_status_json_pool(status) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_memzero(&list, sizeof(ngx_array_t));

    rc = ngx_etcd_view_invalid(&status->view, status->temp, &list);

    if (rc == NGX_OK) {
        rc = ngx_etcd_view_unused(&status->view, status->temp, &unused);
    }

    if (rc == NGX_AGAIN) {
        return NGX_BUSY;
    }

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    invalid = list.elts;
    status->items = 0;

    for (i = 0; i < list.nelts; i++) {
        ngx_etcd_status_json_item(status, ngx_etcd_status_invalid_fields,
                                  &invalid[i]);
    }

    ngx_etcd_text_buffer_literal(&status->out, "],\"unused\":[");
    status->items = 0;

    for (i = 0; rc == NGX_OK && i < NGX_ETCD_STATUS_UNUSED; i++) {
        row = &unused.rows[i + 1];

        item.kind = ngx_etcd_status_unused_kinds[i];
        item.keys = row->keys;
        item.key = row->key;
        item.reason = row->reason;
        item.mod_revision = row->mod_revision;

        if (item.keys != 0) {
            ngx_etcd_status_json_item(status, ngx_etcd_status_unused_fields,
                                      &item);
        }
    }

    ngx_etcd_text_buffer_literal(&status->out, "]}");

    return NGX_OK;
}


/* Goes to the next stage if the stage at hand is complete. */

static ngx_int_t
ngx_etcd_status_json_next(ngx_etcd_status_t *status, ngx_int_t rc)
{
    if (rc == NGX_OK) {
        status->stage++;
        status->items = 0;
        rc = NGX_AGAIN;
    }

    return rc;
}


static ngx_int_t
ngx_etcd_status_json_upstream(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream, ngx_uint_t stage)
{
    ngx_int_t  rc;

    switch (stage) {

    case NGX_ETCD_STATUS_JSON_HEAD:
        rc = ngx_etcd_status_json_open(status, upstream);
        break;

    case NGX_ETCD_STATUS_JSON_MEMBERS:
        rc = ngx_etcd_status_json_members(status, upstream);
        break;

    default: /* NGX_ETCD_STATUS_JSON_KEYS */
        return ngx_etcd_status_json_keys(status);
    }

    return ngx_etcd_status_json_next(status, rc);
}


/* Sets are listed only for an upstream that is asked for. */

static ngx_int_t
ngx_etcd_status_json_catalog(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t  rc;

    switch (status->stage) {

    case NGX_ETCD_STATUS_JSON_BEGIN:
        ngx_etcd_status_object_catalog(upstream);

        status->stage++;
        return NGX_AGAIN;

    case NGX_ETCD_STATUS_JSON_SUMS:
        rc = ngx_etcd_status_sets_sum(status, upstream);

        if (rc != NGX_OK) {
            return rc;
        }

        ngx_etcd_status_json_name(status, &upstream->name);
        ngx_etcd_text_buffer_literal(&status->out, "{");
        ngx_etcd_status_json_fields(&status->out,
                                    ngx_etcd_status_upstreams.fields, upstream);

        if (status->asked.only.len == 0) {
            ngx_etcd_text_buffer_literal(&status->out, "}");
            return NGX_OK;
        }

        ngx_etcd_text_buffer_literal(&status->out, ",\"list\":[");
        ngx_etcd_status_sets_start(status, status->asked.after);

        rc = NGX_OK;
        break;

    case NGX_ETCD_STATUS_JSON_SETS:
        rc = ngx_etcd_status_json_sets(status, upstream);
        break;

    case NGX_ETCD_STATUS_JSON_FIND:
        rc = ngx_etcd_status_sets_find(status, upstream);

        if (rc == NGX_DECLINED) {
            ngx_etcd_text_buffer_literal(&status->out, "}");
            return NGX_OK;
        }

        break;

    default: /* NGX_ETCD_STATUS_JSON_ONE and what follows */

        /* the set as an upstream of a fixed prefix */

        rc = ngx_etcd_status_json_upstream(status, &status->walk.one,
                                           status->stage
                                           - NGX_ETCD_STATUS_JSON_ONE);
        if (rc == NGX_OK) {
            ngx_etcd_text_buffer_literal(&status->out, "}");
        }

        return rc;
    }

    return ngx_etcd_status_json_next(status, rc);
}


static ngx_int_t
ngx_etcd_status_json_upstreams(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind)
{
    ngx_int_t                    rc;
    ngx_uint_t                   stream;
    ngx_etcd_status_upstream_t  *upstream;

    ngx_etcd_status_json_begin(status, kind->name, "{");

    stream = (kind == &ngx_etcd_status_stream_upstreams);
    upstream = kind->row(status);

    while (upstream != NULL
           && (upstream->service->stream != stream
               || !ngx_etcd_status_wanted(status, upstream)))
    {
        status->row++;
        upstream = kind->row(status);
    }

    if (upstream == NULL) {
        ngx_etcd_text_buffer_literal(&status->out, "}");
        return NGX_OK;
    }

    rc = upstream->catalog ? ngx_etcd_status_json_catalog(status, upstream)
                           : ngx_etcd_status_json_upstream(status, upstream,
                                                           status->stage);

    if (rc != NGX_OK) {
        return rc;
    }

    ngx_etcd_status_destroy(status);

    /* the next upstream is preceded by a comma */

    status->row++;
    status->stage = NGX_ETCD_STATUS_JSON_HEAD;
    status->items = 1;

    return NGX_AGAIN;
}


/* Holders or waiters, worker by worker. */

static void
ngx_etcd_status_json_lock_rows(ngx_etcd_status_t *status,
    ngx_etcd_lock_name_t *name, ngx_etcd_lock_row_e state,
    const ngx_etcd_status_field_t *fields)
{
    ngx_uint_t                   i, number;
    ngx_msec_int_t               since;
    ngx_etcd_lock_rows_t         rows;
    ngx_etcd_lock_entry_t       *entry;
    ngx_etcd_status_lock_row_t  *row;

    status->items = 0;
    row = &status->object.lock_row;

    for (number = 0;
         ngx_etcd_lock_table_read(&name->cluster->zone, number, name->stats,
                                  state, &rows)
         == NGX_OK;
         number++)
    {
        for (i = 0; i < rows.n; i++) {
            entry = &rows.entries[i];

            row->key.data = entry->key;
            row->key.len = entry->key_len;
            row->pid = rows.pid;
            row->token = entry->value;
            row->shared = entry->shared;
            row->waiting = entry->value;

            /* Another worker's clock may be slightly ahead. */

            since = (ngx_msec_int_t) (ngx_current_msec - entry->since);
            row->since = ngx_max(since, 0);

            ngx_etcd_status_json_item(status, fields, row);
        }
    }
}


static ngx_int_t
ngx_etcd_status_json_locks(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind)
{
    ngx_etcd_lock_name_t    *name;
    ngx_etcd_status_lock_t  *lock;

    ngx_etcd_status_json_begin(status, kind->name, "{");

    lock = kind->row(status);

    if (lock == NULL) {
        ngx_etcd_text_buffer_literal(&status->out, "}");
        return NGX_OK;
    }

    name = lock->lock;
    status->items = status->row++;

    ngx_etcd_status_json_name(status, &lock->name);
    ngx_etcd_text_buffer_literal(&status->out, "{");
    ngx_etcd_status_json_fields(&status->out, kind->fields, lock);

    ngx_etcd_text_buffer_literal(&status->out, ",\"holders\":[");
    ngx_etcd_status_json_lock_rows(status, name, NGX_ETCD_LOCK_ROW_HELD,
                                   ngx_etcd_status_holder_fields);

    ngx_etcd_text_buffer_literal(&status->out, "],\"waiters\":[");
    ngx_etcd_status_json_lock_rows(status, name, NGX_ETCD_LOCK_ROW_WAITING,
                                   ngx_etcd_status_waiter_fields);

    ngx_etcd_text_buffer_literal(&status->out, "]}");

    return NGX_AGAIN;
}


static ngx_int_t
ngx_etcd_status_json_zone(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind)
{
    ngx_etcd_status_json_begin(status, kind->name, "{");
    ngx_etcd_status_json_fields(&status->out, kind->fields,
                                kind->row(status));
    ngx_etcd_text_buffer_literal(&status->out, "}");

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_status_json_events(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind)
{
    ngx_uint_t              i, n;
    ngx_etcd_conf_t       **ecf;
    ngx_etcd_zone_event_t  *changes;

    ngx_etcd_status_json_begin(status, kind->name, "[");

    if (status->row >= status->conf->clusters.nelts) {
        ngx_etcd_text_buffer_literal(&status->out, "]}\n");
        return NGX_OK;
    }

    if (ngx_etcd_status_json_pool(status) != NGX_OK) {
        return NGX_ERROR;
    }

    changes = ngx_palloc(status->temp, NGX_ETCD_ZONE_EVENTS
                                       * sizeof(ngx_etcd_zone_event_t));
    if (changes == NULL) {
        return NGX_ERROR;
    }

    ecf = status->conf->clusters.elts;

    if (ngx_etcd_zone_get_events(&ecf[status->row]->zone, changes, &n)
        != NGX_OK)
    {
        return NGX_BUSY;
    }

    for (i = 0; i < n; i++) {
        ngx_etcd_status_object_event(&status->object.event, &changes[i]);
        ngx_etcd_status_json_item(status, kind->fields, &status->object.event);
    }

    status->row++;

    return NGX_AGAIN;
}


/* Writes one object of a kind. */

static ngx_int_t
ngx_etcd_status_json_map(ngx_etcd_status_t *status,
    const ngx_etcd_status_kind_t *kind)
{
    void  *object;

    ngx_etcd_status_json_begin(status, kind->name, "{");

    object = kind->row(status);

    if (object == NULL) {
        ngx_etcd_text_buffer_literal(&status->out, "}");
        return NGX_OK;
    }

    /* each object begins with its name */

    ngx_etcd_status_json_name(status, object);
    ngx_etcd_text_buffer_literal(&status->out, "{");
    ngx_etcd_status_json_fields(&status->out, kind->fields, object);
    ngx_etcd_text_buffer_literal(&status->out, "}");

    status->row++;

    return NGX_AGAIN;
}
