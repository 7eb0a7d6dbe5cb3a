
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_campaigner.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_election.h>
#include <ngx_etcd_register.h>


/*
 * ms: interval of asking etcd for a lease, and duration after a request for
 * it
 */

#define NGX_ETCD_CAMPAIGNER_ASK   1000
#define NGX_ETCD_CAMPAIGNER_LOOK  5000

/* verifications of the candidates in a TTL */

#define NGX_ETCD_CAMPAIGNER_VERIFICATIONS  3


typedef struct {
    ngx_etcd_campaigner_t        *campaigner;
    ngx_etcd_campaign_t          *conf;
    ngx_etcd_election_t           election; /* by conf->kind: this one or the
                                             next */
    ngx_etcd_register_t           registration;
    ngx_etcd_election_slot_view_t view;         /* published, unless hidden */
    int64_t                       lease;  /* of the leader; 0: none */
    ngx_etcd_lease_ttl_t          lease_ttl; /* of the lease */
    uint64_t                      asked;  /* time; 0: never */
    uint64_t                      until;  /* value last written */
    int64_t                       created; /* likewise, of the own key */
    unsigned                asking:1;
    unsigned                started:1;
    unsigned                leading:1;    /* logged as leading */
    unsigned                hidden:1;     /* the view is to be published */
} ngx_etcd_run_t;


struct ngx_etcd_campaigner_s {
    ngx_etcd_conf_t         *conf;
    ngx_etcd_zone_t         *zone;
    ngx_etcd_watch_stream_t *stream;
    ngx_etcd_lease_stream_t *leases;
    ngx_pool_t              *pool;
    ngx_log_t               *log;
    ngx_array_t              runs;        /* ngx_etcd_run_t */
    ngx_array_t              former;      /* ngx_etcd_session_t *, ending */
    ngx_uint_t               ending;      /* number of resigning runs */
    void                  (*done)(void *data);
    void                    *data;
    void                  (*lost)(void *data);
    void                    *owner;
    unsigned                resigned:1;
};


ngx_uint_t
ngx_etcd_campaigner_wanted(ngx_etcd_conf_t *conf)
{
    return conf->campaigns.nelts != 0
           || ngx_etcd_object_any_old(&conf->zone,
                                      &ngx_etcd_election_slot_type);
}


/*
 * Called under the zone's mutex; without memory the lease is left to expire.
 */

static void
ngx_etcd_campaigner_former(void *data, ngx_etcd_election_slot_hold_t *slot)
{
    ngx_etcd_campaigner_t *campaigner = data;

    ngx_etcd_lease_state_t  hold;
    ngx_etcd_session_t     *session, **p;

    session = ngx_pcalloc(campaigner->pool, sizeof(ngx_etcd_session_t));
    if (session == NULL) {
        return;
    }

    p = ngx_array_push(&campaigner->former);
    if (p == NULL) {
        return;
    }

    *p = session;

    ngx_memzero(&hold, sizeof(ngx_etcd_lease_state_t));
    hold.lease = slot->lease;

    ngx_str_set(&session->name, "what a former configuration held");

    session->leases = campaigner->leases;

    ngx_etcd_session_adopt(session, &hold);
}


/*
 * Ends the campaigns of former configurations, and checks their end in etcd.
 */

static ngx_int_t
ngx_etcd_campaigner_vacate(ngx_etcd_campaigner_t *campaigner)
{
    ngx_uint_t            i;
    ngx_etcd_session_t  **former;

    if (ngx_etcd_election_slot_vacate_old(campaigner->zone,
                                          ngx_etcd_campaigner_former,
                                          campaigner)
        != NGX_OK)
    {
        return NGX_BUSY;
    }

    former = campaigner->former.elts;

    for (i = 0; i < campaigner->former.nelts; i++) {
        ngx_etcd_session_end(former[i], NULL, NULL);
    }

    return NGX_OK;
}


/*
 * A newer agent continues, or will soon: do not compete with it.  If another
 * agent takes over at this moment, or this one was stopped before a write,
 * ngx_etcd_election_slot_extend() detects that.
 */

