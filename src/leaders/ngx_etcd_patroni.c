
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_patroni.h>
#include <ngx_etcd_cause.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_failsafe.h>
#include <ngx_etcd_patroni_member.h>
#include <ngx_etcd_patroni_replicas.h>
#include <ngx_etcd_probe.h>
#include <ngx_etcd_str.h>


/*
 * The API of a new leader is asked again and again, until the API confirms that
 * the member leads.
 *
 * Milliseconds between two requests: during the first SOON ms, then until
 * BOUND ms, then afterwards; and milliseconds that one request may take.
 */

#define NGX_ETCD_CONFIRM_QUICK    5
#define NGX_ETCD_CONFIRM_SOON     500
#define NGX_ETCD_CONFIRM_OFTEN    20
#define NGX_ETCD_CONFIRM_BOUND    10000
#define NGX_ETCD_CONFIRM_SELDOM   1000
#define NGX_ETCD_CONFIRM_TIMEOUT  500


typedef struct {
    ngx_etcd_leader_t          *leader;
    char                       *path;
    ngx_uint_t                (*accept)(ngx_str_t *body);  /* of a 200 */

    ngx_etcd_probe_t            probe;
    ngx_etcd_probe_target_t     target;
    ngx_event_t                 timer;     /* the next request */
    ngx_msec_t                  started;
    ngx_etcd_causes_t           causes;    /* why it is late, logged */
    unsigned                    done:1;    /* the leader has confirmed */
} ngx_etcd_confirm_t;


static void
ngx_etcd_confirm_ask(ngx_etcd_confirm_t *confirm)
{
    ngx_etcd_probe_start(&confirm->probe, &confirm->target, confirm->path,
                         NGX_ETCD_CONFIRM_TIMEOUT);
}


static void
ngx_etcd_confirm_timer(ngx_event_t *ev)
{
    ngx_etcd_confirm_t  *confirm;

    confirm = ev->data;

    if (ngx_etcd_service_used(confirm->leader->service)) {
        ngx_etcd_confirm_ask(confirm);
        return;
    }

    /* the selection cancels requests for a leader that nobody uses */

    ngx_etcd_leader_again(confirm->leader);
}


/* A promotion takes a tenth of a second, or much longer. */

static void
ngx_etcd_confirm_again(ngx_etcd_confirm_t *confirm, ngx_str_t *reason)
{
    ngx_msec_t            elapsed, interval;
    ngx_etcd_service_t   *service;

    service = confirm->leader->service;
    elapsed = ngx_current_msec - confirm->started;
    interval = (elapsed < NGX_ETCD_CONFIRM_SOON) ? NGX_ETCD_CONFIRM_QUICK
                                                 : NGX_ETCD_CONFIRM_OFTEN;

    if (elapsed >= NGX_ETCD_CONFIRM_BOUND) {
        interval = NGX_ETCD_CONFIRM_SELDOM;

        if (ngx_etcd_cause_level(&confirm->causes, 0, reason) == NGX_LOG_ERR) {
            ngx_log_error(NGX_LOG_ERR, service->log, 0,
                          "etcd: upstream \"%V\": leader %V of \"%V\" has not "
                          "confirmed that it leads within %d s, it is not "
                          "used: %V", &service->conf->name,
                          ngx_etcd_probe_name(&confirm->probe),
                          ngx_etcd_shown(&service->conf->prefix),
                          NGX_ETCD_CONFIRM_BOUND / 1000, reason);
        }
    }

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, service->log, 0,
                   "etcd confirm %V: %V, again in %Mms",
                   ngx_etcd_probe_name(&confirm->probe), reason, interval);

    ngx_add_timer(&confirm->timer, interval);
}


static void
ngx_etcd_confirm_done(void *data, ngx_uint_t status, ngx_str_t *text)
{
    ngx_etcd_confirm_t *confirm = data;

    ngx_str_t  reason;
    u_char     buf[sizeof("status 65535")];

    if (status == 0) {
        ngx_etcd_confirm_again(confirm, text);
        return;
    }

    if (status != 200 || !confirm->accept(text)) {
        reason.data = buf;
        reason.len = ngx_snprintf(buf, sizeof(buf), "status %ui", status)
                     - buf;

        ngx_etcd_confirm_again(confirm, &reason);
        return;
    }

    confirm->done = 1;
    ngx_etcd_leader_again(confirm->leader);
}


static void
ngx_etcd_confirm_cancel(ngx_etcd_confirm_t *confirm)
{
    ngx_etcd_probe_cancel(&confirm->probe);

    ngx_etcd_event_stop(&confirm->timer);

    confirm->done = 0;
}


