
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_auth.h>
#include "test_etcd.h"


static ngx_uint_t         test_auth_woken;
static ngx_etcd_waiter_t  test_auth_waiter;


static void
test_auth_handler(void *data)
{
    test_auth_woken++;
}


static ngx_etcd_auth_t *
test_auth_init(ngx_pool_t *pool, char *user)
{
    test_auth_woken = 0;
    ngx_memzero(&test_auth_waiter, sizeof(ngx_etcd_waiter_t));
    test_auth_waiter.handler = test_auth_handler;

    test_etcd_conf(pool, 2);

    test_etcd.conf.user = *tap_string(pool, user);
    test_etcd.conf.password = *tap_string(pool, "secret");
    ngx_str_set(&test_etcd.conf.password_file, "/nonexistent");

    if (test_etcd_create(pool) != NGX_OK) {
        return NULL;
    }

    return test_etcd.cluster->auth;
}


static ngx_etcd_grpc_stream_t *
test_auth_question(void)
{
    return test_etcd_call("/etcdserverpb.Maintenance/Status", 0);
}


static void
test_auth_works(ngx_etcd_grpc_stream_t *question, ngx_uint_t leader)
{
    Etcd__StatusResponse  response;

    etcd__status_response__init(&response);
    response.leader = leader;

    test_etcd_answer(question, &response.base);
    test_loop_run();
}


/* The login that is under way within a time; an etcd that is asked works. */

static ngx_etcd_grpc_stream_t *
test_auth_asked(ngx_msec_t time)
{
    ngx_msec_t               step;
    ngx_etcd_grpc_stream_t  *call, *question;

    for ( ;; ) {
        step = ngx_min(time, 100);
        time -= step;

        test_loop_pass(step);

        question = test_auth_question();

        if (question != NULL) {
            test_auth_works(question, 1);
        }

        call = test_etcd_call("/etcdserverpb.Auth/Authenticate", 0);

        if (call != NULL || time == 0) {
            return call;
        }
    }
}


static void
test_auth_token(ngx_etcd_grpc_stream_t *call, char *token)
{
    Etcd__AuthenticateResponse  response;

    etcd__authenticate_response__init(&response);

    response.token.data = (u_char *) token;
    response.token.len = ngx_strlen(token);

    test_etcd_answer(call, &response.base);
}


/* a call of the streams channel was rejected */

static ngx_uint_t
test_auth_refused(ngx_etcd_auth_t *auth, ngx_uint_t generation,
    ngx_etcd_grpc_status_e status, char *words)
{
    ngx_str_t  text;

    text.data = (u_char *) words;
    text.len = ngx_strlen(words);

    return ngx_etcd_auth_refused(auth, auth->cluster->streams, generation,
                                 status, &text);
}


static ngx_uint_t
test_auth_invalid(ngx_etcd_auth_t *auth, ngx_uint_t generation)
{
    return test_auth_refused(auth, generation, NGX_ETCD_GRPC_UNAUTHENTICATED,
                             "etcdserver: invalid auth token");
}


static void
test_auth_nobody(ngx_pool_t *pool)
{
    ngx_uint_t        generation;
    ngx_keyval_t      md;
    ngx_etcd_auth_t  *auth;

    auth = test_auth_init(pool, "");
    tap_expect(auth != NULL);

    tap_check(ngx_etcd_auth_ready(auth));
    tap_check(ngx_etcd_auth_metadata(auth, &md, &generation) == 0);
    tap_check(!ngx_etcd_auth_outdated(auth, generation));

    ngx_etcd_auth_wait(auth, &test_auth_waiter);
    tap_check(test_auth_woken == 0);
    test_loop_run();
    tap_check(test_auth_woken == 1);

    /* etcd wants a user: it is asked again later */

    tap_check(!test_auth_refused(auth, generation,
                                 NGX_ETCD_GRPC_PERMISSION_DENIED,
                                 "etcdserver: user name is empty"));
    tap_check(test_auth_refused(auth, generation,
                                NGX_ETCD_GRPC_INVALID_ARGUMENT,
                                "etcdserver: user name is empty"));
    tap_check(!ngx_etcd_auth_ready(auth) && auth->unauthorized);

    ngx_etcd_auth_wait(auth, &test_auth_waiter);
    test_loop_pass(NGX_ETCD_AUTH_BACKOFF_MAX);
    tap_check(test_auth_woken == 2 && ngx_etcd_auth_ready(auth));

    ngx_etcd_auth_accepted(auth);
    tap_check(!auth->unauthorized);
}


