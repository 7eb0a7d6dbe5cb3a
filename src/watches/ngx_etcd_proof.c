
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_proof.h>


static void
ngx_etcd_verify_schedule(ngx_etcd_verify_t *verify, ngx_msec_t delay)
{
    verify->state = NGX_ETCD_VERIFY_SCHEDULED;
    ngx_add_timer(&verify->timer, delay);
}


/* Schedules the read after the one that was sent at that time. */

static void
ngx_etcd_verify_next(ngx_etcd_verify_t *verify, uint64_t sent)
{
    uint64_t    passed;
    ngx_msec_t  interval;

    interval = verify->interval;
    passed = ngx_etcd_clock() - sent;

    if (verify->revision == NULL) {
        interval -= (ngx_msec_t) ngx_random() % (interval / 4 + 1);
    }

    ngx_etcd_verify_schedule(verify,
                             (passed + NGX_ETCD_VERIFY_AGAIN < interval)
                             ? interval - (ngx_msec_t) passed
                             : NGX_ETCD_VERIFY_AGAIN);
}


/* Schedules the read in place of one that has failed, or was not possible. */

static void
ngx_etcd_verify_again(ngx_etcd_verify_t *verify)
{
    if (verify->revision == NULL) {
        verify->due = 0;
        ngx_etcd_verify_next(verify, ngx_etcd_clock());
        return;
    }

    ngx_etcd_verify_schedule(verify, NGX_ETCD_VERIFY_AGAIN);
}


/* the answer is of the same history, and not older than the watch */

static ngx_uint_t
ngx_etcd_verify_comparable(ngx_etcd_verify_t *verify,
    Etcd__RangeResponse *response)
{
    uint64_t               id;
    Etcd__ResponseHeader  *header;

    header = response->header;

    /* 0: only a proxy has answered so far, which does not name a cluster */

    id = verify->proof->cluster->cluster_id;

    return header != NULL
           && header->revision >= verify->known
           && (id == 0 || header->cluster_id == id);
}


/*
 * If the watch has passed the answer's revision since the Range was sent, it
 * has reported everything that the answer counts, but the numbers belong to
 * different revisions and must not be compared.
 */

static ngx_uint_t
ngx_etcd_verify_agrees(ngx_etcd_verify_t *verify, Etcd__RangeResponse *response)
{
    if (verify->revision == NULL) {
        return 1;
    }

    if (!ngx_etcd_verify_comparable(verify, response)) {
        return 0;
    }

    if (response->header->revision < *verify->revision) {
        return 1;
    }

    return response->count == *verify->nkeys
           && (response->n_kvs == 0
               || response->kvs[0]->mod_revision <= *verify->revision);
}


static void
ngx_etcd_verify_proved(ngx_etcd_verify_t *verify, uint64_t sent)
{
    verify->behind = 0;
    verify->awaited = 0;

    /* the answer to a running read schedules the next one */

    if (verify->state != NGX_ETCD_VERIFY_READING) {
        ngx_etcd_verify_next(verify, sent);
    }

    /* the answer proves as much as one to a PING, which only follows silence */

    ngx_etcd_cluster_prove(verify->proof->cluster, sent);

    if (verify->revision != NULL) {
        verify->verified(verify->data, sent);
    }
}


static void
ngx_etcd_verify_differs(ngx_etcd_verify_t *verify)
{
    ngx_etcd_cluster_t  *cluster;

    cluster = verify->proof->cluster;
    cluster->counts.resyncs++;

    ngx_log_error(NGX_LOG_WARN, cluster->log, 0,
                  "etcd cluster \"%V\": prefix \"%V\": the watch differs "
                  "from etcd at revision %L, listing again",
                  &cluster->conf->name, &verify->range->prefix,
                  *verify->revision);

    verify->differs(verify->data);
}


static void
ngx_etcd_verify_behind(ngx_etcd_verify_t *verify, Etcd__RangeResponse *response)
{
    ngx_uint_t  comparable;

    ngx_etcd_verify_again(verify);

    /* events that have arrived but were not passed on yet: compare later */

    if (verify->pending(verify->data)) {
        return;
    }

    comparable = ngx_etcd_verify_comparable(verify, response);

    /* at the same revision no event is on its way: one was lost */

    if (++verify->behind < NGX_ETCD_VERIFY_BEHIND
        && !(comparable && response->header->revision == *verify->revision))
    {
        if (verify->awaited == 0
            && comparable
            && response->header->revision > *verify->revision)
        {
            verify->awaited = response->header->revision;
            verify->count = response->count;
            verify->asked = verify->sent;
        }

        return;
    }

    ngx_etcd_verify_differs(verify);
}


