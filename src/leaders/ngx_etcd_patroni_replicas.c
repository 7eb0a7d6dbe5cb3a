
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_decode.h>
#include <ngx_etcd_patroni_replicas.h>
#include <ngx_etcd_service.h>
#include <ngx_etcd_str.h>


/*
 * The synchronous replicas: the key "sync" names them, and "synchronous_mode"
 * in the key "config" tells the mode.
 */

typedef struct {
    ngx_etcd_role_e            role;         /* of a member that is named:
                                                SYNC, QUORUM or ASYNC */
    ngx_str_t                  standbys;     /* separated by commas */
} ngx_etcd_patroni_sync_t;


/* words that Patroni takes for true */

static char  *ngx_etcd_patroni_sync_true[] = { "true", "on", "yes", "1", NULL };


static ngx_uint_t
ngx_etcd_patroni_sync_is(ngx_str_t *text, char *word)
{
    return text->len == ngx_strlen(word)
           && ngx_strncasecmp(text->data, (u_char *) word, text->len) == 0;
}


static ngx_etcd_role_e
ngx_etcd_patroni_sync_mode_of(json_t *mode)
{
    char       **word;
    u_char       buf[NGX_ETCD_JSON_NUMBER];
    ngx_str_t    text;

    if (ngx_etcd_json_scalar(mode, buf, &text) != NGX_OK) {
        return NGX_ETCD_ROLE_ASYNC;
    }

    if (ngx_etcd_patroni_sync_is(&text, "quorum")) {
        return NGX_ETCD_ROLE_QUORUM;
    }

    for (word = ngx_etcd_patroni_sync_true; *word != NULL; word++) {
        if (ngx_etcd_patroni_sync_is(&text, *word)) {
            return NGX_ETCD_ROLE_SYNC;
        }
    }

    return NGX_ETCD_ROLE_ASYNC;
}


static ngx_etcd_role_e
ngx_etcd_patroni_sync_mode(ngx_etcd_leader_t *leader)
{
    ngx_etcd_role_e           role;
    ngx_etcd_json_t           json;
    ngx_etcd_mirror_entry_t  *key;

    role = NGX_ETCD_ROLE_ASYNC;

    key = ngx_etcd_leader_find(leader, &leader->conf->config);
    if (key == NULL) {
        return role;
    }

    if (ngx_etcd_json_read(&json, &key->value, 0) == NGX_OK) {
        role = ngx_etcd_patroni_sync_mode_of(
                   json_object_get(json.root, "synchronous_mode"));
    }

    ngx_etcd_json_done(&json);

    return role;
}


static void
ngx_etcd_patroni_sync_standbys(ngx_etcd_leader_t *leader,
    json_t *object, ngx_str_t *standbys)
{
    ngx_str_t  names;

    if (ngx_etcd_json_string(json_object_get(object, "sync_standby"), &names)
        != NGX_OK)
    {
        return;
    }

    standbys->data = ngx_pstrdup(leader->pool, &names);

    if (standbys->data == NULL) {
        leader->service->diff.broken = 1;
        return;
    }

    standbys->len = names.len;
}


static void
ngx_etcd_patroni_sync_read(ngx_etcd_leader_t *leader,
    ngx_etcd_patroni_sync_t *sync)
{
    ngx_etcd_json_t           json;
    ngx_etcd_mirror_entry_t  *key;

    ngx_str_null(&sync->standbys);

    sync->role = ngx_etcd_patroni_sync_mode(leader);

    key = ngx_etcd_leader_find(leader, &leader->conf->sync);

    if (key == NULL || sync->role == NGX_ETCD_ROLE_ASYNC) {
        return;
    }

    if (ngx_etcd_json_read(&json, &key->value, 0) == NGX_OK) {
        ngx_etcd_patroni_sync_standbys(leader, json.root, &sync->standbys);
    }

    ngx_etcd_json_done(&json);
}


/*
 * Returns the location from which lag is counted: the leader's, or the
 * farthest one known.
 */

static uint64_t
ngx_etcd_patroni_replicas_newest(ngx_etcd_leader_t *leader,
    ngx_etcd_mirror_entry_t *named)
{
    uint64_t                  newest;
    ngx_str_t                 reason;
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_mirror_entry_t  *candidate;
    ngx_etcd_patroni_says_t   says;

    if (named != NULL
        && ngx_etcd_patroni_member_read(leader, &says, named, &reason)
           == NGX_OK
        && says.located)
    {
        return says.location;
    }

    newest = 0;
    mirror = &leader->service->mirror;

    for (candidate = ngx_etcd_mirror_first(mirror);
         candidate != NULL;
         candidate = ngx_etcd_mirror_next(mirror, candidate))
    {
        (void) ngx_etcd_patroni_member_read(leader, &says, candidate, &reason);

        if (says.running) {
            newest = ngx_max(newest, says.location);
        }
    }

    return newest;
}