static void
test_auth_asks(ngx_pool_t *pool)
{
    ngx_uint_t                  generation, former;
    ngx_keyval_t                md;
    ngx_etcd_auth_t            *auth;
    ngx_etcd_grpc_stream_t     *call;
    Etcd__AuthenticateRequest  *request;

    auth = test_auth_init(pool, "nginx");
    tap_expect(auth != NULL);

    tap_check(!ngx_etcd_auth_ready(auth));
    tap_check(test_auth_asked(1000) == NULL);

    ngx_etcd_auth_wait(auth, &test_auth_waiter);
    call = test_auth_asked(0);
    tap_expect(call != NULL);
    tap_check(call->call->secret);
    tap_check(call->call->timeout == NGX_ETCD_LOGIN_TIMEOUT);

    request = (Etcd__AuthenticateRequest *)
              test_etcd_request(pool, call,
                                &etcd__authenticate_request__descriptor);
    tap_check(request->name.len == 5 && request->password.len == 6);
    tap_check(ngx_memcmp(request->password.data, "secret", 6) == 0);

    test_auth_token(call, "first");
    test_loop_run();

    tap_expect(ngx_etcd_auth_ready(auth));
    tap_check(test_auth_woken == 1);
    tap_check(ngx_etcd_auth_metadata(auth, &md, &former) == 1);
    tap_text(&md.key, "token");
    tap_text(&md.value, "first");

    test_loop_pass(NGX_ETCD_AUTH_SPREAD);

    /* the token is refused: one new token serves all calls, also late ones */

    tap_check(test_auth_invalid(auth, former));
    tap_check(!ngx_etcd_auth_ready(auth));
    tap_check(test_auth_invalid(auth, former));
    tap_check(ngx_etcd_auth_outdated(auth, former));

    ngx_etcd_auth_wait(auth, &test_auth_waiter);
    call = test_auth_asked(0);
    tap_expect(call != NULL);

    test_auth_token(call, "second");
    test_loop_run();
    tap_expect(ngx_etcd_auth_ready(auth));

    tap_check(ngx_etcd_auth_metadata(auth, &md, &generation) == 1);
    tap_check(generation != former);
    tap_text(&md.value, "second");

    tap_check(test_auth_invalid(auth, former));
    tap_check(test_auth_refused(auth, former, NGX_ETCD_GRPC_PERMISSION_DENIED,
                                ""));
    tap_check(!test_auth_refused(auth, generation,
                                 NGX_ETCD_GRPC_PERMISSION_DENIED, ""));
    tap_check(ngx_etcd_auth_ready(auth));
}


/* An endpoint does not know a token that another one has just issued. */

