
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_election.h>
#include <ngx_etcd_str.h>


static void ngx_etcd_election_advance(ngx_etcd_election_t *election);


static void
ngx_etcd_election_removed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_election_t  *election = mirror->data;

    if (election->leader == entry) {
        election->leader = NULL;
    }
}


/* Returns 1 if the candidates are known. */

static ngx_uint_t
ngx_etcd_election_synced(ngx_etcd_election_t *election)
{
    return election->mirror.synced && !election->mirror.refused;
}


static void
ngx_etcd_election_report(ngx_etcd_election_t *election,
    ngx_etcd_mirror_entry_t *first, const char *reason)
{
    ngx_etcd_cluster_t  *cluster;

    if (election->faulty == first->mod_revision) {
        return;
    }

    election->faulty = first->mod_revision;
    cluster = election->leases->cluster;

    ngx_log_error(NGX_LOG_ERR, cluster->log, 0,
                  "etcd cluster \"%V\": %V: there is no leader: the first "
                  "candidate is \"%V\" (revision %L), and %s",
                  &cluster->conf->name, &election->name,
                  ngx_etcd_shown(&first->key), first->create_revision, reason);
}


static ngx_etcd_mirror_entry_t *
ngx_etcd_election_first(ngx_etcd_election_t *election)
{
    const char               *fault;
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_mirror_entry_t  *first, *next;

    mirror = &election->mirror;
    first = ngx_etcd_mirror_first(mirror);

    if (first == NULL) {
        return NULL;
    }

    fault = ngx_etcd_candidate_fault(first, mirror->watch.range.prefix.len);

    if (fault != NULL) {
        ngx_etcd_election_report(election, first, fault);
        return NULL;
    }

    next = ngx_etcd_mirror_next(mirror, first);

    if (next != NULL && next->create_revision == first->create_revision) {
        ngx_etcd_election_report(election, first,
                                 "another one has its create revision");
        return NULL;
    }

    return first;
}


/* Finds the leader. */

static void
ngx_etcd_election_look(ngx_etcd_election_t *election)
{
    ngx_etcd_mirror_entry_t  *first;

    if (!ngx_etcd_election_synced(election)) {
        election->leader = NULL;
        return;
    }

    first = ngx_etcd_election_first(election);

    election->leader = first;

    /* not leading: another key may be before this client's, and go again */

    if (first == NULL
        || first->create_revision != election->hold.created
        || !ngx_etcd_str_equal(&first->key, &election->own.key))
    {
        election->own.confirmed = 0;
    }
}


static ngx_int_t
ngx_etcd_election_publish(ngx_etcd_election_t *election)
{
    ngx_etcd_session_t      *session;
    ngx_etcd_lease_state_t  *hold;

    hold = &election->hold;
    session = &election->session;

    if (session->state == NGX_ETCD_SESSION_HELD) {
        hold->lease = session->lease.id;
        hold->ttl = session->lease.ttl;
        hold->deadline = session->lease.deadline;
        hold->until = (election->own.confirmed
                       && !election->leases->cluster->history.foreign)
                      ? election->proved : 0;

    } else {
        ngx_memzero(hold, sizeof(ngx_etcd_lease_state_t));
    }

    /*
     * The observations of the former process are valid until this one has read
     * the prefix.
     */

    return election->changed(election,
                             !election->mirror.listing
                             && (election->mirror.synced
                                 || election->mirror.refused));
}


static void
ngx_etcd_election_again(ngx_etcd_election_t *election,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_uint_t           level;
    ngx_etcd_cluster_t  *cluster;

    cluster = election->leases->cluster;

    level = ngx_etcd_backoff_retriable(status)
            ? NGX_LOG_INFO
            : ngx_etcd_cause_level(&election->causes, status, text);

    ngx_log_error(level, cluster->log, 0,
                  "etcd cluster \"%V\": %V: campaign failed: %s: %V, trying "
                  "again", &cluster->conf->name, &election->name,
                  ngx_etcd_grpc_status_name(status), text);

    election->failures++;

    ngx_add_timer(&election->timer,
                  ngx_etcd_backoff(cluster, election->failures));
}


