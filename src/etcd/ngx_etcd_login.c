
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_login.h>
#include <ngx_etcd_proto.pb-c.h>
#include <ngx_etcd_secret.h>


void
ngx_etcd_auth_file_read(ngx_etcd_auth_file_t *file,
    ngx_etcd_cluster_conf_t *conf, ngx_log_t *log)
{
    char        *fault, *name;
    ngx_err_t    err;
    ngx_str_t   *password;
    ngx_uint_t   level;

    name = ngx_etcd_cluster_password_name(conf);

    password = &file->password;
    fault = conf->token
            ? ngx_etcd_token_read(conf->password_file.data, password, &err)
            : ngx_etcd_password_read(conf->password_file.data, password, &err);

    if (fault == NULL) {
        file->readable = 1;
        file->unreadable = 0;
    }

    if (fault != NULL && err == NGX_EACCES) {

        /*
         * A file that only the master may read is not a fault, but one that
         * workers could read before is.
         */

        if (!file->unreadable) {
            level = file->readable ? NGX_LOG_ERR : NGX_LOG_INFO;

            ngx_log_error(level, log, err,
                          "etcd cluster \"%V\": \"%s\" \"%V\" is not readable "
                          "for workers (uid %d), a change of it needs a "
                          "reload", &conf->name, name, &conf->password_file,
                          (int) geteuid());
        }

        file->unreadable = 1;
        return;
    }

    if (fault != NULL && fault != file->fault) {
        ngx_log_error(NGX_LOG_ERR, log, err,
                      "etcd cluster \"%V\": \"%s\" \"%V\" %s, what was read "
                      "before is used", &conf->name, name,
                      &conf->password_file, fault);
    }

    file->fault = fault;
}


ngx_uint_t
ngx_etcd_auth_file_changed(ngx_etcd_auth_file_t *file,
    ngx_etcd_cluster_conf_t *conf)
{
    ngx_file_info_t  fi;

    if (file->looked == ngx_time()) {
        return 0;
    }

    file->looked = ngx_time();

    if (ngx_file_info(conf->password_file.data, &fi) == NGX_FILE_ERROR
        || (ngx_file_mtime(&fi) == file->mtime
            && ngx_file_uniq(&fi) == file->uniq
            && ngx_file_size(&fi) == file->size))
    {
        return 0;
    }

    file->mtime = ngx_file_mtime(&fi);
    file->uniq = ngx_file_uniq(&fi);
    file->size = ngx_file_size(&fi);

    return 1;
}


static ngx_int_t
ngx_etcd_login_message(ngx_etcd_grpc_call_t *call, ProtobufCMessage *message,
    ngx_pool_t *pool)
{
    size_t                       i;
    ngx_etcd_login_t            *login;
    ProtobufCBinaryData         *token;
    Etcd__AuthenticateResponse  *response;

    login = call->data;
    response = (Etcd__AuthenticateResponse *) message;
    token = &response->token;

    if (login->token.data != NULL
        || token->len == 0 || token->len > NGX_ETCD_TOKEN_MAX)
    {
        return NGX_ERROR;
    }

    /* the token becomes the value of a header field */

    for (i = 0; i < token->len; i++) {
        if (token->data[i] <= ' ' || token->data[i] > '~') {
            return NGX_ERROR;
        }
    }

    login->token.data = ngx_etcd_secret_alloc(token->len, login->log);
    if (login->token.data == NULL) {
        return NGX_ERROR;
    }

    login->token.len = token->len;
    ngx_memcpy(login->token.data, token->data, token->len);
    ngx_explicit_memzero(token->data, token->len);

    return NGX_OK;
}


static void
ngx_etcd_login_ended(ngx_etcd_grpc_call_t *call, ngx_etcd_grpc_status_e status,
    ngx_str_t *text)
{
    ngx_str_t          missing;
    ngx_etcd_login_t  *login;

    login = call->data;
    login->calling = 0;

    ngx_etcd_grpc_cancel(&login->question);
    ngx_etcd_event_stop(&login->timer);

    if (status == NGX_ETCD_GRPC_OK && login->token.len == 0) {
        status = NGX_ETCD_GRPC_INTERNAL;
        ngx_str_set(&missing, "OK without a token");
        text = &missing;
    }

    if (status != NGX_ETCD_GRPC_OK) {
        ngx_etcd_secret_drop(&login->token);
    }

    login->done(login, status, text);
}


static ngx_int_t
ngx_etcd_login_call(ngx_etcd_login_t *login, ngx_etcd_http2_t *h2)
{
    ngx_etcd_grpc_call_t       *call;
    Etcd__AuthenticateRequest   request;

    call = &login->call;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = "/etcdserverpb.Auth/Authenticate";
    call->response = &etcd__authenticate_response__descriptor;
    call->timeout = NGX_ETCD_LOGIN_TIMEOUT;
    call->message = ngx_etcd_login_message;
    call->done = ngx_etcd_login_ended;
    call->secret = 1;
    call->data = login;

    login->sent = ngx_current_msec;

    etcd__authenticate_request__init(&request);

    request.name = ngx_etcd_bytes(login->user);
    request.password = ngx_etcd_bytes(login->password);

    if (ngx_etcd_grpc_request(h2, call, &request.base) != NGX_OK) {
        return NGX_ERROR;
    }

    login->calling = 1;
    ngx_add_timer(&login->timer, login->attempt);

    return NGX_OK;
}