/* Other failures of a key say nothing about the endpoint, or end the stream. */

static void
ngx_etcd_verify_failed(ngx_etcd_verify_t *verify, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_str_t            reason;
    ngx_etcd_cluster_t  *cluster;

    cluster = verify->proof->cluster;

    ngx_etcd_verify_again(verify);

    if (verify->revision == NULL) {
        return;
    }

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": prefix \"%V\": verifying the watch "
                  "failed: %s: %V", &cluster->conf->name,
                  &verify->range->prefix, ngx_etcd_grpc_status_name(status),
                  text);

    /* the end of the stream stops the verification */

    if (ngx_etcd_channel_get(cluster->streams) == NULL
        || verify->read.refused)
    {
        return;
    }

    if (status == NGX_ETCD_GRPC_PERMISSION_DENIED) {
        verify->refused(verify->data, status, text);
        return;
    }

    if (ngx_etcd_clock() >= verify->due) {
        ngx_str_set(&reason, "no answer to a linearizable read");
        verify->proof->leave(verify->proof->data, &reason);
    }
}


/* after this, the watch may be off the stream, or on another one */

static void
ngx_etcd_verify_done(ngx_etcd_stream_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response)
{
    ngx_etcd_verify_t  *verify = range->data;

    verify->state = NGX_ETCD_VERIFY_STOPPED;
    ngx_etcd_event_stop(&verify->timer);

    if (status != NGX_ETCD_GRPC_OK
        && (status != NGX_ETCD_GRPC_PERMISSION_DENIED
            || verify->revision != NULL))
    {
        ngx_etcd_verify_failed(verify, status, text);
        return;
    }

    verify->due = 0;
    verify->silences = 0;

    if (ngx_etcd_verify_agrees(verify, response)) {
        ngx_etcd_verify_proved(verify, verify->sent);

    } else {
        ngx_etcd_verify_behind(verify, response);
    }
}


/* Returns for how many ms an endpoint may fail to answer. */

static ngx_msec_t
ngx_etcd_verify_patience(ngx_etcd_verify_t *verify)
{
    ngx_msec_t           least, most;
    ngx_etcd_cluster_t  *cluster;

    cluster = verify->proof->cluster;
    most = cluster->conf->request_timeout;

    if (verify->revision == NULL) {
        return most << ngx_min(verify->silences, NGX_ETCD_PROOF_DOUBLINGS);
    }

    least = ngx_max(verify->interval, NGX_ETCD_VERIFY_MIN);

    return ngx_etcd_latency_attempt(&cluster->latency, ngx_min(least, most),
                                    most);
}


/*
 * The response has the newest key only, and the number of all keys.
 */

static void
ngx_etcd_verify_read(ngx_etcd_verify_t *verify)
{
    uint64_t            now;
    Etcd__RangeRequest  request;

    etcd__range_request__init(&request);

    request.key = ngx_etcd_bytes(&verify->range->key);
    request.range_end = ngx_etcd_bytes(&verify->range->range_end);
    request.keys_only = 1;

    if (verify->revision != NULL) {
        request.min_mod_revision = *verify->revision + 1;
        request.sort_target = ETCD__RANGE_REQUEST__SORT_TARGET__MOD;
        request.sort_order = ETCD__RANGE_REQUEST__SORT_ORDER__DESCEND;
        request.limit = 1;

        verify->known = *verify->revision;
    }

    if (verify->range->key.len == 0
        || ngx_etcd_stream_range_start(&verify->read, &request) != NGX_OK)
    {
        ngx_etcd_verify_again(verify);
        return;
    }

    now = ngx_etcd_clock();

    verify->state = NGX_ETCD_VERIFY_READING;
    verify->sent = now;

    if (verify->due == 0) {
        verify->due = now + ngx_etcd_verify_patience(verify);
    }

    ngx_add_timer(&verify->timer,
                  (now < verify->due) ? (ngx_msec_t) (verify->due - now) : 1);
}


static void
ngx_etcd_verify_timer(ngx_event_t *ev)
{
    ngx_etcd_verify_t  *verify = ev->data;

    ngx_str_t          reason;
    ngx_etcd_proof_t  *proof;

    if (verify->state == NGX_ETCD_VERIFY_SCHEDULED) {
        ngx_etcd_verify_read(verify);
        return;
    }

    proof = verify->proof;

    ngx_str_set(&reason, "no answer to a linearizable read");

    if (verify->revision == NULL) {
        ngx_etcd_auth_unanswered(proof->cluster->auth, verify->read.token,
                                 &reason);
    }

    ngx_etcd_verify_stop(verify);

    verify->silences++;
    proof->leave(proof->data, &reason);
}