/* PostgreSQL compares names of standbys without case, and so does Patroni. */

static ngx_etcd_role_e
ngx_etcd_patroni_sync_role(ngx_etcd_patroni_sync_t *sync, ngx_str_t *name)
{
    u_char     *p, *comma, *last;
    ngx_str_t   one;

    p = sync->standbys.data;
    last = p + sync->standbys.len;

    while (p < last) {
        comma = ngx_strlchr(p, last, ',');

        one.data = p;
        one.len = (comma ? comma : last) - p;

        ngx_etcd_decode_trim(&one);

        if (ngx_etcd_str_alike(&one, name)) {
            return sync->role;
        }

        p = comma ? comma + 1 : last;
    }

    return NGX_ETCD_ROLE_ASYNC;
}


/* Reads the synchronous standbys only for the roles that depend on them. */

static ngx_uint_t
ngx_etcd_patroni_replicas_in_role(ngx_etcd_leader_conf_t *conf,
    ngx_etcd_patroni_sync_t *sync, ngx_etcd_mirror_entry_t *candidate)
{
    ngx_str_t  name;

    if (conf->role == NGX_ETCD_ROLE_REPLICA || conf->role == NGX_ETCD_ROLE_ANY)
    {
        return 1;
    }

    name.data = candidate->key.data + conf->members.len;
    name.len = candidate->key.len - conf->members.len;

    return ngx_etcd_patroni_sync_role(sync, &name) == conf->role;
}


/*
 * Returns 1 if a member that is running is a replica, takes requests, and does
 * not lag.  Only its own role tells: while Patroni is paused, a second primary
 * may run that has not got the leader's key.
 */

static ngx_uint_t
ngx_etcd_patroni_replicas_wants(ngx_etcd_leader_conf_t *conf,
    ngx_etcd_patroni_says_t *says, uint64_t newest)
{
    if (says->role != NGX_ETCD_PATRONI_ROLE_REPLICA
        || says->noloadbalance
        || !says->replicates)
    {
        return 0;
    }

    if (conf->max_lag == NGX_ETCD_LEADER_ANY_LAG) {
        return 1;
    }

    if (!says->located) {
        return 0;
    }

    return says->location >= newest
           || newest - says->location <= conf->max_lag;
}


static void
ngx_etcd_patroni_replicas_consider(ngx_etcd_patroni_hosts_t *hosts,
    ngx_etcd_mirror_entry_t *candidate, ngx_uint_t leads, uint64_t newest)
{
    ngx_str_t                 reason;
    ngx_etcd_leader_t        *leader;
    ngx_etcd_patroni_says_t   says;

    leader = hosts->leader;

    if (ngx_etcd_patroni_member_read(leader, &says, candidate, &reason)
        != NGX_OK)
    {
        ngx_etcd_leader_report(leader, candidate, &reason);
        return;
    }

    if (says.untagged != NULL) {
        ngx_etcd_leader_unused(leader, candidate, NGX_ETCD_UNUSED_TAG,
                               &says.untagged->text);
        return;
    }

    if (!says.running || says.role == NGX_ETCD_PATRONI_ROLE_DOWN) {
        return;
    }

    if (!leads && says.role == NGX_ETCD_PATRONI_ROLE_NONE) {
        ngx_etcd_leader_refuse(leader, candidate, NULL, "role is missing");
        return;
    }

    if (leads || ngx_etcd_patroni_replicas_wants(leader->conf, &says, newest)) {
        ngx_etcd_patroni_member_use(hosts, candidate, candidate, 0);
    }
}


void
ngx_etcd_patroni_replicas(ngx_etcd_patroni_hosts_t *hosts)
{
    uint64_t                  newest;
    ngx_uint_t                leads;
    ngx_etcd_leader_t        *leader;
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_mirror_entry_t  *candidate, *named;
    ngx_etcd_patroni_sync_t   sync;

    leader = hosts->leader;
    mirror = &leader->service->mirror;

    ngx_etcd_patroni_sync_read(leader, &sync);

    named = ngx_etcd_leader_named(leader,
                             ngx_etcd_leader_find(leader, &leader->conf->key));
    newest = ngx_etcd_patroni_replicas_newest(leader, named);

    for (candidate = ngx_etcd_mirror_first(mirror);
         candidate != NULL;
         candidate = ngx_etcd_mirror_next(mirror, candidate))
    {
        if (!ngx_etcd_leader_below(&candidate->key, &leader->conf->members)) {
            continue;
        }

        leads = (candidate == named);

        if (leads ? leader->conf->role == NGX_ETCD_ROLE_ANY
                  : ngx_etcd_patroni_replicas_in_role(leader->conf, &sync,
                                                      candidate))
        {
            ngx_etcd_patroni_replicas_consider(hosts, candidate, leads, newest);
        }
    }
}
