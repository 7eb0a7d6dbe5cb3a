
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_auth.h>
#include <ngx_etcd_secret.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_proto.pb-c.h>


static void
ngx_etcd_auth_password(ngx_etcd_auth_t *auth)
{
    ngx_etcd_auth_file_read(&auth->file, auth->cluster->conf,
                            auth->cluster->log);
}


/* exponential backoff with full jitter, as ngx_etcd_backoff() */

static void
ngx_etcd_auth_later(ngx_etcd_auth_t *auth, ngx_msec_t max)
{
    ngx_msec_t  delay;

    delay = NGX_ETCD_BACKOFF_BASE << ngx_min(auth->failures, 10);
    delay = ngx_min(delay, max);

    auth->state = NGX_ETCD_AUTH_WAITING;

    ngx_add_timer(&auth->timer, 1 + (ngx_msec_t) ngx_random() % delay);
}


static void
ngx_etcd_auth_trouble(ngx_etcd_auth_t *auth, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_uint_t           level;
    ngx_etcd_channel_t  *channel;

    channel = auth->channel;

    /* the first failure may be that of an endpoint, and has a line for it */

    level = auth->failures ? ngx_etcd_cause_level(&auth->causes, status, text)
                           : NGX_LOG_INFO;

    ngx_log_error(level, auth->cluster->log, 0,
                  "etcd cluster \"%V\": authentication failed: %s: %V, "
                  "trying again",
                  &auth->cluster->conf->name,
                  ngx_etcd_grpc_status_name(status), text);

    ngx_etcd_login_suspect(&auth->login, 1);

    /*
     * The second failure in a row may be that of etcd, which computes what was
     * given up: logins become rare.
     */

    if (auth->failures++ == 0) {
        ngx_etcd_auth_later(auth, NGX_ETCD_BACKOFF_MAX);

    } else {
        auth->state = NGX_ETCD_AUTH_WAITING;
        ngx_add_timer(&auth->timer, ngx_etcd_login_pause(auth->failures));
    }

    /* an endpoint that is busy with other answers is slow, but alive */

    if (status != NGX_ETCD_GRPC_UNAVAILABLE
        && (ngx_msec_int_t) (channel->heard - auth->login.sent) >= 0)
    {
        return;
    }

    /* streams end by themselves if their endpoint has failed */

    if (channel == auth->cluster->streams) {
        auth->channel = auth->cluster->reads;
        return;
    }

    ngx_etcd_channel_failed(channel, text);
}


static void
ngx_etcd_auth_set_unauthorized(ngx_etcd_auth_t *auth, ngx_uint_t unauthorized)
{
    if (!unauthorized) {
        (void) ngx_etcd_cause_forget(&auth->causes);
    }

    if (auth->unauthorized != unauthorized || unauthorized) {
        auth->unauthorized = unauthorized;
        auth->cluster->endpoints.version++;
        auth->cluster->changed(auth->cluster->data);
    }
}


static void
ngx_etcd_auth_resume(ngx_etcd_auth_t *auth)
{
    auth->state = NGX_ETCD_AUTH_READY;
    auth->generation++;

    ngx_post_event(&auth->wake, &ngx_posted_events);
}


static void
ngx_etcd_auth_set_ready(ngx_etcd_auth_t *auth)
{
    auth->since = ngx_current_msec;

    ngx_etcd_auth_resume(auth);
}


static void
ngx_etcd_auth_granted(ngx_etcd_auth_t *auth)
{
    ngx_uint_t           level;
    ngx_etcd_cluster_t  *cluster;

    cluster = auth->cluster;
    level = ngx_etcd_cause_forget(&auth->causes) ? NGX_LOG_NOTICE
                                                 : NGX_LOG_INFO;

    ngx_log_error(level, cluster->log, 0,
                  "etcd cluster \"%V\": user \"%V\" is authenticated",
                  &cluster->conf->name, &cluster->conf->user);

    auth->token = auth->login.token;
    ngx_str_null(&auth->login.token);

    auth->issued = ngx_current_msec;
    auth->repeats = 0;
    auth->disabled = 0;

    ngx_etcd_login_suspect(&auth->login, 0);
    ngx_etcd_auth_set_unauthorized(auth, 0);
    ngx_etcd_auth_set_ready(auth);
}