static ngx_uint_t
ngx_etcd_campaigner_acts(ngx_etcd_campaigner_t *campaigner)
{
    if (campaigner->resigned || !ngx_etcd_zone_newest(campaigner->zone)) {
        return 0;
    }

    if (!ngx_etcd_zone_owned(campaigner->zone)) {
        campaigner->lost(campaigner->owner);
        return 0;
    }

    return 1;
}


/*
 * The former owner may write once more after the new owner has read: the new
 * owner writes again.  A former owner gives up instead, and run->until keeps
 * the value that it wrote last: it never overwrites the new owner's value.
 */

static void
ngx_etcd_campaigner_extend(ngx_etcd_run_t *run, uint64_t until)
{
    uint64_t          known;
    ngx_int_t         rc;
    ngx_etcd_zone_t  *zone;

    zone = run->campaigner->zone;
    known = run->until;

    do {
        rc = ngx_etcd_election_slot_extend(zone, run->conf->slot, &known,
                                           until);
    } while (rc == NGX_DECLINED && ngx_etcd_zone_owned(zone));

    if (rc == NGX_OK) {
        run->until = until;
    }
}


static void
ngx_etcd_campaigner_store(ngx_etcd_run_t *run, ngx_etcd_lease_state_t *hold)
{
    ngx_etcd_election_slot_hold_t  slot;

    slot.lease = hold->lease;
    slot.ttl = hold->ttl;
    slot.deadline = hold->deadline;
    slot.created = hold->created;

    /* if the mutex is held, this is written with the next renewal */

    if (ngx_etcd_election_slot_store(run->campaigner->zone, run->conf->slot,
                                     &slot)
        == NGX_OK)
    {
        run->created = slot.created;
    }
}


static void
ngx_etcd_campaigner_log(ngx_etcd_run_t *run, ngx_etcd_lease_state_t *hold)
{
    ngx_str_t   *name;
    ngx_uint_t   leading;

    leading = (run->until != 0);

    if (run->leading == leading) {
        return;
    }

    run->leading = leading;
    name = &run->campaigner->conf->name;

    if (leading) {
        ngx_log_error(NGX_LOG_NOTICE, run->campaigner->log, 0,
                      "etcd cluster \"%V\": %V: this nginx leads "
                      "(revision %L, lease %xL)",
                      name, &run->conf->label, hold->created, hold->lease);
        return;
    }

    ngx_log_error(NGX_LOG_NOTICE, run->campaigner->log, 0,
                  "etcd cluster \"%V\": %V: this nginx does not lead any "
                  "more", name, &run->conf->label);
}


/*
 * If the mutex is held, the view is published at the next renewal or
 * verification.
 */

static void
ngx_etcd_campaigner_show(ngx_etcd_run_t *run)
{
    run->hidden = (ngx_etcd_election_slot_show(run->campaigner->zone,
                                               run->conf->slot, &run->view)
                   != NGX_OK);
}


static void
ngx_etcd_campaigner_view(ngx_etcd_run_t *run, ngx_etcd_mirror_entry_t *leader,
    int64_t revision)
{
    int64_t                         lease;
    ngx_etcd_election_slot_view_t  *view;

    view = &run->view;

    view->revision = revision;
    view->created = 0;
    view->key_len = 0;
    view->value_len = 0;
    lease = 0;

    if (leader != NULL) {
        view->created = leader->create_revision;
        view->key_len = ngx_min(leader->key.len,
                                NGX_ETCD_ELECTION_SLOT_MAX_KEY);
        view->value_len = ngx_min(leader->value.len,
                                  NGX_ETCD_ELECTION_SLOT_MAX_VALUE);
        lease = leader->lease;

        ngx_memcpy(view->key, leader->key.data, view->key_len);
        ngx_memcpy(view->value, leader->value.data, view->value_len);
    }

    if (run->lease != lease) {
        run->lease = lease;
        view->expires = 0;
    }

    ngx_etcd_campaigner_show(run);
}


/* The checks that are shared get what the leader says. */

static void
ngx_etcd_campaigner_share(ngx_etcd_run_t *run,
    ngx_etcd_mirror_entry_t *leader)
{
    ngx_etcd_check_share_t  *share;

    share = run->conf->share;

    if (share == NULL || share->seen == NULL) {
        return;
    }

    share->seen(share->check, leader ? &leader->value : NULL,
                leader ? leader->mod_revision : 0, run->until != 0);
}