static void
ngx_etcd_election_written(ngx_etcd_txn_t *txn, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, int64_t revision, ngx_uint_t put, Etcd__KeyValue *kv)
{
    ngx_etcd_election_t  *election;

    election = txn->data;
    election->own.writing = 0;

    if (status == NGX_ETCD_GRPC_NOT_FOUND) {
        ngx_etcd_session_replace(&election->session, "etcd does not have it");
        return;
    }

    if (status != NGX_ETCD_GRPC_OK) {
        ngx_etcd_election_again(election, status, text);
        return;
    }

    election->failures = 0;
    (void) ngx_etcd_cause_forget(&election->causes);

    if (put) {
        election->own.put = revision;

        if (txn->created == 0) {
            election->hold.created = revision;
        }

    } else if (kv != NULL && kv->lease == txn->lease) {

        /* an earlier attempt has put the key */

        election->hold.created = kv->create_revision;

    } else {
        ngx_etcd_session_replace(&election->session,
                                 "another client has its key");
        return;
    }

    ngx_etcd_election_advance(election);
}


/* Campaigns, or proclaims a new value if the key exists. */

static void
ngx_etcd_election_write(ngx_etcd_election_t *election)
{
    ngx_etcd_txn_t  *txn;

    election->own.writing = 1;

    txn = &election->own.txn;

    txn->cluster = election->leases->cluster;
    txn->key = election->own.full;
    txn->value = election->value;
    txn->lease = election->session.lease.id;
    txn->created = election->hold.created;
    txn->done = ngx_etcd_election_written;
    txn->data = election;

    ngx_etcd_txn_start(txn);
}


static void
ngx_etcd_election_confirm(ngx_etcd_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response, ngx_pool_t *pool)
{
    int64_t               created;
    ngx_str_t             key;
    ngx_uint_t            behind;
    Etcd__KeyValue       *first;
    ngx_etcd_election_t  *election;

    election = range->data;
    election->own.reading = 0;

    if (status != NGX_ETCD_GRPC_OK) {
        ngx_etcd_election_again(election, status, text);
        return;
    }

    election->failures = 0;
    (void) ngx_etcd_cause_forget(&election->causes);

    behind = 0;
    created = 0;

    if (response->n_kvs != 0) {
        first = response->kvs[0];
        key = ngx_etcd_bytes_str(&first->key);
        created = first->create_revision;
        behind = (created <= election->hold.created
                  && !ngx_etcd_str_equal(&key, &election->own.full));
    }

    ngx_destroy_pool(pool);

    if (behind) {

        /* etcd has an earlier candidate of which the watch has not told */

        ngx_etcd_mirror_again(&election->mirror, 0);
        ngx_etcd_election_advance(election);
        return;
    }

    if (created != election->hold.created) {
        ngx_etcd_session_replace(&election->session, "its key is deleted");
        return;
    }

    if (election->own.deciding) {

        /* if the key is not the first any more, the watch reports this next */

        election->own.confirmed = 1;

    } else {

        /* the watch will report the key: wait instead of reading in a loop */

        ngx_add_timer(&election->timer, NGX_ETCD_ELECTION_PAUSE);
    }

    ngx_etcd_election_advance(election);
}


/*
 * Reads this client's key, or, if that decides who leads, the first one, of
 * which a watch may not know that has not noticed another history
 * (ngx_etcd_history.h).
 */

static void
ngx_etcd_election_read(ngx_etcd_election_t *election, ngx_uint_t deciding)
{
    Etcd__RangeRequest      *request;
    ngx_etcd_watch_range_t  *range;

    election->own.reading = 1;
    election->own.deciding = deciding;

    request = &election->own.read.request;
    etcd__range_request__init(request);

    request->key = ngx_etcd_bytes(&election->own.full);

    if (deciding) {
        range = &election->mirror.watch.range;

        request->key = ngx_etcd_bytes(&range->key);
        request->range_end = ngx_etcd_bytes(&range->range_end);
        request->limit = 1;
        request->sort_target = ETCD__RANGE_REQUEST__SORT_TARGET__CREATE;
        request->sort_order = ETCD__RANGE_REQUEST__SORT_ORDER__ASCEND;
        request->keys_only = 1;
    }

    election->own.read.cluster = election->leases->cluster;
    election->own.read.done = ngx_etcd_election_confirm;
    election->own.read.data = election;

    ngx_etcd_range_start(&election->own.read);
}


/* Puts or reads this client's key if necessary. */