/* Cancels a former request, then asks the target. */

static void
ngx_etcd_confirm_start(ngx_etcd_confirm_t *confirm,
    ngx_etcd_probe_target_t *target)
{
    ngx_etcd_confirm_cancel(confirm);

    confirm->target = *target;

    ngx_etcd_event_init_timer(&confirm->timer, ngx_etcd_confirm_timer, confirm,
                              confirm->leader->service->log);

    confirm->probe.log = confirm->leader->service->log;
    confirm->probe.done = ngx_etcd_confirm_done;
    confirm->probe.data = confirm;

    confirm->started = ngx_current_msec;
    (void) ngx_etcd_cause_forget(&confirm->causes);

    ngx_etcd_confirm_ask(confirm);
}


typedef struct {
    ngx_etcd_leader_t         *leader;
    ngx_etcd_patroni_hosts_t   hosts;         /* of members and APIs */

    /* a member is asked to confirm by its API that it leads */

    ngx_etcd_confirm_t         confirm;
    ngx_str_t                  asked;         /* key of the member;
                                                 own memory */
    int64_t                    term;          /* create_revision */
    ngx_uint_t                 wanted;        /* by the present selection */

    ngx_etcd_failsafe_t       *failsafe;      /* or NULL */
} ngx_etcd_patroni_t;


