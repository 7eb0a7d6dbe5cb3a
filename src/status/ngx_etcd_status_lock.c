
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Locks in the status: the counters of each name, then the holders, then the
 * waiters, worker by worker.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lock_table.h>
#include <ngx_etcd_status_json.h>


/* the stages of a lock: the head, then one stage for each table */

#define NGX_ETCD_STATUS_LOCK_HEAD     0
#define NGX_ETCD_STATUS_LOCK_HOLDERS  1
#define NGX_ETCD_STATUS_LOCK_WAITERS                                          \
    (NGX_ETCD_STATUS_LOCK_HOLDERS + NGX_ETCD_ZONE_LOCK_TABLES + 1)


static void ngx_etcd_status_lock_head(ngx_etcd_status_t *status,
    ngx_etcd_lock_name_t *name);
static ngx_int_t ngx_etcd_status_lock_entries(ngx_etcd_status_t *status,
    ngx_etcd_lock_name_t *name, ngx_uint_t number, ngx_etcd_lock_row_e state);
static json_t *ngx_etcd_status_lock_entry(ngx_etcd_lock_entry_t *entry,
    ngx_pid_t pid);
static ngx_msec_int_t ngx_etcd_status_lock_since(uint64_t since);


ngx_int_t
ngx_etcd_status_json_locks(ngx_etcd_status_t *status)
{
    ngx_uint_t             waiters;
    ngx_etcd_lock_name_t  *name;

    ngx_etcd_status_json_begin(status, ",\"locks\":{");

    name = ngx_etcd_status_lock_name(status);

    if (name == NULL) {
        ngx_etcd_writer_literal(&status->out, "}");
        return NGX_OK;
    }

    if (status->stage == NGX_ETCD_STATUS_LOCK_HEAD) {
        ngx_etcd_status_lock_head(status, name);

        status->stage = NGX_ETCD_STATUS_LOCK_HOLDERS;
        status->items = 0;

        return NGX_AGAIN;
    }

    waiters = (status->stage >= NGX_ETCD_STATUS_LOCK_WAITERS);

    if (ngx_etcd_status_lock_entries(status, name,
                                     status->stage
                                     - (waiters ? NGX_ETCD_STATUS_LOCK_WAITERS
                                        : NGX_ETCD_STATUS_LOCK_HOLDERS),
                                     waiters ? NGX_ETCD_LOCK_ROW_WAITING
                                             : NGX_ETCD_LOCK_ROW_HELD)
        == NGX_OK)
    {
        status->stage++;
        return NGX_AGAIN;
    }

    if (!waiters) {
        ngx_etcd_writer_literal(&status->out, "],\"waiters\":[");

        status->stage = NGX_ETCD_STATUS_LOCK_WAITERS;
        status->items = 0;

        return NGX_AGAIN;
    }

    ngx_etcd_writer_literal(&status->out, "]}");

    /* the next lock is preceded by a comma */

    status->row++;
    status->stage = NGX_ETCD_STATUS_LOCK_HEAD;
    status->items = 1;

    return NGX_AGAIN;
}


static void
ngx_etcd_status_lock_head(ngx_etcd_status_t *status,
    ngx_etcd_lock_name_t *name)
{
    ngx_etcd_status_lock_t  lock;

    (void) ngx_etcd_status_lock(status, &lock);

    ngx_etcd_status_json_name(status, &name->name);
    ngx_etcd_writer_literal(&status->out, "{");
    ngx_etcd_writer_json(&status->out,
                         json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}",
                                   "held", (json_int_t) lock.held,
                                   "waiting", (json_int_t) lock.waiting,
                                   "acquired", (json_int_t) lock.acquired,
                                   "timeouts", (json_int_t) lock.timeouts,
                                   "lost", (json_int_t) lock.lost,
                                   "handoffs", (json_int_t) lock.handoffs),
                         JSON_EMBED);
    ngx_etcd_writer_literal(&status->out, ",\"holders\":[");
}


/* Writes the entries of one table; NGX_DECLINED: there are no more tables. */

static ngx_int_t
ngx_etcd_status_lock_entries(ngx_etcd_status_t *status,
    ngx_etcd_lock_name_t *name, ngx_uint_t number, ngx_etcd_lock_row_e state)
{
    ngx_int_t              rc;
    ngx_pid_t              pid;
    ngx_uint_t             i, n;
    ngx_etcd_lock_entry_t  entries[NGX_ETCD_LOCK_TABLE_ROWS];

    rc = ngx_etcd_lock_table_read(&name->cluster->zone, number, name->tally,
                                  state, entries, &n, &pid);

    for (i = 0; i < n; i++) {
        ngx_etcd_status_json_item(status,
                                  ngx_etcd_status_lock_entry(&entries[i],
                                                             pid));
    }

    return rc;
}


static json_t *
ngx_etcd_status_lock_entry(ngx_etcd_lock_entry_t *entry, ngx_pid_t pid)
{
    if (entry->state == NGX_ETCD_LOCK_ROW_HELD) {
        return json_pack("{s:o, s:I, s:I, s:I}",
                         "key", ngx_etcd_writer_string(entry->key,
                                                       entry->key_len),
                         "pid", (json_int_t) pid,
                         "token", (json_int_t) entry->token,
                         "held_ms",
                         (json_int_t) ngx_etcd_status_lock_since(entry->since));
    }

    return json_pack("{s:o, s:I, s:I, s:I}",
                     "key", ngx_etcd_writer_string(entry->key, entry->key_len),
                     "pid", (json_int_t) pid,
                     "waiting", (json_int_t) entry->waiting,
                     "waiting_ms",
                     (json_int_t) ngx_etcd_status_lock_since(entry->since));
}


/* Another worker's clock may be slightly ahead. */

static ngx_msec_int_t
ngx_etcd_status_lock_since(uint64_t since)
{
    return ngx_max((ngx_msec_int_t) (ngx_current_msec - since), 0);
}