static void
test_auth_spreads(ngx_pool_t *pool)
{
    ngx_uint_t               generation, repeats;
    ngx_msec_t               delay;
    ngx_keyval_t             md;
    ngx_etcd_auth_t         *auth;
    ngx_etcd_grpc_stream_t  *call;

    auth = test_auth_init(pool, "nginx");
    tap_expect(auth != NULL);

    (void) ngx_etcd_channel_get(auth->cluster->streams);

    ngx_etcd_auth_wait(auth, &test_auth_waiter);
    call = test_auth_asked(0);
    tap_expect(call != NULL);
    tap_check(call->h2 == ngx_etcd_channel_get(auth->cluster->reads));

    test_auth_token(call, "first");
    test_loop_run();
    tap_expect(ngx_etcd_auth_ready(auth));

    delay = NGX_ETCD_AUTH_REPEAT;

    for (repeats = 0; delay < NGX_ETCD_AUTH_SPREAD; repeats++) {
        tap_check(ngx_etcd_auth_metadata(auth, &md, &generation) == 1);
        tap_text(&md.value, "first");

        tap_check(test_auth_invalid(auth, generation));
        tap_check(!ngx_etcd_auth_ready(auth));

        ngx_etcd_auth_wait(auth, &test_auth_waiter);
        tap_check(test_auth_asked(delay - 1) == NULL);
        tap_check(test_auth_woken == 1 + repeats);

        tap_check(test_auth_asked(1) == NULL);
        tap_check(ngx_etcd_auth_ready(auth));
        tap_check(test_auth_woken == 2 + repeats);

        delay *= 2;
    }

    /* an endpoint that goes on rejecting a token issues the next one */

    tap_check(ngx_etcd_auth_metadata(auth, &md, &generation) == 1);
    tap_check(test_auth_invalid(auth, generation));
    tap_check(auth->token.len == 0);

    ngx_etcd_auth_wait(auth, &test_auth_waiter);
    call = test_auth_asked(0);
    tap_expect(call != NULL);
    tap_check(call->h2 == ngx_etcd_channel_get(auth->cluster->streams));

    /* streams stay where they are if it does not */

    test_etcd_fail(call, NGX_ETCD_GRPC_UNAVAILABLE, "etcdserver: no leader");
    tap_check(ngx_etcd_channel_get(auth->cluster->streams) != NULL);

    call = test_auth_asked(NGX_ETCD_BACKOFF_MAX);
    tap_expect(call != NULL);
    tap_check(call->h2 == ngx_etcd_channel_get(auth->cluster->reads));

    test_auth_token(call, "second");
    test_loop_run();
    tap_expect(ngx_etcd_auth_ready(auth));

    /* a new token of an older revision of users is not tried again */

    (void) ngx_etcd_auth_metadata(auth, &md, &generation);
    tap_check(test_auth_refused(auth, generation,
                                NGX_ETCD_GRPC_INVALID_ARGUMENT,
                                "etcdserver: revision of auth store is old"));
    tap_check(auth->token.len == 0);

    /* an endpoint that is lost issues none */

    test_etcd.down = 1;
    test_etcd_break(ngx_etcd_channel_get(auth->cluster->streams), "reset");
    ngx_etcd_auth_wait(auth, &test_auth_waiter);

    call = test_auth_asked(NGX_ETCD_BACKOFF_MAX);
    tap_expect(call != NULL);
    tap_check(call->h2 == ngx_etcd_channel_get(auth->cluster->reads));
}


/* Tokens that would break a header, and none. */

static void
test_auth_broken(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_auth_t         *auth;
    ngx_etcd_grpc_stream_t  *call;

    static char *tokens[] = { "", "a b", "a\r\nx: y", "t\xc3\xb6ken", "\x7f" };

    auth = test_auth_init(pool, "nginx");
    tap_expect(auth != NULL);

    ngx_etcd_auth_wait(auth, &test_auth_waiter);

    for (i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        call = test_auth_asked(NGX_ETCD_LOGIN_PAUSE_MAX);
        tap_expect(call != NULL);

        test_auth_token(call, tokens[i]);
        tap_check(!ngx_etcd_auth_ready(auth) && test_auth_woken == 0);
    }

    call = test_auth_asked(NGX_ETCD_LOGIN_PAUSE_MAX);
    tap_expect(call != NULL);

    test_etcd_fail(call, NGX_ETCD_GRPC_OK, "");
    tap_check(!ngx_etcd_auth_ready(auth) && !auth->unauthorized);
}


static void
test_auth_denied(ngx_pool_t *pool)
{
    ngx_etcd_auth_t         *auth;
    ngx_etcd_grpc_stream_t  *call;

    auth = test_auth_init(pool, "nginx");
    tap_expect(auth != NULL);

    ngx_etcd_auth_wait(auth, &test_auth_waiter);
    call = test_auth_asked(0);
    tap_expect(call != NULL);

    test_etcd_fail(call, NGX_ETCD_GRPC_INVALID_ARGUMENT,
                   "etcdserver: authentication failed, invalid user ID or "
                   "password");
    tap_check(auth->unauthorized && !ngx_etcd_auth_ready(auth));

    /* a wrong password costs etcd as much: etcd is asked before the next */

    tap_check(auth->login.suspect);

    /* without auth there it goes on without a token */

    call = test_auth_asked(NGX_ETCD_AUTH_BACKOFF_MAX);
    tap_expect(call != NULL);

    test_etcd_fail(call, NGX_ETCD_GRPC_FAILED_PRECONDITION,
                   "etcdserver: authentication is not enabled");
    test_loop_run();

    tap_check(ngx_etcd_auth_ready(auth) && !auth->unauthorized);
    tap_check(auth->token.len == 0 && test_auth_woken == 1);
}