void
ngx_etcd_verify_start(ngx_etcd_verify_t *verify)
{
    ngx_etcd_cluster_t  *cluster;

    if (verify == NULL || verify->interval == 0) {
        return;
    }

    cluster = verify->proof->cluster;

    verify->read.cluster = cluster;
    verify->read.done = ngx_etcd_verify_done;
    verify->read.data = verify;

    ngx_etcd_event_init_timer(&verify->timer, ngx_etcd_verify_timer, verify,
                              cluster->log);

    if (verify->revision == NULL) {
        ngx_etcd_verify_again(verify);

    } else {
        ngx_etcd_verify_schedule(verify, 1);
    }
}


void
ngx_etcd_verify_stop(ngx_etcd_verify_t *verify)
{
    if (verify == NULL) {
        return;
    }

    verify->state = NGX_ETCD_VERIFY_STOPPED;
    verify->due = 0;
    verify->behind = 0;
    verify->awaited = 0;

    ngx_etcd_event_stop(&verify->timer);
    ngx_etcd_stream_range_cancel(&verify->read);
}


void
ngx_etcd_verify_counted(ngx_etcd_verify_t *verify, int64_t revision,
    ngx_int_t change)
{
    if (verify != NULL && revision > verify->awaited) {
        verify->count += change;
    }
}


void
ngx_etcd_verify_reached(ngx_etcd_verify_t *verify)
{
    if (verify == NULL
        || verify->awaited == 0
        || *verify->revision < verify->awaited)
    {
        return;
    }

    if (verify->count == *verify->nkeys) {
        ngx_etcd_verify_proved(verify, verify->asked);

    } else {
        ngx_etcd_verify_differs(verify);
    }
}


void
ngx_etcd_verify_anew(ngx_etcd_verify_t *verify)
{
    if (verify != NULL) {
        verify->awaited = 0;
    }
}


void
ngx_etcd_proof_know(ngx_etcd_proof_t *proof, ngx_str_t *key)
{
    u_char  *copy;

    if (proof->range.key.len != 0) {
        return;
    }

    copy = ngx_pstrdup(proof->cluster->pool, key);

    if (copy != NULL) {
        proof->range.key.data = copy;
        proof->range.key.len = key->len;
    }
}


void
ngx_etcd_proof_count(ngx_etcd_proof_t *proof, ngx_int_t in_force,
    ngx_int_t behind)
{
    proof->in_force += in_force;
    proof->behind += behind;

    proof->cluster->current = (proof->in_force != 0 && proof->behind == 0);
}


void
ngx_etcd_proof_opened(ngx_etcd_proof_t *proof)
{
    ngx_etcd_verify_stop(&proof->verify);

    proof->verify.interval = proof->cluster->conf->ping_interval
                             * NGX_ETCD_PROOF_PINGS;

    ngx_etcd_verify_start(&proof->verify);
}


void
ngx_etcd_proof_ended(ngx_etcd_proof_t *proof)
{
    proof->asked = 0;
    proof->again = 0;

    ngx_etcd_verify_stop(&proof->verify);
}


/*
 * Answers do not identify their request, and a request may get no answer.  So
 * an answer proves the time of the first request only.  If the request was
 * repeated, the next one is delayed until all earlier answers should have come.
 */

void
ngx_etcd_proof_received(ngx_etcd_proof_t *proof, ngx_uint_t answer)
{
    if (!answer) {
        ngx_etcd_cluster_prove(proof->cluster, ngx_etcd_clock());
        return;
    }

    if (proof->asked == 0) {
        return;
    }

    ngx_etcd_cluster_prove(proof->cluster, proof->asked);

    proof->again = proof->repeated ? ngx_etcd_clock() + NGX_ETCD_PROOF_AGAIN
                                   : 0;
    proof->asked = 0;
}


void
ngx_etcd_proof_ask(ngx_etcd_proof_t *proof)
{
    uint64_t  now;

    now = ngx_etcd_clock();

    if (!proof->cluster->current
        || now < proof->again
        || proof->progress(proof->data) != NGX_OK)
    {
        return;
    }

    proof->repeated = (proof->asked != 0);

    if (!proof->repeated) {
        proof->asked = now;
    }

    proof->again = now + NGX_ETCD_PROOF_AGAIN;
}