static ngx_uint_t
ngx_etcd_auth_says(ngx_str_t *text, char *words)
{
    size_t  len;

    len = ngx_strlen(words);

    return text->len >= len
           && ngx_strlcasestrn(text->data, text->data + text->len,
                               (u_char *) words, len - 1)
              != NULL;
}


static void
ngx_etcd_auth_not_enabled(ngx_etcd_auth_t *auth)
{
    ngx_uint_t           level;
    ngx_etcd_cluster_t  *cluster;

    cluster = auth->cluster;
    level = auth->disabled ? NGX_LOG_INFO : NGX_LOG_NOTICE;

    ngx_log_error(level, cluster->log, 0,
                  "etcd cluster \"%V\": authentication is not enabled there, "
                  "going on without user \"%V\"",
                  &cluster->conf->name, &cluster->conf->user);

    auth->disabled = 1;

    ngx_etcd_auth_set_unauthorized(auth, 0);
    ngx_etcd_auth_set_ready(auth);
}


/* the user is unknown, the password is wrong, or a user is required */

static void
ngx_etcd_auth_denied(ngx_etcd_auth_t *auth, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_uint_t                level;
    ngx_etcd_cluster_t       *cluster;
    ngx_etcd_cluster_conf_t  *conf;

    cluster = auth->cluster;
    conf = cluster->conf;

    level = ngx_etcd_cause_level(&auth->causes, status, text);

    if (level != NGX_LOG_ERR) {
        level = NGX_LOG_DEBUG;
    }

    if (conf->token) {
        ngx_log_error(level, cluster->log, 0,
                      "etcd cluster \"%V\": the token of \"token_file\" \"%V\" "
                      "is refused: %s: %V", &conf->name, &conf->password_file,
                      ngx_etcd_grpc_status_name(status), text);

    } else if (conf->user.len) {
        ngx_log_error(level, cluster->log, 0,
                      "etcd cluster \"%V\": user \"%V\" is refused: %s: %V",
                      &conf->name, &conf->user,
                      ngx_etcd_grpc_status_name(status), text);

    } else {
        ngx_log_error(level, cluster->log, 0,
                      "etcd cluster \"%V\": a user is required, and no "
                      "\"user\" is set: %s: %V", &conf->name,
                      ngx_etcd_grpc_status_name(status), text);
    }

    /* a wrong password costs etcd as much as the right one */

    ngx_etcd_login_suspect(&auth->login, 1);
    auth->failures++;

    auth->refusal.data = auth->refusal_text;
    auth->refusal.len = ngx_min(text->len, NGX_ETCD_AUTH_REFUSAL);
    ngx_memcpy(auth->refusal.data, text->data, auth->refusal.len);

    ngx_etcd_auth_set_unauthorized(auth, 1);
    ngx_etcd_auth_later(auth, NGX_ETCD_AUTH_BACKOFF_MAX);
}


static void
ngx_etcd_auth_busy(ngx_etcd_login_t *login, ngx_msec_t pause)
{
    ngx_etcd_auth_t  *auth;

    auth = login->data;

    ngx_log_error(NGX_LOG_INFO, auth->cluster->log, 0,
                  "etcd cluster \"%V\": etcd is busy, user \"%V\" logs in "
                  "after %M ms", &auth->cluster->conf->name,
                  &auth->cluster->conf->user, pause);

    auth->state = NGX_ETCD_AUTH_WAITING;
    ngx_add_timer(&auth->timer, pause);
}


