
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lock_table.h>
#include <ngx_etcd_shared.h>


const ngx_etcd_object_type_t  ngx_etcd_lock_stats_type = {
    NGX_ETCD_ZONE_LOCK_STATS, sizeof(ngx_etcd_lock_stats_t), NULL
};


void
ngx_etcd_lock_table_declare(ngx_etcd_zone_t *zone, ngx_uint_t workers)
{
    size_t                  room;
    ngx_uint_t              i, n;
    ngx_etcd_lock_table_t  *table;

    room = (zone->shpool->end - (u_char *) zone->shpool)
           / NGX_ETCD_LOCK_TABLE_SHARE;

    n = ngx_min(2 * workers, room / sizeof(ngx_etcd_lock_table_t));
    n = ngx_min(n, NGX_ETCD_ZONE_LOCK_TABLES);

    if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return;
    }

    for (i = 0; i < n; i++) {

        if (zone->sh->lock_tables[i] != NULL) {
            continue;
        }

        table = ngx_slab_calloc_locked(zone->shpool,
                                       sizeof(ngx_etcd_lock_table_t));
        if (table == NULL) {
            break;
        }

        /* workers of older configurations read the array too */

        __atomic_store_n(&zone->sh->lock_tables[i], table, __ATOMIC_RELEASE);
    }

    ngx_etcd_zone_unlock(zone);
}


ngx_etcd_lock_table_t *
ngx_etcd_lock_table_claim(ngx_etcd_zone_t *zone)
{
    uint64_t                owner, self;
    ngx_pid_t               pid;
    ngx_uint_t              i, n;
    ngx_etcd_lock_table_t  *table;

    self = (uint64_t) ngx_pid << 32;

    for (i = 0; i < NGX_ETCD_ZONE_LOCK_TABLES; i++) {

        table = __atomic_load_n(&zone->sh->lock_tables[i], __ATOMIC_ACQUIRE);
        if (table == NULL) {
            break;
        }

        owner = __atomic_load_n(&table->owner, __ATOMIC_ACQUIRE);
        pid = (ngx_pid_t) (owner >> 32);

        /* in single process mode all configurations share one table */

        if (owner == (self | 1) && ngx_process == NGX_PROCESS_SINGLE) {
            return table;
        }

        /* a former process may have had the pid of this one */

        if (pid != 0 && pid != ngx_pid && !ngx_etcd_process_gone(pid)) {
            continue;
        }

        if (__atomic_compare_exchange_n(&table->owner, &owner, self, 0,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        {
            for (n = 0; n < NGX_ETCD_LOCK_TABLE_ROWS; n++) {
                ngx_etcd_lock_table_remove(table, &table->rows[n]);
            }

            __atomic_store_n(&table->owner, self | 1, __ATOMIC_RELEASE);

            return table;
        }
    }

    return NULL;
}


void
ngx_etcd_lock_table_leave(ngx_etcd_lock_table_t *table)
{
    if (table != NULL) {
        __atomic_store_n(&table->owner, 0, __ATOMIC_RELEASE);
    }
}


ngx_etcd_lock_row_t *
ngx_etcd_lock_table_add(ngx_etcd_lock_table_t *table,
    ngx_etcd_lock_stats_t *lock, ngx_str_t *key)
{
    ngx_uint_t            n;
    ngx_etcd_lock_row_t  *row;

    if (table->used == ~(uint64_t) 0) {
        return NULL;
    }

    n = __builtin_ctzll(~table->used);

    table->used |= (uint64_t) 1 << n;
    row = &table->rows[n];

    ngx_etcd_seqlock_write(&row->lock);

    row->entry.lock = lock;
    row->entry.key_len = ngx_min(key->len, NGX_ETCD_LOCK_TABLE_KEY);
    ngx_memcpy(row->entry.key, key->data, row->entry.key_len);

    ngx_etcd_seqlock_written(&row->lock);

    return row;
}


void
ngx_etcd_lock_table_remove(ngx_etcd_lock_table_t *table,
    ngx_etcd_lock_row_t *row)
{
    ngx_etcd_seqlock_write(&row->lock);

    row->entry.state = NGX_ETCD_LOCK_ROW_NONE;

    ngx_etcd_seqlock_written(&row->lock);

    table->used &= ~((uint64_t) 1 << (row - table->rows));
}


void
ngx_etcd_lock_table_show(ngx_etcd_lock_row_t *row, ngx_etcd_lock_row_e state,
    ngx_uint_t shared, uint64_t value, ngx_msec_t since)
{
    ngx_etcd_seqlock_write(&row->lock);

    row->entry.state = state;
    row->entry.shared = shared;
    row->entry.value = value;
    row->entry.since = since;

    ngx_etcd_seqlock_written(&row->lock);
}


ngx_int_t
ngx_etcd_lock_table_read(ngx_etcd_zone_t *zone, ngx_uint_t number,
    ngx_etcd_lock_stats_t *lock, ngx_etcd_lock_row_e state,
    ngx_etcd_lock_rows_t *rows)
{
    uint64_t                    owner;
    ngx_uint_t                  i;
    ngx_etcd_lock_row_t        *row;
    ngx_etcd_lock_entry_t      *entry;
    ngx_etcd_lock_table_t      *table;
    ngx_etcd_seqlock_reader_t   reader;

    rows->n = 0;

    table = (number < NGX_ETCD_ZONE_LOCK_TABLES)
            ? __atomic_load_n(&zone->sh->lock_tables[number], __ATOMIC_ACQUIRE)
            : NULL;

    if (table == NULL) {
        return NGX_DECLINED;
    }

    owner = __atomic_load_n(&table->owner, __ATOMIC_ACQUIRE);
    rows->pid = (ngx_pid_t) (owner >> 32);

    if (!(owner & 1) || ngx_etcd_process_gone(rows->pid)) {
        return NGX_OK;
    }

    for (i = 0; i < NGX_ETCD_LOCK_TABLE_ROWS; i++) {
        row = &table->rows[i];

        /* A cheap filter: the copied row is authoritative. */

        if (__atomic_load_n(&row->entry.state, __ATOMIC_RELAXED) != state) {
            continue;
        }

        ngx_etcd_seqlock_read(&reader, &row->lock, 0);

        entry = &rows->entries[rows->n];

        if (ngx_etcd_seqlock_copy(&reader, entry, &row->entry,
                                  sizeof(ngx_etcd_lock_entry_t))
            == NGX_OK
            && entry->lock == lock
            && entry->state == state)
        {
            rows->n++;
        }
    }

    /* the rows belong to the next owner */

    if (__atomic_load_n(&table->owner, __ATOMIC_ACQUIRE) != owner) {
        rows->n = 0;
    }

    return NGX_OK;
}