/* Etcd is busy: a login is not repeated while the endpoint works. */

static void
test_auth_busy(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_auth_t         *auth;
    ngx_etcd_grpc_stream_t  *call, *question;

    auth = test_auth_init(pool, "nginx");
    tap_expect(auth != NULL);

    ngx_etcd_auth_wait(auth, &test_auth_waiter);
    call = test_auth_asked(0);
    tap_expect(call != NULL);

    for (i = 0; i < 30; i++) {
        test_loop_pass(NGX_ETCD_LOGIN_ATTEMPT - 1);
        tap_check(test_auth_question() == NULL);

        test_loop_pass(1);
        question = test_auth_question();
        tap_expect(question != NULL);

        /* An endpoint that refuses has answered. */

        if (i == 0) {
            test_etcd_fail(question, NGX_ETCD_GRPC_PERMISSION_DENIED, "");

        } else {
            test_auth_works(question, 1);
        }

        tap_check(test_etcd_call("/etcdserverpb.Auth/Authenticate", 0) == call);
    }

    test_loop_pass(NGX_ETCD_LOGIN_ATTEMPT);
    tap_expect(test_auth_question() != NULL);

    test_auth_token(call, "late");
    test_loop_run();

    tap_expect(ngx_etcd_auth_ready(auth));
    tap_check(test_auth_question() == NULL);
    tap_check(!auth->login.suspect);
}


/* An endpoint that has no leader, or does not answer, is left. */

static void
test_auth_silent(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_auth_t         *auth;
    ngx_etcd_http2_t        *h2;
    ngx_etcd_grpc_stream_t  *call, *question;

    auth = test_auth_init(pool, "nginx");
    tap_expect(auth != NULL);

    ngx_etcd_auth_wait(auth, &test_auth_waiter);

    for (i = 0; i < 2; i++) {
        call = test_auth_asked(NGX_ETCD_LOGIN_PAUSE_MAX);
        tap_expect(call != NULL);

        h2 = call->h2;

        test_loop_pass(NGX_ETCD_LOGIN_ATTEMPT << i);
        question = test_auth_question();
        tap_expect(question != NULL && question->h2 == h2);

        if (i == 0) {
            test_auth_works(question, 0);

        } else {
            test_loop_pass(2 * (NGX_ETCD_LOGIN_ATTEMPT << i));
        }

        tap_check(ngx_etcd_channel_get(auth->cluster->reads) != h2);
    }

    tap_check(auth->failures == 2 && !auth->unauthorized);
}


/* A client waits for its turn, and logs in to a slow etcd in the end. */

static void
test_auth_turn(ngx_pool_t *pool)
{
    ngx_uint_t               slow;
    ngx_etcd_auth_t         *auth;
    ngx_etcd_grpc_stream_t  *question;

    auth = test_auth_init(pool, "nginx");
    tap_expect(auth != NULL);

    ngx_etcd_login_suspect(&auth->login, 1);
    ngx_etcd_auth_wait(auth, &test_auth_waiter);

    for (slow = 0; slow <= NGX_ETCD_LOGIN_SLOW; slow++) {
        test_loop_run();

        do {
            question = test_auth_question();

            if (question == NULL) {
                test_loop_pass(100);
            }

        } while (question == NULL);

        tap_check(test_etcd_call("/etcdserverpb.Auth/Authenticate", 0) == NULL);

        test_loop_pass(NGX_ETCD_LOGIN_PROMPT + 1);
        test_auth_works(question, 1);
    }

    tap_expect(test_etcd_call("/etcdserverpb.Auth/Authenticate", 0) != NULL);
    tap_expect(auth->failures == 0);
}


ngx_etcd_tap_test_t  test_auth[] = {
    { "auth: no user", test_auth_nobody },
    { "auth: tokens", test_auth_asks },
    { "auth: a token that is not known everywhere", test_auth_spreads },
    { "auth: tokens that are none", test_auth_broken },
    { "auth: refused, and disabled", test_auth_denied },
    { "auth: a busy etcd", test_auth_busy },
    { "auth: endpoints that do not answer", test_auth_silent },
    { "auth: a turn", test_auth_turn },
    { NULL, NULL }
};