static ngx_int_t
ngx_etcd_campaigner_proclaim(void *data, ngx_str_t *value)
{
    ngx_etcd_run_t *run = data;

    return (run->until != 0 && !run->campaigner->resigned)
           ? ngx_etcd_election_proclaim(&run->election, value) : NGX_AGAIN;
}


static ngx_int_t
ngx_etcd_campaigner_elected(ngx_etcd_election_t *election, ngx_uint_t seen)
{
    ngx_etcd_run_t          *run;
    ngx_etcd_lease_state_t  *hold;

    run = election->data;
    hold = &election->hold;

    if (!ngx_etcd_campaigner_acts(run->campaigner)) {
        return NGX_DECLINED;
    }

    /*
     * Readers take "until" for a time of the stored term: the former term ends
     * before another one is stored, and this one begins after that.
     */

    if (hold->until == 0 || hold->created != run->created) {
        ngx_etcd_campaigner_extend(run, 0);
    }

    ngx_etcd_campaigner_store(run, hold);

    if (hold->until != 0 && hold->created == run->created) {
        ngx_etcd_campaigner_extend(run, hold->until);
    }

    ngx_etcd_campaigner_log(run, hold);

    if (seen) {
        ngx_etcd_campaigner_view(run, election->leader, election->revision);
    }

    ngx_etcd_campaigner_share(run, seen ? election->leader : NULL);

    return NGX_OK;
}


static void
ngx_etcd_campaigner_verified(ngx_etcd_election_t *election, uint64_t time)
{
    ngx_etcd_run_t  *run = election->data;

    if (!ngx_etcd_campaigner_acts(run->campaigner)) {
        return;
    }

    if (run->hidden) {
        ngx_etcd_campaigner_show(run);
    }

    if (!run->hidden
        && ngx_etcd_zone_lock_owned(run->campaigner->zone, 0) == NGX_OK)
    {
        ngx_etcd_zone_prove(&run->conf->slot->verified, time);
        ngx_etcd_zone_unlock(run->campaigner->zone);
    }
}