static void
ngx_etcd_auth_ended(ngx_etcd_login_t *login, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_etcd_auth_t  *auth;

    auth = login->data;

    /* etcd returns "unknown" for errors that have no gRPC code */

    if (ngx_etcd_backoff_retriable(status) && status != NGX_ETCD_GRPC_UNKNOWN) {
        ngx_etcd_auth_trouble(auth, status, text);
        return;
    }

    ngx_etcd_channel_succeeded(auth->channel);

    if (status == NGX_ETCD_GRPC_OK) {
        ngx_etcd_auth_granted(auth);

    } else if (ngx_etcd_auth_says(text, "authentication is not enabled")) {
        ngx_etcd_auth_not_enabled(auth);

    } else {
        ngx_etcd_auth_denied(auth, status, text);
    }
}


/* Takes what the file has as the token.  NGX_ERROR: no memory. */

static ngx_int_t
ngx_etcd_auth_take(ngx_etcd_auth_t *auth)
{
    u_char  *token;

    token = ngx_etcd_secret_alloc(auth->file.password.len, auth->cluster->log);
    if (token == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(token, auth->file.password.data, auth->file.password.len);

    ngx_etcd_secret_drop(&auth->token);

    auth->token.data = token;
    auth->token.len = auth->file.password.len;

    return NGX_OK;
}


/* Returns 1 if the file has another token than that in use. */

static ngx_uint_t
ngx_etcd_auth_replaced(ngx_etcd_auth_t *auth)
{
    ngx_etcd_auth_password(auth);

    return !ngx_etcd_str_equal(&auth->file.password, &auth->token);
}


static void
ngx_etcd_auth_ask(void *data)
{
    ngx_etcd_auth_t *auth = data;

    ngx_etcd_http2_t  *h2;

    if (auth->cluster->conf->token) {

        /* whether etcd accepts the token shows with the next call */

        ngx_etcd_auth_password(auth);

        if (ngx_etcd_auth_take(auth) != NGX_OK) {
            auth->failures++;
            ngx_etcd_auth_later(auth, NGX_ETCD_BACKOFF_MAX);
            return;
        }

        ngx_etcd_auth_set_ready(auth);
        return;
    }

    auth->state = NGX_ETCD_AUTH_ASKING;

    h2 = ngx_etcd_channel_get(auth->channel);

    if (h2 == NULL) {
        auth->channel = auth->cluster->reads;
        h2 = ngx_etcd_channel_get(auth->channel);
    }

    if (h2 == NULL) {
        ngx_etcd_channel_wait(auth->channel, &auth->waiter);
        return;
    }

    ngx_etcd_auth_password(auth);

    auth->login.channel = auth->channel;

    if (ngx_etcd_login_begin(&auth->login, h2, auth->failures) != NGX_OK) {
        auth->failures++;
        ngx_etcd_auth_later(auth, NGX_ETCD_BACKOFF_MAX);
    }
}


static void
ngx_etcd_auth_timer(ngx_event_t *ev)
{
    ngx_etcd_auth_t  *auth;

    auth = ev->data;

    if (auth->state == NGX_ETCD_AUTH_SPREADING) {
        ngx_etcd_auth_resume(auth);
        return;
    }

    if (!ngx_etcd_cluster_authenticates(auth->cluster->conf)) {

        /* there is no token to request, but etcd may accept calls again */

        ngx_etcd_auth_set_ready(auth);
        return;
    }

    if (ngx_queue_empty(&auth->waiters)) {
        auth->state = NGX_ETCD_AUTH_WANTED;
        return;
    }

    ngx_etcd_auth_ask(auth);
}


static void
ngx_etcd_auth_wake(ngx_event_t *ev)
{
    ngx_etcd_auth_t  *auth;

    auth = ev->data;

    ngx_etcd_waiter_wake_all(&auth->waiters);
}


ngx_etcd_auth_t *
ngx_etcd_auth_create(ngx_etcd_cluster_t *cluster)
{
    ngx_etcd_auth_t          *auth;
    ngx_etcd_cluster_conf_t  *conf;

    conf = cluster->conf;

    auth = ngx_pcalloc(cluster->pool, sizeof(ngx_etcd_auth_t));
    if (auth == NULL) {
        return NULL;
    }

    auth->cluster = cluster;
    auth->channel = cluster->reads;
    auth->state = ngx_etcd_cluster_authenticates(conf) ? NGX_ETCD_AUTH_WANTED
                                                       : NGX_ETCD_AUTH_READY;

    auth->file.password.data = ngx_etcd_secret_palloc(cluster->pool,
                                                      NGX_ETCD_TOKEN_MAX + 1);
    if (auth->file.password.data == NULL) {
        return NULL;
    }

    if (conf->password.len != 0) {
        auth->file.password.len = conf->password.len;
        ngx_memcpy(auth->file.password.data, conf->password.data,
                   conf->password.len);
    }

    auth->waiter.handler = ngx_etcd_auth_ask;
    auth->waiter.data = auth;

    auth->login.user = &conf->user;
    auth->login.password = &auth->file.password;
    auth->login.log = cluster->log;
    auth->login.done = ngx_etcd_auth_ended;
    auth->login.busy = ngx_etcd_auth_busy;
    auth->login.data = auth;

    ngx_etcd_login_init(&auth->login);

    ngx_etcd_event_init_timer(&auth->timer, ngx_etcd_auth_timer, auth,
                              cluster->log);

    ngx_etcd_event_init(&auth->wake, ngx_etcd_auth_wake, auth, cluster->log);

    ngx_queue_init(&auth->waiters);

    return auth;
}


void
ngx_etcd_auth_destroy(ngx_etcd_auth_t *auth)
{
    ngx_etcd_waiter_drop_all(&auth->waiters);
    ngx_etcd_waiter_forget(&auth->waiter);

    ngx_etcd_login_cancel(&auth->login);

    ngx_etcd_event_stop(&auth->timer);
    ngx_etcd_event_stop(&auth->wake);

    ngx_etcd_secret_drop(&auth->token);

    ngx_explicit_memzero(auth->file.password.data, NGX_ETCD_TOKEN_MAX);
}


ngx_uint_t
ngx_etcd_auth_ready(ngx_etcd_auth_t *auth)
{
    return auth->state == NGX_ETCD_AUTH_READY;
}


void
ngx_etcd_auth_wait(ngx_etcd_auth_t *auth, ngx_etcd_waiter_t *waiter)
{
    ngx_etcd_waiter_wait(waiter, &auth->waiters);

    if (auth->state == NGX_ETCD_AUTH_WANTED) {
        ngx_etcd_auth_ask(auth);

    } else if (auth->state == NGX_ETCD_AUTH_READY) {
        ngx_post_event(&auth->wake, &ngx_posted_events);
    }
}


ngx_uint_t
ngx_etcd_auth_metadata(ngx_etcd_auth_t *auth, ngx_keyval_t *md,
    ngx_uint_t *generation)
{
    /* the file of the token may have another one by now */

    if (auth->cluster->conf->token
        && auth->state == NGX_ETCD_AUTH_READY
        && ngx_etcd_auth_file_changed(&auth->file, auth->cluster->conf)
        && ngx_etcd_auth_replaced(auth)
        && ngx_etcd_auth_take(auth) == NGX_OK)
    {
        auth->generation++;
    }

    *generation = auth->generation;

    if (auth->token.len == 0) {
        return 0;
    }

    ngx_str_set(&md->key, "token");
    md->value = auth->token;

    return 1;
}


/* The token is not used any more. */

static void
ngx_etcd_auth_renew(ngx_etcd_auth_t *auth, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_etcd_cluster_t  *cluster;

    cluster = auth->cluster;

    if (ngx_current_msec - auth->since > NGX_ETCD_AUTH_HELD) {
        auth->failures = 0;
    }

    if (cluster->conf->token && ngx_etcd_auth_replaced(auth)) {
        auth->state = NGX_ETCD_AUTH_WANTED;
        return;
    }

    ngx_etcd_secret_drop(&auth->token);

    if (cluster->conf->user.len == 0) {
        ngx_etcd_auth_denied(auth, status, text);
        return;
    }

    ngx_log_error(NGX_LOG_INFO, cluster->log, 0,
                  "etcd cluster \"%V\": user \"%V\" needs a new token: %V",
                  &cluster->conf->name, &cluster->conf->user, text);

    /* only the first rejection in a row is followed by a request at once */

    if (auth->failures++ == 0) {
        auth->state = NGX_ETCD_AUTH_WANTED;
        return;
    }

    ngx_etcd_auth_later(auth, NGX_ETCD_BACKOFF_MAX);
}


void
ngx_etcd_auth_unanswered(ngx_etcd_auth_t *auth, ngx_uint_t generation,
    ngx_str_t *text)
{
    if (auth->token.len != 0
        && !auth->cluster->conf->token
        && auth->state == NGX_ETCD_AUTH_READY
        && generation == auth->generation)
    {
        ngx_etcd_auth_renew(auth, NGX_ETCD_GRPC_UNAUTHENTICATED, text);
    }
}


ngx_uint_t
ngx_etcd_auth_refused(ngx_etcd_auth_t *auth, ngx_etcd_channel_t *channel,
    ngx_uint_t generation, ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_msec_t  delay;
    ngx_uint_t  refused;

    /* the error is about the token, not about the request */

    refused = status == NGX_ETCD_GRPC_UNAUTHENTICATED
              || (status == NGX_ETCD_GRPC_PERMISSION_DENIED
                  && ngx_etcd_auth_outdated(auth, generation))
              || (status == NGX_ETCD_GRPC_INVALID_ARGUMENT
                  && (ngx_etcd_auth_says(text, "user name is empty")
                      || ngx_etcd_auth_says(text,
                                            "revision of auth store is old")));

    if (!refused) {
        return 0;
    }

    if (auth->state != NGX_ETCD_AUTH_READY || generation != auth->generation) {

        /* another call reported this token before */

        return 1;
    }

    if (status == NGX_ETCD_GRPC_UNAUTHENTICATED
        && auth->token.len != 0
        && ngx_current_msec - auth->issued < NGX_ETCD_AUTH_SPREAD)
    {
        delay = NGX_ETCD_AUTH_REPEAT << ngx_min(auth->repeats, 10);
        auth->repeats++;

        ngx_log_debug2(NGX_LOG_DEBUG_EVENT, auth->cluster->log, 0,
                       "etcd cluster \"%V\": the new token is not known yet, "
                       "again in %M ms", &auth->cluster->conf->name, delay);

        auth->state = NGX_ETCD_AUTH_SPREADING;
        ngx_add_timer(&auth->timer, delay);

        return 1;
    }

    auth->channel = channel;
    ngx_etcd_auth_renew(auth, status, text);

    return 1;
}


ngx_uint_t
ngx_etcd_auth_forbids(ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    return status == NGX_ETCD_GRPC_PERMISSION_DENIED
           && ngx_etcd_auth_says(text, "permission denied");
}


ngx_uint_t
ngx_etcd_auth_outdated(ngx_etcd_auth_t *auth, ngx_uint_t generation)
{
    return ngx_etcd_cluster_authenticates(auth->cluster->conf)
           && (auth->state != NGX_ETCD_AUTH_READY
               || auth->token.len == 0
               || generation != auth->generation);
}


void
ngx_etcd_auth_accepted(ngx_etcd_auth_t *auth)
{
    ngx_etcd_cluster_t  *cluster;

    if (!auth->unauthorized || auth->state != NGX_ETCD_AUTH_READY) {
        return;
    }

    cluster = auth->cluster;

    ngx_log_error(NGX_LOG_NOTICE, cluster->log, 0,
                  "etcd cluster \"%V\": requests are accepted again",
                  &cluster->conf->name);

    ngx_etcd_auth_set_unauthorized(auth, 0);
}
