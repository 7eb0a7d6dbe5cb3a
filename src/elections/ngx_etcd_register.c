
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_register.h>
#include <ngx_etcd_str.h>


static void
ngx_etcd_register_write(ngx_etcd_register_t *reg)
{
    reg->writing = 1;
    reg->txn.lease = reg->session.lease.id;

    ngx_etcd_txn_start(&reg->txn);
}


static void
ngx_etcd_register_check(ngx_etcd_register_t *reg)
{
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_cluster_t       *cluster;
    ngx_etcd_mirror_entry_t  *entry;

    if (reg->hold.created == 0) {
        ngx_etcd_register_write(reg);
        return;
    }

    mirror = &reg->mirror;

    /* a key that cannot be read is put, but not put again after a deletion */

    if (!mirror->synced || mirror->refused
        || mirror->revision < reg->hold.created)
    {
        return;
    }

    entry = ngx_etcd_mirror_find(mirror, &reg->key);

    if (entry == NULL) {

        /* the timer leads to this function again, which puts the key */

        reg->hold.created = 0;
        ngx_add_timer(&reg->timer, NGX_ETCD_REGISTER_PAUSE);
        return;
    }

    if (entry->lease == reg->hold.lease) {
        reg->taken = 0;

        if (!ngx_etcd_str_equal(&entry->value, &reg->value)) {
            ngx_etcd_register_write(reg);
        }

        return;
    }

    if (!reg->taken) {
        reg->taken = 1;
        cluster = reg->leases->cluster;

        ngx_log_error(NGX_LOG_ERR, cluster->log, 0,
                      "etcd cluster \"%V\": %V is owned by another client "
                      "(lease %xL), not overwriting it",
                      &cluster->conf->name, &reg->name, entry->lease);
    }
}


static void
ngx_etcd_register_advance(ngx_etcd_register_t *reg)
{
    ngx_etcd_session_t      *session;
    ngx_etcd_lease_state_t  *hold;

    hold = &reg->hold;
    session = &reg->session;

    if (session->state != NGX_ETCD_SESSION_HELD) {
        ngx_memzero(hold, sizeof(ngx_etcd_lease_state_t));

    } else {

        if (hold->lease != session->lease.id) {
            hold->created = 0;
        }

        hold->lease = session->lease.id;
        hold->ttl = session->lease.ttl;
        hold->deadline = session->lease.deadline;
    }

    if (reg->changed(reg) == NGX_OK
        && session->state == NGX_ETCD_SESSION_HELD
        && !reg->writing
        && !reg->timer.timer_set)
    {
        ngx_etcd_register_check(reg);
    }
}


static void
ngx_etcd_register_written(ngx_etcd_txn_t *txn, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, int64_t revision, ngx_uint_t put, Etcd__KeyValue *kv)
{
    ngx_uint_t            level;
    ngx_etcd_cluster_t   *cluster;
    ngx_etcd_register_t  *reg;

    reg = txn->data;
    reg->writing = 0;

    if (status == NGX_ETCD_GRPC_OK) {
        reg->failures = 0;
        (void) ngx_etcd_cause_forget(&reg->causes);
        reg->history = reg->leases->cluster->history.changes;
        reg->hold.created = revision;
        ngx_etcd_register_advance(reg);
        return;
    }

    if (status == NGX_ETCD_GRPC_NOT_FOUND) {
        ngx_etcd_session_replace(&reg->session, "etcd does not have it");
        return;
    }

    cluster = reg->leases->cluster;

    level = ngx_etcd_backoff_retriable(status)
            ? NGX_LOG_INFO : ngx_etcd_cause_level(&reg->causes, status, text);

    ngx_log_error(level, cluster->log, 0,
                  "etcd cluster \"%V\": %V cannot be put: %s: %V, trying "
                  "again", &cluster->conf->name, &reg->name,
                  ngx_etcd_grpc_status_name(status), text);

    reg->failures++;

    ngx_add_timer(&reg->timer, ngx_etcd_backoff(cluster, reg->failures));
}


static void
ngx_etcd_register_complete(ngx_etcd_mirror_t *mirror, int64_t revision)
{
    ngx_uint_t            history;
    ngx_etcd_register_t  *reg;

    reg = mirror->data;
    history = reg->leases->cluster->history.changes;

    if (mirror->relisted && reg->history != history) {
        reg->history = history;

        /* the revision of the put may be far above those of the new history */

        reg->hold.created = ngx_min(reg->hold.created, revision);
    }

    ngx_etcd_register_advance(reg);
}