static void
ngx_etcd_election_stand(ngx_etcd_election_t *election)
{
    ngx_etcd_mirror_entry_t  *own;

    if (election->own.writing || election->own.reading) {
        return;
    }

    if (election->hold.created == 0) {
        ngx_etcd_election_write(election);
        return;
    }

    if (!ngx_etcd_election_synced(election)) {
        return;
    }

    own = ngx_etcd_mirror_find(&election->mirror, &election->own.key);

    if (own == NULL) {

        /* the key is deleted, or newer than the observed state */

        ngx_etcd_election_read(election, 0);
        return;
    }

    /* the watch may not have told of the last value yet */

    if (own->mod_revision >= election->own.put
        && !ngx_etcd_str_equal(&own->value, &election->value))
    {
        ngx_etcd_election_write(election);
        return;
    }

    if (election->leader == own && !election->own.confirmed) {
        ngx_etcd_election_read(election, 1);
    }
}


/*
 * Derives the state from everything that is known, and takes the next action.
 */

static void
ngx_etcd_election_advance(ngx_etcd_election_t *election)
{
    ngx_etcd_session_t  *session;

    session = &election->session;

    if (!election->mirror.listing) {
        ngx_etcd_election_look(election);
    }

    /* each renewal that counts has read the key, if nothing else may be read */

    if (session->state == NGX_ETCD_SESSION_HELD
        && (ngx_etcd_watch_active(&election->mirror.watch)
            || election->mirror.refused))
    {
        election->proved = session->lease.deadline;
    }

    if (ngx_etcd_election_publish(election) == NGX_OK
        && session->state == NGX_ETCD_SESSION_HELD
        && !election->timer.timer_set)
    {
        ngx_etcd_election_stand(election);
    }
}


static void
ngx_etcd_election_complete(ngx_etcd_mirror_t *mirror, int64_t revision)
{
    ngx_etcd_election_t  *election = mirror->data;

    election->revision = revision;

    ngx_etcd_election_advance(election);
}


static void
ngx_etcd_election_denied(ngx_etcd_mirror_t *mirror,
    ngx_etcd_grpc_status_e status)
{
    ngx_etcd_election_advance(mirror->data);
}


static void
ngx_etcd_election_verified(ngx_etcd_watch_t *watch, uint64_t time)
{
    ngx_etcd_mirror_t    *mirror;
    ngx_etcd_election_t  *election;

    mirror = watch->data;
    election = mirror->data;

    if (!mirror->listing && ngx_etcd_election_synced(election)) {
        election->verified(election, time);
    }
}


static void
ngx_etcd_election_witness(ngx_etcd_session_t *session, ngx_str_t *key,
    int64_t *created)
{
    ngx_etcd_election_t  *election = session->data;

    *key = election->own.full;
    *created = election->hold.created;
}


/* the watch may hang on a member that does not apply */

static void
ngx_etcd_election_missing(ngx_etcd_session_t *session, int64_t created)
{
    ngx_etcd_election_t  *election = session->data;

    if (created == election->hold.created) {
        ngx_etcd_session_replace(session, "its key is deleted");
    }
}


static void
ngx_etcd_election_name(ngx_etcd_election_t *election)
{
    u_char     *p;
    ngx_str_t  *prefix;

    prefix = &election->mirror.watch.range.prefix;

    p = prefix->data + prefix->len;
    p = ngx_sprintf(p, "%xL", election->session.lease.id);

    election->own.full.len = p - election->own.full.data;
    election->own.key.len = p - election->own.key.data;
}


static void
ngx_etcd_election_held(ngx_etcd_session_t *session)
{
    ngx_etcd_election_t  *election = session->data;

    ngx_etcd_election_name(election);
    ngx_etcd_election_advance(election);
}


static void
ngx_etcd_election_renewed(ngx_etcd_session_t *session)
{
    ngx_etcd_election_advance(session->data);
}


/* Requests for a lost lease do not matter any more. */

static void
ngx_etcd_election_drop(ngx_etcd_election_t *election)
{
    election->own.writing = 0;
    ngx_etcd_txn_cancel(&election->own.txn);

    election->own.reading = 0;
    ngx_etcd_range_cancel(&election->own.read);

    ngx_etcd_event_stop(&election->timer);
}


static void
ngx_etcd_election_lost(ngx_etcd_session_t *session, char *reason)
{
    ngx_etcd_election_t  *election = session->data;

    election->own.put = 0;

    /* a new candidate does not repeat what the leader has proclaimed */

    if (election->own.said != NULL) {
        election->value.len = 0;
    }

    ngx_etcd_election_drop(election);

    election->hold.created = 0;
    election->own.confirmed = 0;

    ngx_etcd_election_advance(election);
}