static ngx_int_t
ngx_etcd_patroni_create(ngx_etcd_leader_t *leader, ngx_pool_t *pool)
{
    ngx_etcd_patroni_t  *patroni;

    patroni = ngx_pcalloc(pool, sizeof(ngx_etcd_patroni_t));
    if (patroni == NULL) {
        return NGX_ERROR;
    }

    patroni->leader = leader;
    patroni->hosts.leader = leader;
    leader->ctx = patroni;
    leader->service->diff.sole = 1;

    patroni->confirm.leader = leader;
    patroni->confirm.path = NGX_ETCD_PATRONI_PRIMARY;
    patroni->confirm.accept = ngx_etcd_patroni_api_primary;

    if (leader->conf->role == NGX_ETCD_ROLE_STANDBY_LEADER) {
        patroni->confirm.path = NGX_ETCD_PATRONI_STANDBY_LEADER;
        patroni->confirm.accept = ngx_etcd_patroni_api_standby_leader;
    }

    if (leader->service->conf->rules.failsafe) {
        patroni->failsafe = ngx_etcd_failsafe_create(leader->service, pool);
        if (patroni->failsafe == NULL) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static void
ngx_etcd_patroni_forget(ngx_etcd_patroni_t *patroni)
{
    ngx_etcd_confirm_cancel(&patroni->confirm);

    if (patroni->asked.data != NULL) {
        ngx_free(patroni->asked.data);
    }

    ngx_str_null(&patroni->asked);
    patroni->term = 0;
}


static void
ngx_etcd_patroni_destroy(ngx_etcd_leader_t *leader)
{
    ngx_etcd_patroni_t *patroni = leader->ctx;

    ngx_etcd_member_host_mark(patroni->hosts.list);
    ngx_etcd_member_host_sweep(&patroni->hosts.list);
    ngx_etcd_patroni_forget(patroni);

    if (patroni->failsafe != NULL) {
        ngx_etcd_failsafe_destroy(patroni->failsafe);
    }
}


static ngx_int_t
ngx_etcd_patroni_failsafe_target(ngx_etcd_patroni_t *patroni,
    ngx_etcd_mirror_entry_t *key, json_t *url, ngx_uint_t report,
    ngx_etcd_probe_target_t *target)
{
    ngx_str_t  text;

    if (ngx_etcd_json_string(url, &text) != NGX_OK) {
        return NGX_DECLINED;
    }

    return ngx_etcd_patroni_api_target(&patroni->hosts, key, &text, report,
                                       target);
}


/*
 * Reads the targets: the leader first, then the other members that can be
 * asked.
 */

static char *
ngx_etcd_patroni_failsafe_read(ngx_etcd_patroni_t *patroni,
    ngx_etcd_mirror_entry_t *key, json_t *object,
    ngx_etcd_failsafe_targets_t *targets)
{
    json_t      *url, *own;
    const char  *name;

    own = json_object_getn(object, (char *) targets->leader.data,
                           targets->leader.len);
    if (own == NULL) {
        return "the key \"failsafe\" does not name the leader";
    }

    if (json_object_size(object) > NGX_ETCD_FAILSAFE_MEMBERS) {
        return "the key \"failsafe\" names too many members";
    }

    if (ngx_etcd_patroni_failsafe_target(patroni, key, own, 1,
                                         targets->targets)
        != NGX_OK)
    {
        return "the leader has no usable API";
    }

    targets->n = 1;

    json_object_foreach(object, name, url) {

        if (url != own
            && ngx_etcd_patroni_failsafe_target(patroni, key, url, 0,
                                                &targets->targets[targets->n])
               == NGX_OK)
        {
            targets->n++;
        }
    }

    return NULL;
}


/* Returns NULL, or the reason why no member can be asked. */

static char *
ngx_etcd_patroni_failsafe_targets(ngx_etcd_patroni_t *patroni,
    ngx_etcd_mirror_entry_t *key, ngx_etcd_failsafe_targets_t *targets)
{
    char             *reason;
    ngx_etcd_json_t   json;

    targets->targets = ngx_palloc(patroni->leader->pool,
                                  NGX_ETCD_FAILSAFE_MEMBERS
                                  * sizeof(ngx_etcd_probe_target_t));
    if (targets->targets == NULL) {
        return "no memory";
    }

    reason = "the key \"failsafe\" is not an object";

    if (ngx_etcd_json_read(&json, &key->value, 0) == NGX_OK
        && json_is_object(json.root))
    {
        reason = ngx_etcd_patroni_failsafe_read(patroni, key, json.root,
                                                targets);
    }

    ngx_etcd_json_done(&json);

    return reason;
}


/* Sets the members that are asked if etcd proves nothing any more. */

static void
ngx_etcd_patroni_failsafe(ngx_etcd_patroni_t *patroni,
    ngx_etcd_mirror_entry_t *term)
{
    ngx_etcd_leader_t            *leader;
    ngx_etcd_mirror_entry_t      *key;
    ngx_etcd_failsafe_targets_t   targets;

    leader = patroni->leader;

    ngx_memzero(&targets, sizeof(ngx_etcd_failsafe_targets_t));

    key = ngx_etcd_leader_find(leader, &leader->conf->failsafe);

    if (term == NULL) {
        targets.reason = "there is no leader";

    } else if (key == NULL) {
        targets.reason = "Patroni has no key \"failsafe\"";

    } else {
        targets.leader = term->value;
        targets.term = term->create_revision;
        ngx_etcd_decode_trim(&targets.leader);

        targets.reason = ngx_etcd_patroni_failsafe_targets(patroni, key,
                                                           &targets);
    }

    if (targets.reason != NULL) {
        targets.n = 0;
    }

    ngx_etcd_failsafe_update(patroni->failsafe, &targets);
}


static void
ngx_etcd_patroni_ask(ngx_etcd_patroni_t *patroni, ngx_str_t *asked,
    int64_t term, ngx_etcd_probe_target_t *target)
{
    ngx_etcd_service_t  *service;

    ngx_etcd_patroni_forget(patroni);

    service = patroni->leader->service;

    patroni->asked.data = ngx_alloc(asked->len, service->log);
    if (patroni->asked.data == NULL) {
        return;
    }

    ngx_memcpy(patroni->asked.data, asked->data, asked->len);
    patroni->asked.len = asked->len;
    patroni->term = term;

    if (target->ssl != NULL) {
        ngx_etcd_ssl_refresh(target->ssl, "upstream", &service->conf->name,
                             service->log);
    }

    ngx_etcd_confirm_start(&patroni->confirm, target);
}


/*
 * A member that is in use in this term has been confirmed, by this agent or by
 * a former one.  No other state is kept.
 */

static ngx_uint_t
ngx_etcd_patroni_confirmed(ngx_etcd_patroni_t *patroni,
    ngx_etcd_mirror_entry_t *member, ngx_etcd_mirror_entry_t *term)
{
    ngx_str_t                *asked, url;
    ngx_etcd_key_t           *key;
    ngx_etcd_service_t       *service;
    ngx_etcd_probe_target_t   target;

    service = patroni->leader->service;
    key = ngx_etcd_index_find(&service->diff.index, &member->key);

    if (key != NULL
        && !key->gone
        && key->regs != NULL
        && key->entry.create_revision == term->create_revision)
    {
        return 1;
    }

    if (!ngx_etcd_service_used(service)) {
        service->owner->dormant(service);
        return 0;
    }

    if (ngx_etcd_patroni_api_read(&patroni->hosts, member, &url) != NGX_OK
        || ngx_etcd_patroni_api_target(&patroni->hosts, member, &url, 1,
                                       &target)
           != NGX_OK)
    {
        return 0;
    }

    asked = &patroni->asked;
    patroni->wanted = 1;

    if (patroni->term != term->create_revision
        || !ngx_etcd_str_equal(asked, &member->key)
        || ngx_memcmp(&patroni->confirm.target, &target,
                      sizeof(ngx_etcd_probe_target_t))
           != 0)
    {
        ngx_etcd_patroni_ask(patroni, &member->key, term->create_revision,
                             &target);
    }

    return patroni->confirm.done;
}


/*
 * Either "leader" or "member" may be absent.  Scheduled switchovers are
 * ignored.
 */

static ngx_uint_t
ngx_etcd_patroni_ordered(json_t *order, ngx_str_t *name)
{
    json_t  *at, *from, *to;

    at = json_object_get(order, "scheduled_at");

    if (at != NULL && !json_is_null(at)) {
        return 0;
    }

    from = json_object_get(order, "leader");
    to = json_object_get(order, "member");

    if (json_string_length(from) != 0) {
        return ngx_etcd_json_equals(from, name);
    }

    return json_string_length(to) != 0 && !ngx_etcd_json_equals(to, name);
}


/*
 * Patroni writes the key "failover" before it stops PostgreSQL, and long
 * before the leader's key goes.  The order is cancelled or carried out.
 */

static ngx_uint_t
ngx_etcd_patroni_leaves(ngx_etcd_patroni_t *patroni,
    ngx_etcd_mirror_entry_t *term)
{
    ngx_str_t                 name;
    ngx_uint_t                leaves;
    ngx_etcd_json_t           json;
    ngx_etcd_leader_t        *leader;
    ngx_etcd_mirror_entry_t  *failover;

    leader = patroni->leader;

    failover = ngx_etcd_leader_find(leader, &leader->conf->failover);
    if (failover == NULL) {
        return 0;
    }

    name = term->value;
    ngx_etcd_decode_trim(&name);

    leaves = ngx_etcd_json_read(&json, &failover->value, 0) == NGX_OK
             && ngx_etcd_patroni_ordered(json.root, &name);

    ngx_etcd_json_done(&json);

    return leaves;
}


static void
ngx_etcd_patroni_leader(ngx_etcd_patroni_t *patroni)
{
    ngx_str_t                 reason;
    ngx_uint_t                drain;
    ngx_etcd_leader_t        *leader;
    ngx_etcd_mirror_entry_t  *member, *term;
    ngx_etcd_patroni_says_t   says;

    leader = patroni->leader;

    term = ngx_etcd_leader_find(leader, &leader->conf->key);

    if (patroni->failsafe != NULL) {
        ngx_etcd_patroni_failsafe(patroni, term);
    }

    member = ngx_etcd_leader_named(leader, term);
    if (member == NULL) {
        return;
    }

    if (ngx_etcd_patroni_member_read(leader, &says, member, &reason)
        != NGX_OK)
    {
        ngx_etcd_leader_report(leader, member, &reason);
        return;
    }

    if (says.untagged != NULL) {
        ngx_etcd_leader_unused(leader, member, NGX_ETCD_UNUSED_TAG,
                               &says.untagged->text);
        return;
    }

    if (leader->conf->role == NGX_ETCD_ROLE_STANDBY_LEADER
        && says.role != NGX_ETCD_PATRONI_ROLE_STANDBY_LEADER)
    {
        return;
    }

    if (leader->conf->confirm
        && !ngx_etcd_patroni_confirmed(patroni, member, term))
    {
        return;
    }

    /*
     * A new leader may still be "replica" here: Patroni writes the role after
     * the promotion.
     */

    drain = ngx_etcd_patroni_leaves(patroni, term)
            || !says.running
            || says.role == NGX_ETCD_PATRONI_ROLE_DOWN;

    ngx_etcd_patroni_member_use(&patroni->hosts, member, term, drain);
}


static void
ngx_etcd_patroni_select(ngx_etcd_leader_t *leader)
{
    ngx_etcd_patroni_t *patroni = leader->ctx;

    patroni->wanted = 0;
    ngx_etcd_member_host_mark(patroni->hosts.list);

    if (ngx_etcd_role_sole(leader->conf->role)) {
        ngx_etcd_patroni_leader(patroni);

    } else {
        ngx_etcd_patroni_replicas(&patroni->hosts);
    }

    ngx_etcd_member_host_sweep(&patroni->hosts.list);

    if (!patroni->wanted) {
        ngx_etcd_patroni_forget(patroni);
    }
}


const ngx_etcd_leader_source_t  ngx_etcd_patroni_source = {
    .source = NGX_ETCD_LEADER_SOURCE,
    .create = ngx_etcd_patroni_create,
    .destroy = ngx_etcd_patroni_destroy,
    .candidate = ngx_etcd_leader_own_key,
    .select = ngx_etcd_patroni_select,
};