/*
 * The endpoint answers neither the login nor the question, or has no leader: it
 * cannot make a token known.
 */

static void
ngx_etcd_login_leave(ngx_etcd_login_t *login)
{
    ngx_str_t               text;
    ngx_etcd_grpc_status_e  status;

    ngx_etcd_login_cancel(login);

    if (login->leaderless) {
        status = NGX_ETCD_GRPC_UNAVAILABLE;
        ngx_str_set(&text, "no leader");

    } else {
        status = NGX_ETCD_GRPC_DEADLINE_EXCEEDED;
        ngx_str_set(&text, "no answer to a login");
    }

    login->done(login, status, &text);
}


static void
ngx_etcd_login_go_on(ngx_etcd_login_t *login)
{
    ngx_uint_t         slow;
    ngx_etcd_http2_t  *h2;

    if (login->calling) {
        ngx_add_timer(&login->timer, login->attempt);
        return;
    }

    slow = (ngx_current_msec - login->sent > NGX_ETCD_LOGIN_PROMPT);

    if (slow && login->slow < NGX_ETCD_LOGIN_SLOW) {
        login->busy(login, ngx_etcd_login_pause(++login->slow));
        return;
    }

    login->slow = 0;

    h2 = ngx_etcd_channel_get(login->channel);

    if (h2 == NULL || ngx_etcd_login_call(login, h2) != NGX_OK) {
        login->busy(login, ngx_etcd_login_pause(1));
    }
}


static ngx_int_t
ngx_etcd_login_answer(ngx_etcd_grpc_call_t *call, ProtobufCMessage *message,
    ngx_pool_t *pool)
{
    ngx_etcd_login_t      *login;
    Etcd__StatusResponse  *response;

    login = call->data;
    response = (Etcd__StatusResponse *) message;

    login->leaderless = (response->leader == 0);

    return NGX_OK;
}


/*
 * Etcd 3.5.30 tells its status to root alone, and a proxy may not know it: an
 * endpoint that refuses has answered.
 */

static void
ngx_etcd_login_answered(ngx_etcd_grpc_call_t *call,
    ngx_etcd_grpc_status_e status, ngx_str_t *text)
{
    ngx_etcd_login_t  *login;

    login = call->data;

    if (status == NGX_ETCD_GRPC_UNAVAILABLE
        || status == NGX_ETCD_GRPC_DEADLINE_EXCEEDED
        || login->leaderless)
    {
        ngx_etcd_login_leave(login);
        return;
    }

    ngx_etcd_login_go_on(login);
}


static ngx_int_t
ngx_etcd_login_ask(ngx_etcd_login_t *login, ngx_etcd_http2_t *h2)
{
    Etcd__StatusRequest    request;
    ngx_etcd_grpc_call_t  *call;

    call = &login->question;
    ngx_memzero(call, sizeof(ngx_etcd_grpc_call_t));

    call->method = "/etcdserverpb.Maintenance/Status";
    call->response = &etcd__status_response__descriptor;
    call->timeout = 2 * login->attempt;
    call->message = ngx_etcd_login_answer;
    call->done = ngx_etcd_login_answered;
    call->data = login;

    login->leaderless = 0;
    login->sent = ngx_current_msec;

    etcd__status_request__init(&request);

    return ngx_etcd_grpc_request(h2, call, &request.base);
}


/* A login was not answered yet. */

static void
ngx_etcd_login_timer(ngx_event_t *ev)
{
    ngx_etcd_http2_t  *h2;
    ngx_etcd_login_t  *login;

    login = ev->data;

    h2 = ngx_etcd_channel_get(login->channel);

    if (h2 == NULL || ngx_etcd_login_ask(login, h2) != NGX_OK) {
        ngx_etcd_login_leave(login);
    }
}


void
ngx_etcd_login_init(ngx_etcd_login_t *login)
{
    ngx_etcd_event_init_timer(&login->timer, ngx_etcd_login_timer, login,
                              login->log);
}


ngx_int_t
ngx_etcd_login_begin(ngx_etcd_login_t *login, ngx_etcd_http2_t *h2,
    ngx_uint_t failures)
{
    login->attempt = NGX_ETCD_LOGIN_ATTEMPT << ngx_min(failures, 16);
    login->attempt = ngx_min(login->attempt, NGX_ETCD_LOGIN_ATTEMPT_MAX);
    login->leaderless = 0;

    if (login->suspect || ngx_etcd_channel_slow(login->channel)) {
        return ngx_etcd_login_ask(login, h2);
    }

    return ngx_etcd_login_call(login, h2);
}


void
ngx_etcd_login_cancel(ngx_etcd_login_t *login)
{
    login->calling = 0;

    ngx_etcd_grpc_cancel(&login->call);
    ngx_etcd_grpc_cancel(&login->question);
    ngx_etcd_event_stop(&login->timer);

    ngx_etcd_secret_drop(&login->token);
}


ngx_msec_t
ngx_etcd_login_pause(ngx_uint_t reasons)
{
    ngx_msec_t  max;

    max = NGX_ETCD_LOGIN_PAUSE << ngx_min(reasons, 16);
    max = ngx_min(max, NGX_ETCD_LOGIN_PAUSE_MAX);

    return 1 + (ngx_msec_t) ngx_random() % max;
}