static void
ngx_etcd_election_timer(ngx_event_t *ev)
{
    ngx_etcd_election_advance(ev->data);
}


static ngx_int_t
ngx_etcd_election_init(ngx_etcd_election_t *election)
{
    u_char              *p;
    ngx_str_t           *ns;
    ngx_etcd_mirror_t   *mirror;
    ngx_etcd_cluster_t  *cluster;
    ngx_etcd_session_t  *session;

    cluster = election->leases->cluster;
    ns = &cluster->conf->key_namespace;

    mirror = &election->mirror;

    mirror->entries.ordered = 1;
    mirror->entries.keep = NGX_ETCD_CANDIDATE_MAX_VALUE + 1;
    mirror->removed = ngx_etcd_election_removed;
    mirror->complete = ngx_etcd_election_complete;
    mirror->denied = ngx_etcd_election_denied;
    mirror->data = election;

    ngx_etcd_mirror_init(mirror, cluster->log);

    p = ngx_pnalloc(election->pool, sizeof("etcd cluster \"\": ") - 1
                                    + cluster->conf->name.len
                                    + election->name.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    mirror->name.data = p;
    mirror->name.len = ngx_sprintf(p, "etcd cluster \"%V\": %V",
                                   &cluster->conf->name, &election->name)
                       - p;

    p = ngx_pnalloc(election->pool, ns->len + election->prefix.len + 1
                                    + NGX_INT64_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    election->own.full.data = p;
    election->own.key.data = p + ns->len;

    p = ngx_sprintf(p, "%V%V/", ns, &election->prefix);

    mirror->watch.range.prefix.data = election->own.key.data;
    mirror->watch.range.prefix.len = p - election->own.key.data;
    mirror->watch.verify_interval = election->verify_interval;
    mirror->watch.verified = ngx_etcd_election_verified;

    session = &election->session;

    session->leases = election->leases;
    session->name = election->name;
    session->ttl = election->ttl;
    session->exclusive = 1;
    session->witness = ngx_etcd_election_witness;
    session->missing = ngx_etcd_election_missing;
    session->held = ngx_etcd_election_held;
    session->renewed = ngx_etcd_election_renewed;
    session->lost = ngx_etcd_election_lost;
    session->data = election;

    ngx_etcd_event_init_timer(&election->timer, ngx_etcd_election_timer,
                              election, cluster->log);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_election_start(ngx_etcd_election_t *election)
{
    if (ngx_etcd_election_init(election) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_etcd_mirror_start(&election->mirror, election->stream)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (election->hold.lease == 0) {
        ngx_etcd_session_start(&election->session);
        return NGX_OK;
    }

    ngx_etcd_session_adopt(&election->session, &election->hold);

    if (election->session.state != NGX_ETCD_SESSION_HELD) {
        ngx_memzero(&election->hold, sizeof(ngx_etcd_lease_state_t));
        return NGX_OK;
    }

    /*
     * A leader continues to lead: its key exists as long as the lease is valid.
     * Everything else is known when the prefix was read.
     */

    ngx_etcd_election_name(election);

    election->proved = election->hold.until;
    election->own.confirmed = (election->hold.until != 0);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_election_proclaim(ngx_etcd_election_t *election, ngx_str_t *value)
{
    ngx_etcd_election_own_t  *own;

    own = &election->own;

    if (election->session.state != NGX_ETCD_SESSION_HELD
        || election->hold.created == 0
        || own->writing
        || election->timer.timer_set)
    {
        return NGX_AGAIN;
    }

    if (own->said == NULL) {
        own->said = ngx_palloc(election->pool, NGX_ETCD_CANDIDATE_MAX_VALUE);
    }

    if (own->said == NULL || value->len > NGX_ETCD_CANDIDATE_MAX_VALUE) {
        return NGX_ERROR;
    }

    ngx_memcpy(own->said, value->data, value->len);

    election->value.data = own->said;
    election->value.len = value->len;

    ngx_etcd_election_write(election);

    return NGX_OK;
}


void
ngx_etcd_election_end(ngx_etcd_election_t *election,
    void (*ended)(void *data), void *data)
{
    ngx_etcd_election_drop(election);

    election->hold.until = 0;

    ngx_etcd_session_end(&election->session, ended, data);
}


void
ngx_etcd_election_close(ngx_etcd_election_t *election)
{
    ngx_etcd_election_drop(election);

    ngx_etcd_session_close(&election->session);
    ngx_etcd_mirror_destroy(&election->mirror);
}