static ngx_int_t
ngx_etcd_campaigner_elect(ngx_etcd_run_t *run, ngx_etcd_lease_state_t *hold)
{
    ngx_etcd_election_t  *election;

    election = &run->election;

    election->stream = run->campaigner->stream;
    election->leases = run->campaigner->leases;
    election->pool = run->campaigner->pool;
    election->name = run->conf->label;
    election->prefix = run->conf->key;
    election->value = run->conf->value;
    election->ttl = run->conf->ttl;
    election->hold = *hold;
    election->changed = ngx_etcd_campaigner_elected;
    election->verify_interval = (ngx_msec_t) run->conf->ttl * 1000
                                / NGX_ETCD_CAMPAIGNER_VERIFICATIONS;
    election->verified = ngx_etcd_campaigner_verified;
    election->data = run;

    if (ngx_etcd_election_start(election) != NGX_OK) {
        return NGX_ERROR;
    }

    if (election->hold.until == 0) {
        ngx_etcd_campaigner_extend(run, 0);
    }

    if (run->conf->share != NULL) {
        run->conf->share->run = run;
        run->conf->share->proclaim = ngx_etcd_campaigner_proclaim;

        ngx_etcd_campaigner_share(run, NULL);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_campaigner_registered(ngx_etcd_register_t *registration)
{
    ngx_etcd_run_t  *run = registration->data;

    if (!ngx_etcd_campaigner_acts(run->campaigner)) {
        return NGX_DECLINED;
    }

    ngx_etcd_campaigner_store(run, &registration->hold);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_campaigner_register(ngx_etcd_run_t *run, ngx_etcd_lease_state_t *hold)
{
    ngx_etcd_register_t  *registration;

    registration = &run->registration;

    registration->stream = run->campaigner->stream;
    registration->leases = run->campaigner->leases;
    registration->pool = run->campaigner->pool;
    registration->name = run->conf->label;
    registration->key = run->conf->key;
    registration->value = run->conf->value;
    registration->ttl = run->conf->ttl;
    registration->hold = *hold;
    registration->changed = ngx_etcd_campaigner_registered;
    registration->data = run;

    return ngx_etcd_register_start(registration);
}


static ngx_int_t
ngx_etcd_campaigner_start(ngx_etcd_campaigner_t *campaigner,
    ngx_etcd_campaign_t *conf)
{
    ngx_int_t                       rc;
    ngx_etcd_run_t                 *run;
    ngx_etcd_lease_state_t          hold;
    ngx_etcd_election_slot_hold_t   slot;

    rc = ngx_etcd_zone_lock_owned(campaigner->zone, 0);
    if (rc != NGX_OK) {
        return (rc == NGX_BUSY) ? NGX_BUSY : NGX_ERROR;
    }

    slot = conf->slot->hold;

    ngx_etcd_zone_unlock(campaigner->zone);

    /* the array has room for all: elements do not move */

    run = ngx_array_push(&campaigner->runs);

    ngx_memzero(run, sizeof(ngx_etcd_run_t));

    run->campaigner = campaigner;
    run->conf = conf;
    run->until = conf->slot->until;
    run->created = slot.created;

    hold.lease = slot.lease;
    hold.ttl = (ngx_msec_t) slot.ttl;
    hold.deadline = slot.deadline;
    hold.created = slot.created;
    hold.until = run->until;

    run->leading = (run->until != 0);

    rc = (conf->kind == NGX_ETCD_ELECTION_SLOT_ELECTION)
         ? ngx_etcd_campaigner_elect(run, &hold)
         : ngx_etcd_campaigner_register(run, &hold);

    run->started = (rc == NGX_OK);

    return rc;
}


ngx_etcd_campaigner_t *
ngx_etcd_campaigner_create(ngx_etcd_conf_t *conf,
    ngx_etcd_watch_stream_t *stream,
    void (*lost)(void *data), void *data, ngx_log_t *log, ngx_int_t *rc)
{
    ngx_uint_t               i;
    ngx_pool_t              *pool;
    ngx_etcd_campaign_t    **campaigns;
    ngx_etcd_campaigner_t   *campaigner;

    *rc = NGX_ERROR;
    pool = stream->cluster->pool;

    campaigner = ngx_pcalloc(pool, sizeof(ngx_etcd_campaigner_t));
    if (campaigner == NULL) {
        return NULL;
    }

    campaigner->conf = conf;
    campaigner->zone = &conf->zone;
    campaigner->stream = stream;
    campaigner->pool = pool;
    campaigner->log = log;
    campaigner->lost = lost;
    campaigner->owner = data;

    campaigner->leases = ngx_etcd_lease_stream_create(stream->cluster);

    if (campaigner->leases == NULL
        || ngx_array_init(&campaigner->runs, pool,
                          ngx_max(conf->campaigns.nelts, 1),
                          sizeof(ngx_etcd_run_t))
           != NGX_OK
        || ngx_array_init(&campaigner->former, pool, 1,
                          sizeof(ngx_etcd_session_t *))
           != NGX_OK)
    {
        return NULL;
    }

    *rc = ngx_etcd_campaigner_vacate(campaigner);
    if (*rc != NGX_OK) {
        return NULL;
    }

    campaigns = conf->campaigns.elts;

    for (i = 0; i < conf->campaigns.nelts; i++) {
        *rc = ngx_etcd_campaigner_start(campaigner, campaigns[i]);
        if (*rc != NGX_OK) {
            ngx_etcd_campaigner_destroy(campaigner);
            return NULL;
        }
    }

    return campaigner;
}


void
ngx_etcd_campaigner_destroy(ngx_etcd_campaigner_t *campaigner)
{
    ngx_uint_t            i;
    ngx_etcd_run_t       *runs;
    ngx_etcd_session_t  **former;

    runs = campaigner->runs.elts;

    for (i = 0; i < campaigner->runs.nelts; i++) {

        if (!runs[i].started) {
            continue;
        }

        if (runs[i].conf->kind == NGX_ETCD_ELECTION_SLOT_ELECTION) {
            if (runs[i].conf->share != NULL) {
                runs[i].conf->share->proclaim = NULL;
            }

            ngx_etcd_lease_ttl_cancel(&runs[i].lease_ttl);
            ngx_etcd_election_close(&runs[i].election);

        } else {
            ngx_etcd_register_close(&runs[i].registration);
        }
    }

    former = campaigner->former.elts;

    for (i = 0; i < campaigner->former.nelts; i++) {
        ngx_etcd_session_close(former[i]);
    }

    ngx_etcd_lease_stream_destroy(campaigner->leases);
}


static void
ngx_etcd_campaigner_ended(void *data)
{
    ngx_etcd_campaigner_t *campaigner = data;

    if (--campaigner->ending == 0) {
        campaigner->done(campaigner->data);
    }
}


void
ngx_etcd_campaigner_resign(ngx_etcd_campaigner_t *campaigner,
    void (*done)(void *data), void *data)
{
    ngx_uint_t               i;
    ngx_etcd_run_t          *runs;
    ngx_etcd_lease_state_t   none;

    campaigner->resigned = 1;
    campaigner->done = done;
    campaigner->data = data;

    runs = campaigner->runs.elts;
    campaigner->ending = campaigner->runs.nelts + 1;

    ngx_memzero(&none, sizeof(ngx_etcd_lease_state_t));

    for (i = 0; i < campaigner->runs.nelts; i++) {

        if (runs[i].conf->kind == NGX_ETCD_ELECTION_SLOT_ELECTION) {
            ngx_etcd_lease_ttl_cancel(&runs[i].lease_ttl);
            ngx_etcd_campaigner_extend(&runs[i], 0);
            ngx_etcd_campaigner_view(&runs[i], NULL, 0);
            ngx_etcd_campaigner_log(&runs[i], &none);
            ngx_etcd_campaigner_share(&runs[i], NULL);
        }

        ngx_etcd_campaigner_store(&runs[i], &none);

        if (runs[i].conf->kind == NGX_ETCD_ELECTION_SLOT_ELECTION) {
            ngx_etcd_election_end(&runs[i].election,
                                  ngx_etcd_campaigner_ended, campaigner);

        } else {
            ngx_etcd_register_end(&runs[i].registration,
                                  ngx_etcd_campaigner_ended, campaigner);
        }
    }

    ngx_etcd_campaigner_ended(campaigner);
}


static void
ngx_etcd_campaigner_expires(ngx_etcd_lease_ttl_t *lease_ttl, uint64_t until)
{
    ngx_etcd_run_t  *run = lease_ttl->data;

    run->asking = 0;

    if (run->lease == lease_ttl->lease) {
        run->view.expires = until;
        ngx_etcd_campaigner_show(run);
    }
}


/* Asks etcd about another leader's lease while the status is being watched. */

static void
ngx_etcd_campaigner_ask(ngx_etcd_run_t *run, uint64_t now)
{
    uint64_t  looked;

    looked = __atomic_load_n(&run->conf->slot->asked, __ATOMIC_RELAXED);

    if (run->asking
        || run->lease == 0
        || run->election.hold.until != 0
        || now >= looked + NGX_ETCD_CAMPAIGNER_LOOK
        || now < run->asked + NGX_ETCD_CAMPAIGNER_ASK)
    {
        return;
    }

    run->asking = 1;
    run->asked = now;

    run->lease_ttl.cluster = run->campaigner->stream->cluster;
    run->lease_ttl.lease = run->lease;
    run->lease_ttl.done = ngx_etcd_campaigner_expires;
    run->lease_ttl.data = run;

    ngx_etcd_lease_ttl_ask(&run->lease_ttl);
}


void
ngx_etcd_campaigner_tick(ngx_etcd_campaigner_t *campaigner)
{
    uint64_t         now;
    ngx_uint_t       i;
    ngx_etcd_run_t  *runs;

    if (campaigner->resigned) {
        return;
    }

    now = ngx_etcd_clock();
    runs = campaigner->runs.elts;

    for (i = 0; i < campaigner->runs.nelts; i++) {
        if (runs[i].conf->kind == NGX_ETCD_ELECTION_SLOT_ELECTION) {
            ngx_etcd_campaigner_ask(&runs[i], now);
        }
    }
}