/* The witness need not exist: the mirror has the key. */

static void
ngx_etcd_register_witness(ngx_etcd_session_t *session, ngx_str_t *key,
    int64_t *created)
{
    ngx_etcd_register_t  *reg = session->data;

    *key = reg->txn.key;
    *created = 0;
}


static void
ngx_etcd_register_renewed(ngx_etcd_session_t *session)
{
    ngx_etcd_register_advance(session->data);
}


static void
ngx_etcd_register_drop(ngx_etcd_register_t *reg)
{
    reg->writing = 0;
    ngx_etcd_txn_cancel(&reg->txn);

    ngx_etcd_event_stop(&reg->timer);
}


static void
ngx_etcd_register_lost(ngx_etcd_session_t *session, char *reason)
{
    ngx_etcd_register_t  *reg = session->data;

    ngx_etcd_register_drop(reg);
    ngx_etcd_register_advance(reg);
}


static void
ngx_etcd_register_timer(ngx_event_t *ev)
{
    ngx_etcd_register_advance(ev->data);
}


static ngx_int_t
ngx_etcd_register_init(ngx_etcd_register_t *reg)
{
    u_char              *p;
    ngx_etcd_txn_t      *txn;
    ngx_etcd_mirror_t   *mirror;
    ngx_etcd_cluster_t  *cluster;
    ngx_etcd_session_t  *session;

    cluster = reg->leases->cluster;
    txn = &reg->txn;

    if (ngx_etcd_kv_key(&txn->key, reg->pool, &cluster->conf->key_namespace,
                        &reg->key)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    txn->cluster = cluster;
    txn->value = reg->value;
    txn->created = NGX_ETCD_TXN_ALWAYS;
    txn->done = ngx_etcd_register_written;
    txn->data = reg;

    mirror = &reg->mirror;

    /* one byte more tells a longer value from an equal one */

    mirror->entries.keep = reg->value.len + 1;
    mirror->complete = ngx_etcd_register_complete;
    mirror->data = reg;

    mirror->watch.range.prefix = reg->key;
    mirror->watch.range.exact = 1;

    ngx_etcd_mirror_init(mirror, cluster->log);

    p = ngx_pnalloc(reg->pool, sizeof("etcd cluster \"\": ") - 1
                               + cluster->conf->name.len + reg->name.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    mirror->name.data = p;
    mirror->name.len = ngx_sprintf(p, "etcd cluster \"%V\": %V",
                                   &cluster->conf->name, &reg->name)
                       - p;

    session = &reg->session;

    session->leases = reg->leases;
    session->name = reg->name;
    session->ttl = reg->ttl;
    session->witness = ngx_etcd_register_witness;
    session->held = ngx_etcd_register_renewed;
    session->renewed = ngx_etcd_register_renewed;
    session->lost = ngx_etcd_register_lost;
    session->data = reg;

    ngx_etcd_event_init_timer(&reg->timer, ngx_etcd_register_timer, reg,
                              cluster->log);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_register_start(ngx_etcd_register_t *reg)
{
    if (ngx_etcd_register_init(reg) != NGX_OK
        || ngx_etcd_mirror_start(&reg->mirror, reg->stream) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (reg->hold.lease == 0) {
        ngx_etcd_session_start(&reg->session);
        return NGX_OK;
    }

    /* the history may have changed since the other process has put the key */

    reg->history = reg->leases->cluster->history.changes - 1;

    ngx_etcd_session_adopt(&reg->session, &reg->hold);

    if (reg->session.state != NGX_ETCD_SESSION_HELD) {
        ngx_memzero(&reg->hold, sizeof(ngx_etcd_lease_state_t));
    }

    return NGX_OK;
}


void
ngx_etcd_register_end(ngx_etcd_register_t *reg, void (*ended)(void *data),
    void *data)
{
    ngx_etcd_register_drop(reg);
    ngx_etcd_session_end(&reg->session, ended, data);
}


void
ngx_etcd_register_close(ngx_etcd_register_t *reg)
{
    ngx_etcd_register_drop(reg);
    ngx_etcd_session_close(&reg->session);
    ngx_etcd_mirror_destroy(&reg->mirror);
}
