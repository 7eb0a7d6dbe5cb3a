
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lock_status.h>


void
ngx_etcd_lock_status_held(ngx_etcd_lock_t *lock, ngx_int_t n)
{
    lock->nheld += n;
    lock->locks->held += n;
    lock->name->held += n;

    ngx_etcd_gauge_set(&lock->name->stats->held, lock->name->held);
}


static void
ngx_etcd_lock_hide(ngx_etcd_lock_t *lock, ngx_etcd_lock_row_t **row)
{
    if (*row != NULL) {
        ngx_etcd_lock_table_remove(lock->locks->table, *row);
        *row = NULL;
    }
}


/* All tables may be in use while workers of older configurations run. */

static ngx_etcd_lock_table_t *
ngx_etcd_lock_status_table(ngx_etcd_worker_locks_t *locks)
{
    if (locks->table == NULL
        && (!locks->claimed
            || ngx_current_msec - locks->claim >= NGX_ETCD_LOCK_STATUS_AGAIN))
    {
        locks->claimed = 1;
        locks->claim = ngx_current_msec;
        locks->table = ngx_etcd_lock_table_claim(&locks->conf->zone);
    }

    return locks->table;
}


/* Shows the KEY only: the prefix of the lock is "NAME/" or "NAME/KEY/". */

static ngx_etcd_lock_row_t *
ngx_etcd_lock_status_add(ngx_etcd_lock_t *lock)
{
    ngx_str_t               key;
    ngx_etcd_lock_table_t  *table;

    table = ngx_etcd_lock_status_table(lock->locks);
    if (table == NULL) {
        return NULL;
    }

    key = lock->node.str;

    key.data += lock->name->name.len + 1;
    key.len -= lock->name->name.len + 1;

    if (key.len != 0) {
        key.len--;
    }

    return ngx_etcd_lock_table_add(table, lock->name->stats, &key);
}


/* The waiters have changed. */

static void
ngx_etcd_lock_status_queue(ngx_etcd_lock_t *lock)
{
    ngx_queue_t       *q;
    ngx_etcd_grant_t  *first;

    if (lock->nwaiters == 0) {
        ngx_etcd_lock_hide(lock, &lock->row);
        return;
    }

    if (lock->row == NULL) {
        lock->row = ngx_etcd_lock_status_add(lock);
    }

    if (lock->row != NULL) {
        q = ngx_queue_head(&lock->waiters);
        first = ngx_queue_data(q, ngx_etcd_grant_t, queue);

        ngx_etcd_lock_table_waiting(lock->row, lock->nwaiters, first->since);
    }
}


void
ngx_etcd_lock_status_waiting(ngx_etcd_lock_t *lock, ngx_int_t n)
{
    lock->nwaiters += n;
    lock->locks->waiting += n;
    lock->name->waiting += n;

    ngx_etcd_gauge_set(&lock->name->stats->waiting, lock->name->waiting);
    ngx_etcd_lock_status_queue(lock);
}


void
ngx_etcd_lock_status_holder(ngx_etcd_lock_key_t *key)
{
    if (key->row == NULL) {
        key->row = ngx_etcd_lock_status_add(key->lock);
    }

    if (key->row != NULL) {
        ngx_etcd_lock_table_held(key->row, key->grant->token, ngx_current_msec);
    }
}


void
ngx_etcd_lock_status_free(ngx_etcd_lock_key_t *key)
{
    ngx_etcd_lock_hide(key->lock, &key->row);
}
